"""Totals: how many events there were in all, counted when they are recorded."""

from __future__ import annotations

from collections import Counter

from windlass.core.event import Group
from windlass.store.reads import Total

Totals = Counter[tuple[str, str, str]]
"""By queue, task and kind."""

UNCOUNTED = frozenset({"progress", "log"})


def count(totals: Totals, groups: list[Group]) -> None:
    """Add the events of jobs. A workflow's event has the workflow's name in the place of a task and is not counted."""
    for kind, _, rows in groups:
        if kind in UNCOUNTED or kind.startswith("workflow_"):
            continue
        for row in rows:
            if len(row) > 2 and row[1]:
                totals[row[2], row[1], kind] += 1


def read(totals: Totals) -> list[Total]:
    return [Total(kind, queue, task, count) for (queue, task, kind), count in sorted(totals.items())]
