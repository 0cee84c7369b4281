"""Snapshots: what one process measured, to be sent to another process, added to others', and written as text.

They go from a process child to its worker and from a worker to its supervisor. The receiver keeps the last snapshot of
each live process. Of processes that are gone it keeps the counters, so that no sum of counters ever goes back. This
module does not know where the numbers come from.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator

import msgspec
from prometheus_client import Metric

from windlass.core.chart import CELLS, OTHER, Series, Sheet, add_series, merge
from windlass.observe.families import Family, add_up, as_metrics, as_text, lasting
from windlass.observe.names import DEATHS, ERRORS, FOLDED, LARGEST, LOST, RUN, RUNS, WAIT, WHOLE
from windlass.observe.prometheus_metrics import histogram, number, numbers

log = logging.getLogger("windlass.metrics")

PAIRS = 500
"""So many pairs of queue and task are told apart."""


class Snapshot(msgspec.Struct, omit_defaults=True):
    """The measurements of one process at one moment. ``counts`` and ``gauges`` by name; ``families``: metrics of the
    user's code.
    """

    series: list[Series] = []
    counts: dict[str, float] = {}
    gauges: dict[str, float] = {}
    families: list[Family] = []


# Not JSON: a user's gauge may be infinite or NaN.
encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Snapshot).decode


def decode(words: bytes) -> Snapshot:
    """A snapshot that can be added to others; ValueError if the bytes are none."""
    found = _decode(words)
    for series in found.series:
        if any(len(cells) not in (0, CELLS) for cells in (series.wait, series.run, series.whole)):
            raise ValueError("a histogram with other bounds")
    return found


def add(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The snapshots of several processes as one."""
    every = list(snapshots)
    whole = Snapshot(merge(Sheet(one.series) for one in every).series, {}, {}, add_up(one.families for one in every))
    for one in every:
        for name, value in one.counts.items():
            whole.counts[name] = whole.counts.get(name, 0) + value
        for name, value in one.gauges.items():
            before = whole.gauges.get(name, 0)
            whole.gauges[name] = max(before, value) if name in LARGEST else before + value
    return whole


class Gathered:
    """The last snapshot of each process, and the counters of those that are gone. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._living: dict[int, Snapshot] = {}
        self._dead = Snapshot()
        self._warned = False

    def heard(self, pid: int, words: bytes) -> None:
        try:
            said = decode(words)
        except Exception as error:  # user code that found the pipe may send anything; the snapshot before it is kept
            if not self._warned:
                log.warning("process %d told no metrics but something else: %s", pid, error)
            self._warned = True
            return
        with self._lock:
            self._living[pid] = said

    def gone(self, pid: int, died: bool = False) -> None:
        with self._lock:
            last = self._living.pop(pid, None)
            left = [Snapshot(last.series, last.counts, {}, lasting(last.families))] if last is not None else []
            self._dead = add([self._dead, *left, Snapshot(counts={DEATHS: float(died)})])

    def total(self) -> Snapshot:
        with self._lock:
            # Live processes first: if the code of a metric has changed, theirs is right.
            every = [*self._living.values(), self._dead]
        return add(every)  # outside the lock, as it changes none of the snapshots and may take long


# -- in words


def describe(found: Snapshot) -> bytes:
    """The snapshot in Prometheus's text format."""
    return as_text([*_own(found), *as_metrics(found.families)])


def _own(found: Snapshot) -> Iterator[Metric]:
    series, folded = _fold(found.series)
    runs = {(one.queue, one.task, event): float(n) for one in series for event, n in sorted(one.counts.items())}
    yield numbers(RUNS, runs)
    yield histogram(WAIT, (((one.queue, one.task), one.wait, one.wait_ms) for one in series if one.wait))
    yield histogram(RUN, (((one.queue, one.task), one.run, one.run_ms) for one in series if one.run))
    yield histogram(WHOLE, (((one.queue, one.task), one.whole, one.whole_ms) for one in series if one.whole))
    for name, value in {LOST: 0.0, ERRORS: 0.0, DEATHS: 0.0, **found.counts}.items():
        yield number(name, value)
    for name, value in found.gauges.items():
        yield number(name, value)
    yield number(FOLDED, folded)


def _fold(series: list[Series]) -> tuple[list[Series], int]:
    """The series, sorted by name, with those beyond the cap added together."""
    if len(series) <= PAIRS:
        return series, 0
    rest = Series(OTHER, OTHER, {})
    for one in series[PAIRS:]:
        add_series(rest, one)
    return [*series[:PAIRS], rest], len(series) - PAIRS
