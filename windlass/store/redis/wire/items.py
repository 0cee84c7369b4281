"""What goes to the functions for items and logs, and what comes back from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.event import Group
from windlass.store.answers import Accept, GraphAnswer
from windlass.store.items import Commit, Committed, Item, LogInfo, LogKeep, Put, Record, StreamEnd
from windlass.store.redis.commands import Word
from windlass.store.redis.wire import graphs, jobs
from windlass.store.redis.wire.packing import encode

LOOKS, WRITES, TAKES_OFF = 0, 1, 2
VERSION = 6
"""So many bytes before a body are its version."""

LOG = 7

_json = msgspec.json.Encoder().encode


def commit(commits: Sequence[Commit]) -> list[Word]:
    """Commits as lua/items/commit.lua wants them; what is large goes as an argument of its own."""
    said: list[Any] = []
    large: list[Word] = []
    for step in commits:
        items = [part for put in step.items for part in (put.shelf, put.key, _what(put), put.ttl, put.expect)]
        large += [put.body for put in step.items if isinstance(put.body, bytes)]
        appends = [part for new in step.appends for part in (new.log, new.stream, len(new.bodies), new.expect)]
        large += [body for new in step.appends for body in new.bodies]
        graph = [] if step.graph is None else graphs.insert_graph(step.graph, 0, step.nodes, True)
        large += graph
        said.append((items, appends, len(step.jobs), len(graph), step.event is not None and _event(step.event)))
    extras, *inserted = jobs.insert([job for step in commits for job in step.jobs])
    return [encode(said), extras, *large, *inserted]


def _what(put: Put) -> int:
    if put.body is None:
        return TAKES_OFF
    return WRITES if isinstance(put.body, bytes) else LOOKS


def _event(group: Group) -> list[Any]:
    """Flat; what is said of a row is JSON, as in the event stream."""
    kind, worker, rows = group
    flat: list[Any] = [kind, worker]
    for row in rows:
        flat += [*row, "", "", ""][:3]
        flat.append(_json(row[3]).decode() if len(row) > 3 else False)
    return flat


def committed(step: Commit, reply: Sequence[Any]) -> Committed:
    done, shown, ends, answers, graph = reply
    return Committed(
        done=bool(done), items=[_shown(put, *shown[3 * n : 3 * n + 3]) for n, put in enumerate(step.items)],
        ends=[StreamEnd(ends[at], ends[at + 1]) for at in range(0, len(ends), 2)],
        answers=[jobs.answer(said) for said in answers], graph=_graph(*graph) if graph else None,
    )  # fmt: skip


def _shown(put: Put, version: int, ttl: int, body: bytes | None) -> Item:
    """Without a body it is the one that was put."""
    if body is None:
        assert isinstance(put.body, bytes)
        body = put.body
    return Item(shelf=put.shelf, key=put.key, body=body, ttl=ttl, version=version)


def _graph(id: bytes, status: bytes, reason: bytes, staged: int, more: int) -> GraphAnswer:
    return GraphAnswer(Accept(status.decode()), reason.decode(), staged, bool(more))


def items(shelf: str, keys: Sequence[str], parts: Sequence[Any]) -> list[Item]:
    """Items asked for by their keys, from what is left of their time and how each is kept."""
    return [_item(shelf, key, *parts[2 * n : 2 * n + 2]) for n, key in enumerate(keys)]


def page(shelf: str, parts: Sequence[Any]) -> list[Item]:
    return [_item(shelf, parts[at].decode(), parts[at + 1], parts[at + 2]) for at in range(0, len(parts), 3)]


def _item(shelf: str, key: str, ttl: int, packed: bytes) -> Item:
    version = int.from_bytes(packed[:VERSION], "big")
    return Item(shelf=shelf, key=key, body=packed[VERSION:], ttl=ttl, version=version)


def records(entries: Sequence[Any]) -> list[Record]:
    return [record(name, fields) for name, fields in entries]


def record(name: bytes, fields: Sequence[bytes]) -> Record:
    """One that is damaged is shown as empty: those who follow the log must get past it."""
    position, _, at = name.partition(b"-")
    try:
        _, stream, _, n, _, body = fields
        return Record(int(position), stream.decode(), int(n), int(at), body)
    except ValueError:
        return Record(int(position), "", 0, int(at), b"")


def logs(parts: Sequence[Any]) -> list[LogInfo]:
    found: list[LogInfo] = []
    for start in range(0, len(parts), LOG):
        name, first, last, size, age, count, most = parts[start : start + LOG]
        found.append(
            LogInfo(
                name=name.decode(), first=first, last=last, count=last - first + 1, size=size,
                keep=LogKeep(age=age, count=count, size=most),
            )
        )  # fmt: skip
    return found
