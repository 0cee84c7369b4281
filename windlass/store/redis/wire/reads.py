"""Listings, totals, faults, events and workers: what is asked of many jobs at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.event import Entry, Group
from windlass.core.event import Row as EventRow
from windlass.store.jobs import Presence, Query
from windlass.store.reads import Fault, Total
from windlass.store.redis.wire.packing import UNREADABLE, encode
from windlass.store.shared import STATES

presence = msgspec.msgpack.Decoder(Presence).decode
_Rows = tuple[str, str, str, str, list[str], list[str] | bool | None]
_entry = msgspec.msgpack.Decoder(tuple[int, list[_Rows]]).decode
_json = msgspec.json.Decoder().decode


def query(asked: Query) -> bytes:
    states = [state in asked.states for state in STATES] if asked.states else False
    newest = not asked.oldest_first
    return encode(
        [asked.queue, states, asked.task, asked.fingerprint, asked.worker, asked.since, asked.until, newest]
    )  # fmt: skip


def totals(parts: Sequence[bytes]) -> list[Total]:
    found = [(name.decode().split("\n"), int(number)) for name, number in zip(parts[::2], parts[1::2], strict=True)]
    return [Total(kind, queue, task, count) for (kind, queue, task), count in sorted(found, key=_by_queue) if count > 0]


def _by_queue(counted: tuple[list[str], int]) -> tuple[str, str, str]:
    (kind, queue, task), _ = counted
    return queue, task, kind


def faults(parts: Sequence[Any]) -> list[Fault]:
    return [Fault(parts[at].decode(), parts[at + 1], parts[at + 2].decode()) for at in range(0, len(parts), 3)]


def entry(name: bytes, packed: bytes) -> Entry:
    """An entry of the event stream. Neighbours of one kind, kept apart by task and queue, are one group again."""
    try:
        at, kept = _entry(packed)
    except UNREADABLE:  # damaged: those who follow the stream must get past it
        at, kept = 0, []
    groups: list[Group] = []
    for kind, worker, task, queue, ids, data in kept:
        rows: list[EventRow] = [[id, task, queue] for id in ids]
        if isinstance(data, list):
            rows = [[*row, _json(said)] for row, said in zip(rows, data, strict=True)]
        if groups and groups[-1][0] == kind and groups[-1][1] == worker:
            groups[-1][2].extend(rows)
        else:
            groups.append((kind, worker, rows))
    return Entry(int(name.partition(b"-")[0]), at, groups)
