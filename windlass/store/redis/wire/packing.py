"""What all parts of the wire share: MessagePack as the functions read and write it, and bytes among their texts."""

from __future__ import annotations

import msgspec

from windlass.store.base import StoreSettings

encode = msgspec.msgpack.Encoder().encode

UNREADABLE = (msgspec.DecodeError, ValueError, TypeError, IndexError)
"""A name that is no text, a number that stands for nothing, a part that is missing."""

_HEADS = {0xD9: 2, 0xDA: 3, 0xDB: 5}
"""How many bytes stand before a text, by the first of them; others have just the one."""


def settings(given: StoreSettings, cluster: bool) -> bytes:
    """What every call says of the app."""
    done, failed = given.keep.buckets("")
    times = given.staged_for, given.audit_every
    return encode([done, failed, given.unknown_after, given.events_kept, given.logs_kept, cluster, *times])


def as_text(data: bytes) -> msgspec.Raw:
    """Bytes in the only form of them that Lua's MessagePack reads."""
    size = len(data)
    if size < 32:
        return msgspec.Raw(bytes((0xA0 + size,)) + data)
    if size < 1 << 16:
        return msgspec.Raw(b"\xda" + size.to_bytes(2, "big") + data)
    return msgspec.Raw(b"\xdb" + size.to_bytes(4, "big") + data)


def raw(part: msgspec.Raw) -> bytes | None:
    """The bytes of a value that Lua kept as text, without looking at them; None for false."""
    whole = bytes(part)
    return None if whole == b"\xc2" else whole[_HEADS.get(whole[0], 1) :]
