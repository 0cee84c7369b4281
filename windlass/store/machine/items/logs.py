"""Logs: records in the order they were appended, each in a stream of its own. They are only ever read and pruned.

A record's ``place`` is the number of its log, shifted, and its position in it. So a log is a range of one table, which
is in the order in which it is written and read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.store.answers import MAX_BATCH
from windlass.store.items import Append, LogInfo, LogKeep, Record, StreamEnd, log_channel
from windlass.store.machine.tx import Tx, ids_json
from windlass.store.rules import is_too_much, prunes_at

SHIFT = 44
MASK = (1 << SHIFT) - 1
PAGE_BYTES = 4_000_000
"""A page is cut where its bodies have become so large; the first record is in it whatever its size."""


class Log(NamedTuple):
    """What is known of a log, as a row of its statements."""

    n: int
    name: str
    last: int
    many: int
    size: int
    keep_age: int
    keep_count: int
    keep_size: int

    @property
    def base(self) -> int:
        return self.n << SHIFT

    @property
    def first(self) -> int:
        return self.last - self.many + 1

    @property
    def keep(self) -> LogKeep:
        return LogKeep(age=self.keep_age, count=self.keep_count, size=self.keep_size)


def find(tx: Tx, name: str) -> Log | None:
    return msgspec.convert(tx.one(tx.sql.logs.READ, (name,)), Log | None)


def make(tx: Tx, name: str) -> Log:
    return find(tx, name) or Log(*tx.one(tx.sql.logs.MAKE, (name,)))


def length(tx: Tx, name: str, stream: str) -> int:
    log = find(tx, name)
    return (tx.value(tx.sql.logs.LENGTH, (log.n, stream)) or 0) if log is not None else 0


def append(tx: Tx, new: Append) -> StreamEnd:
    if not new.bodies:
        return StreamEnd(length(tx, new.log, new.stream))
    log = make(tx, new.log)
    many, before = len(new.bodies), tx.value(tx.sql.logs.LENGTH, (log.n, new.stream)) or 0
    tx.run_many(tx.sql.logs.APPEND, (
        (log.base + log.last + i, log.n, new.stream, before + i, tx.now, body) for i, body in enumerate(new.bodies, 1)
    ))  # fmt: skip
    log = log._replace(last=log.last + many, many=log.many + many, size=log.size + sum(map(len, new.bodies)))
    tx.run(tx.sql.logs.WRITE, (log.last, log.many, log.size, log.n))
    prune(tx, log, 2 * many)
    for (name,) in tx.all(tx.sql.logs.FOLLOWERS, (log.name,)):
        tx.tell(name)
    return StreamEnd(before + many, log.last)


# -- reading


def records(tx: Tx, name: str, after: int, limit: int, stream: str | None, since: int) -> list[Record]:
    log = find(tx, name)
    if log is None:
        return []
    after = max(after, _before(tx, log, stream, since)) if since else after
    if stream is None:
        which: tuple[Any, ...] = (log.base + max(after, 0), log.base + log.last)
    else:
        which = (log.n, stream, after)
    values = (*which, min(limit, MAX_BATCH), PAGE_BYTES)
    rows = msgspec.convert(
        tx.all(tx.sql.logs.OF_LOG if stream is None else tx.sql.logs.OF_STREAM, values),
        list[tuple[int, str, int, int, bytes]],
    )
    return [Record(place & MASK, of, n, at, body) for place, of, n, at, body in rows]


def _before(tx: Tx, log: Log, stream: str | None, since: int) -> int:
    """The number of the last record that is older: they are in the order of time, and their numbers have no gaps."""
    sql = tx.sql.logs
    if stream is None:
        numbers = range(log.first, log.last + 1)
        return log.first - 1 + bisect_left(numbers, since, key=lambda i: tx.value(sql.AT, (log.base + i,)))
    first, last = tx.value(sql.FIRST_OF_STREAM, (log.n, stream)), tx.value(sql.LENGTH, (log.n, stream))
    if first is None:
        return 0
    numbers = range(first, last + 1)
    return int(first) - 1 + bisect_left(numbers, since, key=lambda i: tx.value(sql.AT_IN_STREAM, (log.n, stream, i)))


def infos(tx: Tx, names: Sequence[str]) -> list[LogInfo]:
    known = {log.name: log for log in msgspec.convert(tx.all(tx.sql.logs.READ_ALL), list[Log])}
    return [info(name, known.get(name)) for name in names or known]


def info(name: str, log: Log | None) -> LogInfo:
    if log is None:
        return LogInfo(name=name)
    return LogInfo(name=name, first=log.first, last=log.last, count=log.many, size=log.size, keep=log.keep)


# -- what stays


def retain(tx: Tx, name: str, keep: LogKeep) -> None:
    tx.run(tx.sql.logs.RETAIN, (keep.age, keep.count, keep.size, make(tx, name).n))


def prune(tx: Tx, log: Log, limit: int) -> int:
    """Let go of what is too much, the oldest first; how many records that were."""
    keep = log.keep
    if not (keep.age or is_too_much(keep, tx.now, log.many, log.size, 0)):
        return 0
    start, many, size, last = log.base + log.first - 1, log.many, log.size, 0
    for place, at, body in tx.all(tx.sql.logs.OLDEST, (start, log.base + log.last, limit)):
        if not is_too_much(keep, tx.now, many, size, at):
            break
        many, size, last = many - 1, size - body, place
    if last:
        tx.run(tx.sql.logs.PRUNE, (start, last))
        tx.run(tx.sql.logs.WRITE, (log.last, many, size, log.n))
    return log.many - many


def sweep(tx: Tx, limit: int) -> int:
    done = 0
    for row in tx.all(tx.sql.logs.READ_KEPT):
        if done < limit:
            done += prune(tx, Log(*row), limit - done)
    return done


def next_check(tx: Tx) -> list[int]:
    """When a record will be too old, or now where more than is kept is there already."""
    times = []
    for log in map(Log._make, tx.all(tx.sql.logs.READ_KEPT)):
        oldest = tx.value(tx.sql.logs.AT, (log.base + log.first,)) if log.keep_age else 0
        times.append(prunes_at(log.keep, tx.now, log.many, log.size, oldest))
    return [time for time in times if time is not None]


# -- who is woken


def follow(tx: Tx, client: str, channels: Sequence[str]) -> None:
    for channel in channels:
        tx.run(tx.sql.logs.FOLLOW, (channel[1:], client))


def unfollow(tx: Tx, client: str, channels: Sequence[str]) -> None:
    if channels:
        tx.run(tx.sql.logs.UNFOLLOW, (client, ids_json(channel[1:] for channel in channels)))


def unfollow_all(tx: Tx, clients: Sequence[str]) -> None:
    tx.run(tx.sql.logs.UNFOLLOW_ALL, (ids_json(clients),))


def is_log(id: str) -> bool:
    return id.startswith(log_channel(""))
