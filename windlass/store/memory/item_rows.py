"""The rows of items and logs: what is kept on a shelf under a key, and a row of records. Mutable, and without rules."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Generic, TypeVar

from windlass.store.items import LogKeep, Record
from windlass.store.rules import is_too_much

T = TypeVar("T")


class Kept:
    """One item. Past ``until`` it is gone (0: it stays).

    ``looked_at``: the instant at which a sweep looks whether the item is gone, 0 for never. Writing the item repeatedly
    adds no second look.
    """

    __slots__ = ("body", "looked_at", "until", "version")

    def __init__(self, body: bytes, version: int, until: int, looked_at: int) -> None:
        self.body, self.version, self.until, self.looked_at = body, version, until, looked_at

    def is_gone(self, now: int) -> bool:
        return 0 < self.until <= now


class Shelf:
    """One shelf: its items, and their keys in order."""

    __slots__ = ("kept", "keys")

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.kept: dict[str, Kept] = {}

    def remove(self, key: str) -> None:
        if self.kept.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]


class Tail(Generic[T]):
    """Values numbered from 1 without gaps, of which the oldest may have been dropped. ``first``: the smallest number
    left.
    """

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
    """One log: its records in order, and by stream."""

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
        """Drop the oldest records beyond the log's limits, at most ``limit``. Answers how many."""
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
