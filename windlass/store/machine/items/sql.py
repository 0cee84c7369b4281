"""The statements of items, logs and commits."""

from __future__ import annotations

from typing import Protocol


class ItemSql(Protocol):
    """Items that have ended are not there for any of these. Keys are ordered by their UTF-8 bytes."""

    READ: str
    """JSON of [shelf, key], now → (shelf, key, body, end, version)"""
    WRITE: str
    """shelf, key, version, end, body: in the place of what was there"""
    TAKE_OFF: str
    """shelf, key"""
    PAGE: str
    """shelf, first key, the key to stop before (NULL: none), now, limit → (key, body, end, version), in order"""
    PAGE_BEHIND: str
    """the same, behind the first key"""
    PAGE_DOWN: str
    """as PAGE, the last keys first"""
    PAGE_BEHIND_DOWN: str
    """as PAGE_BEHIND, the last keys first"""
    FORGET: str
    """now, limit → a row for each of the ended items that were deleted, those first that ended first"""
    ANY_EXPIRES: str
    """→ a row if any item will ever end"""


class LogSql(Protocol):
    """A row of a log is (its number, name, position of its last record, how many records it has and how many bytes,
    and how much of it is kept: age, count, bytes; 0 for all). The place of a record is the number of its log, shifted
    by 44 bits, plus its position; its number is that in its stream."""

    READ: str
    """name → the log's row"""
    READ_ALL: str
    """→ the rows of all logs, by name"""
    READ_KEPT: str
    """→ the rows of those that have records and of which not all is kept"""
    MAKE: str
    """name → the row of a new log of this name, which is empty"""
    WRITE: str
    """position of the last record, how many records, how many bytes, log"""
    RETAIN: str
    """age, count, bytes, log"""
    LENGTH: str
    """log, stream → the largest number in the stream, NULL for none"""
    APPEND: str
    """place, log, stream, number, instant, body"""
    OLDEST: str
    """a place, a last place, limit → (place, instant, bytes of the body) of the records behind the one and up to the
    other, in order"""
    PRUNE: str
    """a place, a last place: the records behind the one and up to the other go"""
    OF_LOG: str
    """a place, a last place, limit, bytes → (place, stream, number, instant, body) of the records behind the one and up
    to the other, in order. The page ends before the record ahead of which it has so many bytes; the first is in it."""
    OF_STREAM: str
    """log, stream, a number, limit, bytes → the same of the records of the stream behind the number"""
    FIRST_OF_STREAM: str
    """log, stream → the smallest number in it, NULL for none"""
    AT: str
    """place → instant of the record"""
    AT_IN_STREAM: str
    """log, stream, number → instant of the record"""
    FOLLOWERS: str
    """name of a log → names that are told of new records"""
    FOLLOW: str
    """name of a log, name: it is told of new records from now on"""
    UNFOLLOW: str
    """name, JSON of names of logs: it is no longer told of them"""
    UNFOLLOW_ALL: str
    """JSON of names: they are told of no log any more"""
