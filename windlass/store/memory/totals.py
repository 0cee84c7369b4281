"""Totals: how many events there ever were, added up where they are recorded."""

from __future__ import annotations

from collections import Counter

from windlass.core.event import Group
from windlass.store.reads import Total

Totals = Counter[tuple[str, str, str]]
"""By queue, task and kind."""

UNCOUNTED = frozenset({"progress", "log"})


def count(totals: Totals, groups: list[Group]) -> None:
    """Every event of a job. What a workflow's has in the place of a task is the workflow's name."""
    for kind, _, rows in groups:
        if kind in UNCOUNTED or kind.startswith("workflow_"):
            continue
        for row in rows:
            if len(row) > 2 and row[1]:
                totals[row[2], row[1], kind] += 1


def read(totals: Totals) -> list[Total]:
    return [Total(kind, queue, task, count) for (queue, task, kind), count in sorted(totals.items())]
