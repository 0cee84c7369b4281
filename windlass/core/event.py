"""The values of the event stream: engines keep one entry per write, readers see one event per job.

An entry is a list of groups ``[kind, worker, rows]`` with one row ``[id, task, queue, data]`` per job, shortened where
the tail is empty. So a write of a thousand jobs costs one record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.core.hints import did_you_mean
from windlass.errors import ConfigError

_KINDS = (
    "enqueued started progress log retried snoozed released succeeded failed cancelled skipped duplicate lost replayed "
    "deleted waiting worker_up worker_down workflow_started workflow_succeeded workflow_failed workflow_cancelled "
    "workflow_repaired replaced gate_changed schedule_fired"
)
KINDS = frozenset(_KINDS.split(" "))

_NUMBER = re.compile("[0-9]{1,18}")

Row = list[Any]
Group = tuple[str, str, list[Row]]


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened to a job. Reading on from ``cursor`` gives the events after it."""

    cursor: str
    at: int
    kind: str
    job: str = ""
    task: str = ""
    queue: str = ""
    worker: str = ""
    data: Any = None


class Entry(msgspec.Struct, array_like=True):
    """The events of one write, as an engine keeps them."""

    seq: int
    at: int
    groups: list[Group]


def expand(entry: Entry, after: int = -1) -> Iterator[Event]:
    """The single events of an entry that come after place ``after``."""
    place = 0
    for kind, worker, rows in entry.groups:
        for row in rows:
            if place > after:
                job, task, queue = [*row, "", "", ""][:3]
                data = row[3] if len(row) > 3 else None
                yield Event(f"{entry.seq}-{place}", entry.at, kind, job, task, queue, worker, data)
            place += 1


def parse_cursor(cursor: str) -> tuple[int, int]:
    """``(entry, place)`` of a cursor. The empty cursor stands before the oldest event kept."""
    if not cursor:
        return 0, -1
    seq, dash, place = cursor.partition("-")
    if not _NUMBER.fullmatch(seq) or (dash and not _NUMBER.fullmatch(place)):
        raise ConfigError(f"event cursor {cursor!r} is not one this stream gave out")
    return int(seq), int(place) if dash else 1 << 60


def check_kinds(kinds: Iterator[str] | list[str]) -> frozenset[str]:
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(f"unknown event kind {kind!r}{did_you_mean(kind, KINDS)}")
    return frozenset(kinds)
