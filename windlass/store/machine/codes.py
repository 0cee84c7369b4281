"""How values are written in the file: states (``store.shared``) and holds as small integers, JSON as text.

The numbers are part of the file's format: never renumber them.
"""

from __future__ import annotations

WAITING, SCHEDULED, READY, RUNNING, SUCCEEDED, FAILED, CANCELLED, SKIPPED = range(8)
FIRST_TERMINAL = SUCCEEDED

ASIDE, SOLO, LANE = 1, 2, 3
"""Why a ready job is out of the ready order: no claiming worker declared it, it must run alone, or it is in a lane.
0: it is not."""

BAND = 1 << 56
"""Ranks are ``(9 - priority) * BAND + counter``, so that one integer orders a queue."""

MIDDLE = 4
"""The band of priority 5, in which all jobs of strict lanes are, and those that age."""

AGED = 1 << 48
"""Ranks of jobs that age are instants beyond this: they come behind all others of their band."""


RAW = "\x01"
"""What cannot be text is kept as this mark and hexadecimal digits. No JSON begins like this."""


def to_text(data: bytes) -> str:
    """Bytes as text. They are JSON, and readable in the file, unless a caller has other ideas."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return RAW + data.hex()
    return RAW + data.hex() if "\0" in text or text[:1] == RAW else text


def to_bytes(text: str) -> bytes:
    return bytes.fromhex(text[1:]) if text[:1] == RAW else text.encode()


def maybe_text(data: bytes | None) -> str | None:
    return None if data is None else to_text(data)


def maybe_bytes(text: str | None) -> bytes | None:
    return None if text is None else to_bytes(text)
