"""Logs: records in the order they were appended, each in a stream of its own. They are only ever read and pruned."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from windlass.store.answers import MAX_BATCH
from windlass.store.items import Append, LogInfo, LogKeep, Record, StreamEnd, log_channel
from windlass.store.rules import is_too_much, prunes_at

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub

T = TypeVar("T")


class Tail(Generic[T]):
    """Things numbered from 1 without gaps, of which the first may be gone. ``first``: the number of the first left."""

    __slots__ = ("_left", "_start", "first")

    def __init__(self) -> None:
        self._left: list[T] = []
        self._start = 0
        self.first = 1

    def __len__(self) -> int:
        return len(self._left) - self._start

    @property
    def last(self) -> int:
        return self.first + len(self) - 1

    def add(self, thing: T) -> None:
        self._left.append(thing)

    def oldest(self) -> T:
        return self._left[self._start]

    def drop(self) -> None:
        self._start += 1
        self.first += 1
        if self._start > 1_000 and self._start * 2 > len(self._left):
            del self._left[: self._start]
            self._start = 0

    def behind(self, number: int) -> Sequence[T]:
        return self._left[self._start + max(0, number + 1 - self.first) :]


class Log:
    """One log."""

    __slots__ = ("keep", "records", "size", "streams")

    def __init__(self) -> None:
        self.records = Tail[Record]()
        self.streams: dict[str, Tail[Record]] = {}
        self.keep = LogKeep()
        self.size = 0

    def length(self, stream: str) -> int:
        tail = self.streams.get(stream)
        return tail.last if tail is not None else 0

    def add(self, stream: str, body: bytes, now: int) -> int:
        tail = self.streams.setdefault(stream, Tail())
        record = Record(self.records.last + 1, stream, tail.last + 1, now, body)
        self.records.add(record)
        tail.add(record)
        self.size += len(body)
        return record.position

    def is_too_much(self, now: int) -> bool:
        return is_too_much(self.keep, now, len(self.records), self.size, self.records.oldest().at)

    def prune(self, now: int, limit: int) -> int:
        """Let go of what is too much, the oldest first; how many records that were."""
        done = 0
        while done < limit and len(self.records) and self.is_too_much(now):
            record = self.records.oldest()
            self.records.drop()
            self.size -= len(record.body)
            tail = self.streams[record.stream]
            tail.drop()
            if not len(tail):
                del self.streams[record.stream]
            done += 1
        return done


def length(hub: Hub, name: str, stream: str) -> int:
    log = hub.logs.get(name)
    return log.length(stream) if log is not None else 0


def append(hub: Hub, new: Append, now: int) -> StreamEnd:
    if not new.bodies:
        return StreamEnd(length(hub, new.log, new.stream))
    log, position = hub.logs.setdefault(new.log, Log()), 0
    for body in new.bodies:
        position = log.add(new.stream, body, now)
    hub.tell(hub.readers[new.log], None)
    end = StreamEnd(log.length(new.stream), position)
    log.prune(now, 2 * len(new.bodies))
    return end


def read(hub: Hub, name: str, after: int, limit: int, stream: str | None, since: int) -> list[Record]:
    log = hub.logs.get(name)
    tail = log and (log.records if stream is None else log.streams.get(stream))
    if not tail:
        return []
    found = tail.behind(after)
    first = bisect_left(found, since, key=lambda record: record.at) if since else 0
    return list(found[first : first + min(limit, MAX_BATCH)])


def info(hub: Hub, names: Sequence[str]) -> list[LogInfo]:
    return [of_log(name, hub.logs.get(name)) for name in names or sorted(hub.logs)]


def of_log(name: str, log: Log | None) -> LogInfo:
    if log is None:
        return LogInfo(name=name)
    records = log.records
    return LogInfo(
        name=name, first=records.first, last=records.last, count=len(records), size=log.size, keep=log.keep
    )  # fmt: skip


def follow(hub: Hub, client: str, channel: str) -> bool:
    """Whether what is watched is a log."""
    name = log_of(channel)
    if name is None:
        return False
    hub.readers[name].add(client)
    return True


def unfollow(hub: Hub, client: str, channel: str) -> bool:
    name = log_of(channel)
    if name is not None:
        hub.readers[name].discard(client)
    return name is not None


def log_of(channel: str) -> str | None:
    return channel[1:] if channel.startswith(log_channel("")) else None


def sweep(hub: Hub, now: int, limit: int) -> int:
    done = 0
    for log in hub.logs.values():
        done += log.prune(now, limit - done)
    return done


def next_check(hub: Hub, now: int) -> list[int]:
    """When a record will be too old, or now where more than is kept is there already."""
    kept = [log for log in hub.logs.values() if len(log.records)]
    times = [prunes_at(log.keep, now, len(log.records), log.size, log.records.oldest().at) for log in kept]
    return [time for time in times if time is not None]
