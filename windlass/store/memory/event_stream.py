"""Reading the event stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from windlass.core.event import Entry


def read(entries: deque[Entry], after: int, limit: int, kinds: Sequence[str]) -> list[Entry]:
    """The entries behind ``after``, oldest first; for -1 only the newest entry."""
    if after < 0:
        return list(islice(chosen(reversed(entries), kinds), 1))
    return list(islice(chosen((entry for entry in entries if entry.seq > after), kinds), limit))


def chosen(entries: Iterable[Entry], kinds: Sequence[str]) -> Iterator[Entry]:
    """The entries that have an event of one of these kinds, each cut down to those events."""
    for entry in entries:
        groups = [group for group in entry.groups if group[0] in kinds] if kinds else entry.groups
        if groups:
            yield Entry(entry.seq, entry.at, groups)
