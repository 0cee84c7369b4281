"""Snapshots: what one process measured, to be sent to another, added to those of others, and put into words.

They go from a process child to its worker and from a worker to its supervisor. Whoever gathers them keeps the last of
each process, and of the dead what lasts: so a counter never goes back. Must not know where the numbers come from.
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
    """A process at a moment. ``counts`` and ``gauges`` by name; ``families``: what the user's code measures."""

    series: list[Series] = []
    counts: dict[str, float] = {}
    gauges: dict[str, float] = {}
    families: list[Family] = []


# Not JSON: a user's gauge may be infinite or no number.
encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Snapshot).decode


def decode(words: bytes) -> Snapshot:
    """A snapshot that can be added to others; ValueError where it is none."""
    found = _decode(words)
    for series in found.series:
        if any(len(cells) not in (0, CELLS) for cells in (series.wait, series.run, series.whole)):
            raise ValueError("a histogram with other bounds")
    return found


def add(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Several processes as one."""
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
    """The last words of each process, and what lasts of those that are gone. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._living: dict[int, Snapshot] = {}
        self._dead = Snapshot()
        self._warned = False

    def heard(self, pid: int, words: bytes) -> None:
        try:
            said = decode(words)
        except Exception as error:  # user code that found the pipe, and may say anything; what was said before holds
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
            # The living first: where the code has changed, their word on a metric holds.
            every = [*self._living.values(), self._dead]
        return add(every)  # which changes none of them, and may take its time


# -- in words


def describe(found: Snapshot) -> bytes:
    """Prometheus's text format."""
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
    """Those beyond the cap as one. They come in the order of their names."""
    if len(series) <= PAIRS:
        return series, 0
    rest = Series(OTHER, OTHER, {})
    for one in series[PAIRS:]:
        add_series(rest, one)
    return [*series[:PAIRS], rest], len(series) - PAIRS
