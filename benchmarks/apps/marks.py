"""Counts executed jobs in a shared memory file: how many, when the first, when the last.

Every thread of every worker process writes its own slot, so `mark()` takes no lock and costs well under a microsecond.
Times are `CLOCK_MONOTONIC`, which all processes of a machine share; a reader's polling never enters a figure.
"""

import fcntl
import mmap
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

SLOTS = 1024
WORDS = 8  # one cache line per slot: count, first, last, padding
_SIZE = (SLOTS + 1) * WORDS * 8

_local = threading.local()
_view: memoryview | None = None


@dataclass(frozen=True)
class Totals:
    """What all slots say together; the times are nanoseconds, 0 while nothing ran."""

    count: int
    first_ns: int
    last_ns: int


def create(path: Path) -> None:
    """Makes an empty file of marks."""
    path.write_bytes(b"\0" * _SIZE)


def mark(started_ns: int = 0) -> None:
    """Records one executed job; `started_ns` is for jobs that take time."""
    try:
        view, base = _local.slot
    except AttributeError:
        view, base = _local.slot = _claim()
    now = time.monotonic_ns()
    if not view[base]:
        view[base + 1] = started_ns or now
    elif started_ns and started_ns < view[base + 1]:
        view[base + 1] = started_ns
    view[base] += 1
    view[base + 2] = now


def _claim() -> tuple[memoryview, int]:
    global _view
    path = os.environ["BENCH_MARKS"]
    with open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if _view is None:
            _view = memoryview(mmap.mmap(file.fileno(), _SIZE)).cast("Q")
        _view[0] += 1
        slot: int = _view[0]
        fcntl.flock(file, fcntl.LOCK_UN)  # closing is not enough: the mapping keeps a duplicate of the descriptor
    if slot > SLOTS:
        raise RuntimeError(f"more than {SLOTS} threads executed jobs")
    return _view, slot * WORDS


def _forget_slots() -> None:
    """A forked child must not write its parent's slot."""
    global _local
    _local = threading.local()


os.register_at_fork(after_in_child=_forget_slots)


class Reader:
    """Reads a file of marks from outside."""

    def __init__(self, path: Path) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)
        self._view = memoryview(self._map).cast("Q")

    def reserve(self) -> int:
        """A slot for a process that cannot take the lock; only before any process of the trial runs."""
        self._view[0] += 1
        return int(self._view[0])

    def totals(self) -> Totals:
        """The sum of all slots claimed so far."""
        view = self._view
        bases = [slot * WORDS for slot in range(1, min(view[0], SLOTS) + 1)]
        used = [base for base in bases if view[base]]
        return Totals(
            count=sum(view[base] for base in used),
            first_ns=min((view[base + 1] for base in used), default=0),
            last_ns=max((view[base + 2] for base in used), default=0),
        )

    def close(self) -> None:
        """Unmaps the file."""
        self._view.release()
        self._map.close()
