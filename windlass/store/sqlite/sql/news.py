"""The event stream. What looks for a few kinds reads no more of an entry than these, where they are not in it."""

from __future__ import annotations

TOTALS = "SELECT what, queue, task, many FROM counts WHERE task > '' ORDER BY queue, task, what"


def newest(kinds: int) -> str:
    return f"SELECT seq, at, groups FROM events WHERE {_any_of(kinds)} ORDER BY seq DESC LIMIT 1"


def behind(kinds: int) -> str:
    return f"SELECT seq, at, groups FROM events WHERE ({_any_of(kinds)}) AND seq > ? ORDER BY seq LIMIT ?"


def _any_of(kinds: int) -> str:
    return " OR ".join(["instr(kinds, ?)"] * kinds) or "true"
