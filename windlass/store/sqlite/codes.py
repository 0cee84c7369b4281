"""How values are written in the file: states and holds as small integers, JSON as text.

The numbers are part of the file's format: never renumber them.
"""

from __future__ import annotations

from windlass.core.job import State

STATES = (
    State.WAITING, State.SCHEDULED, State.READY, State.RUNNING,
    State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED,
)  # fmt: skip
"""A state's code is its place here."""

CODE: dict[State, int] = {state: code for code, state in enumerate(STATES)}

WAITING, SCHEDULED, READY, RUNNING, SUCCEEDED, FAILED, CANCELLED, SKIPPED = range(8)
FIRST_TERMINAL = SUCCEEDED

ASIDE, SOLO = 1, 2
"""Why a ready job is out of the ready order: no claiming worker declared it, or it must run alone. 0: it is not."""

BAND = 1 << 56
"""Ranks are ``(9 - priority) * BAND + counter``, so that one integer orders a queue."""


def to_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def to_text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
