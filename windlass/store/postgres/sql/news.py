"""The event stream."""

from __future__ import annotations

TOTALS = """
SELECT what, queue, task, many FROM counts WHERE task > ''
ORDER BY queue COLLATE "C", task COLLATE "C", what COLLATE "C"
"""


def newest(kinds: int) -> str:
    return f"SELECT seq, at, groups FROM events WHERE {_any_of(kinds)} ORDER BY seq DESC LIMIT 1"


def behind(kinds: int) -> str:
    number, limit = kinds + 1, kinds + 2
    return (
        f"SELECT seq, at, groups FROM events WHERE ({_any_of(kinds)}) AND seq > ${number} ORDER BY seq LIMIT ${limit}"
    )


def _any_of(kinds: int) -> str:
    return " OR ".join(f"strpos(kinds, ${i}) > 0" for i in range(1, kinds + 1)) or "true"
