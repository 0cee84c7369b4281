"""Terms, gates and unique keys: what goes to the functions about them and comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.limits import NO_LIMITS, Limits
from windlass.core.terms import Terms
from windlass.store.flow import GateInfo, Hold, HoldKind, Tuning, UniqueInfo
from windlass.store.redis.wire.packing import as_text, encode

_USUAL_TERMS = msgspec.structs.astuple(Terms())
read_terms = msgspec.msgpack.Decoder(Terms).decode
_limits = msgspec.msgpack.Decoder(Limits).decode
_hold = msgspec.msgpack.Decoder(tuple[HoldKind, str, str, str, int, int, int]).decode
GATE = 10


def is_light(given: Terms | None) -> bool:
    """Whether a job with these terms needs no head while it waits and runs as it came in."""
    return given is not None and not (given.unique or given.ordered or given.seq or given.ageing)


def terms(given: Terms | None) -> msgspec.Raw | bool:
    """Terms as they are kept, without what is as usual at their end; the functions read them too. False for none."""
    return as_text(packed_terms(given)) if given is not None else False


def packed_terms(given: Terms) -> bytes:
    values = msgspec.structs.astuple(given)
    size = len(values)
    while size > 1 and values[size - 1] == _USUAL_TERMS[size - 1]:
        size -= 1
    return encode(values[:size])


def tune(tunings: Sequence[Tuning]) -> bytes:
    def packed(said: Limits | bytes | msgspec.UnsetType) -> msgspec.Raw | bool:
        if isinstance(said, msgspec.UnsetType):
            return False
        return as_text(encode(said) if isinstance(said, Limits) else said)

    return encode(
        [
            [
                one.name, one.expect, packed(one.declared), packed(one.tuned),
                -1 if one.closed_for is msgspec.UNSET else one.closed_for, packed(one.note),
            ]
            for one in tunings
        ]
    )  # fmt: skip


def limits(packed: bytes) -> Limits:
    return _limits(packed) if packed else NO_LIMITS


def gates(parts: Sequence[Any]) -> list[GateInfo]:
    return [
        GateInfo(
            name=name.decode(), version=version, declared=limits(declared), tuned=limits(tuned), closed_for=closed_for,
            note=note, held=held, waiting=waiting, opens_in=opens_in, changed=bool(changed),
        )
        for name, version, declared, tuned, closed_for, note, held, waiting, opens_in, changed in (
            parts[at : at + GATE] for at in range(0, len(parts), GATE)
        )
    ]  # fmt: skip


def hold(packed: bytes) -> Hold | None:
    if not packed:
        return None
    kind, lane, gate, holder, missing, opens_in, ahead = _hold(packed)
    return Hold(
        kind=kind, lane=lane, gate=gate, holder=holder, missing=missing, opens_in=opens_in, ahead=ahead
    )  # fmt: skip


def uniques(parts: Sequence[Any]) -> list[UniqueInfo | None]:
    return [
        UniqueInfo(holder=parts[at].decode(), successor=parts[at + 1].decode(), window=parts[at + 2])
        if parts[at]
        else None
        for at in range(0, len(parts), 3)
    ]
