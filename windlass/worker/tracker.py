"""The tracker: what a worker counts of the jobs it ran, for charts and metrics.

It is called on the loop for every settled run, so each call must be cheap: it only adds to the *open* series of its
task. From those the sheets of the minute, the hour and the process are folded at intervals. It knows neither the store
nor the use of the numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from time import monotonic

from windlass.core.chart import BOUNDS, CELLS, HOURS, MINUTES, SPANS, Series, Sheet, add_series, fold, merge
from windlass.core.job import Claim

TERMINAL = frozenset({"succeeded", "failed", "cancelled"})

# Most durations are short: to look up a cell here costs a third of searching for it.
_NEAR = 1_000
_CELL = bytes(bisect_left(BOUNDS, ms) for ms in range(_NEAR))

_Name = tuple[str, str]


class OpenSheet:
    """The sheet of one stretch of time on a shelf: what was counted in it, and whether the shelf has it already."""

    def __init__(self, shelf: str, at: int, slots: int) -> None:
        self.shelf, self.at = shelf, at
        self.dirty = True  # an idle worker writes its sheet too: it had slots to work with
        self._series: dict[_Name, Series] = {}
        self._slots, self._lost = slots, 0

    def add(self, series: list[Series], lost: int) -> None:
        if series or lost:
            self.dirty = True
        self._lost += lost
        _add(self._series, series)

    def sheet(self) -> Sheet:
        return Sheet(fold(self._series.values()), self._slots, self._lost)


class Tracker:
    """``slots``: how many jobs this worker can run at once. ``lost``: claims taken away from it since it started."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._open: dict[_Name, Series] = {}
        self._folded: dict[_Name, Series] = {}
        self.lost = self._lost_told = 0
        self._now: dict[str, OpenSheet] = {}

    def settled(self, claim: Claim, event: str, began: float) -> None:
        """Count a run that ended. ``began``: when its code started, 0 if it never did."""
        series = self._open.get((claim.queue, claim.task)) or self._begin(claim)
        counts = series.counts
        counts[event] = counts.get(event, 0) + 1
        if not began:
            return
        ran = int((monotonic() - began) * 1000)
        series.run[_CELL[ran] if ran < _NEAR else bisect_left(BOUNDS, ran)] += 1
        series.run_ms += ran
        claimed, enqueued, due = claim.claimed_at, claim.enqueued_at, claim.due_at
        if not claimed:
            return
        # The wait of a job's later claims is known only if they were due at some instant; and when a job of a
        # workflow became ready is not known at all.
        since = due if due > enqueued else enqueued if claim.epoch == 1 and not claim.graph else claimed + 1
        if since <= claimed:
            waited = claimed - since
            series.wait[_CELL[waited] if waited < _NEAR else bisect_left(BOUNDS, waited)] += 1
            series.wait_ms += waited
        if event in TERMINAL:
            took = max(0, claimed - enqueued) + ran
            series.whole[_CELL[took] if took < _NEAR else bisect_left(BOUNDS, took)] += 1
            series.whole_ms += took

    def _begin(self, claim: Claim) -> Series:
        series = Series(claim.queue, claim.task, {}, [0] * CELLS, [0] * CELLS, [0] * CELLS)
        self._open[claim.queue, claim.task] = series
        return series

    # -- read by others

    def fold(self, now: int) -> list[OpenSheet]:
        """Add what was counted since the last fold to the sheets that were open until now.

        Answers those sheets, and opens new ones if ``now``, in ms, is beyond them. Call it when a minute ends, so that
        its counts are in its own sheet. Time never goes back here, whatever the clock does.
        """
        counted, self._open = [_lean(series) for series in self._open.values()], {}
        lost, self._lost_told = self.lost - self._lost_told, self.lost
        _add(self._folded, counted)
        found = []
        for shelf in (MINUTES, HOURS):
            slot, at = self._now.get(shelf), now - now % SPANS[shelf]
            if slot is None:
                slot = self._now[shelf] = OpenSheet(shelf, at, self._slots)
            slot.add(counted, lost)
            found.append(slot)
            if at > slot.at:
                self._now[shelf] = OpenSheet(shelf, at, self._slots)
                found.append(self._now[shelf])
        return found

    def whole(self) -> list[Series]:
        """All that was counted since the worker started, by queue and task."""
        return merge([Sheet(list(self._folded.values())), Sheet(list(self._open.values()))]).series


def _lean(series: Series) -> Series:
    """The series with its empty histograms as empty lists."""
    for name in ("wait", "run", "whole"):
        if not any(getattr(series, name)):
            setattr(series, name, [])
    return series


def _add(found: dict[_Name, Series], counted: list[Series]) -> None:
    for series in counted:
        name = (series.queue, series.task)
        known = found.get(name)
        if known is None:
            known = found[name] = Series(series.queue, series.task, {})
        add_series(known, series)
