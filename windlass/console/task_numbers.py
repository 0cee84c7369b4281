"""Tasks in numbers, from the sheets that workers write: how often each runs and fails, and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.console.charts import CHARTS, DONE, SlotSums, slots_of
from windlass.console.desk import Desk
from windlass.console.replies import TaskNumbers
from windlass.core.chart import MINUTE, SPANS, Series, add, quantile
from windlass.core.hints import did_you_mean
from windlass.errors import ConfigError

SHARED = 2.0
"""Seconds for which the numbers of all tasks are shared: they are added up from thousands of series."""

NOTHING = TaskNumbers()


async def task_numbers(desk: Desk, span: str) -> dict[str, TaskNumbers]:
    """The numbers by task, of queues the user may see. Runs the sheets do not tell apart are under
    ``core.chart.OTHER``.
    """
    if span not in CHARTS:
        raise ConfigError(f"span is {span!r}{did_you_mean(span, CHARTS)}; one of {', '.join(CHARTS)}")
    shelf, count = CHARTS[span]

    async def read() -> dict[str, TaskNumbers]:
        return count_tasks(desk, await slots_of(desk, shelf, count), SPANS[shelf])

    scope = " ".join(map(repr, desk.access.queues))
    return await desk.shared.ask(f"task numbers {span} {scope}", read, SHARED)


class _Sum(msgspec.Struct):
    """The numbers of one task: in all, and the ended jobs in each slot."""

    over: list[int]
    counts: dict[str, int] = {}
    wait: list[int] = []
    run: list[int] = []

    def take(self, place: int, series: Series) -> None:
        for event, count in series.counts.items():
            self.counts[event] = self.counts.get(event, 0) + count
            if event in DONE:
                self.over[place] += count
        self.wait, self.run = add(self.wait, series.wait), add(self.run, series.run)


def count_tasks(desk: Desk, slots: Sequence[SlotSums], span: int) -> dict[str, TaskNumbers]:
    """Add up the slots, without the open one, which would look like a fall."""
    closed = [slot for slot in slots if not slot.open]
    found: dict[str, _Sum] = {}
    for place, slot in enumerate(closed):
        for series in slot.sheet.series:
            if desk.access.sees(series.queue):
                found.setdefault(series.task, _Sum([0] * len(closed))).take(place, series)
    # No worker counted before the first sheet: a rate over that time would be too small.
    begun = next((place for place, slot in enumerate(closed) if slot.sheet.series), len(closed))
    minutes = (len(closed) - begun) * span / MINUTE
    return {task: _numbers(whole, minutes) for task, whole in found.items()}


def _numbers(whole: _Sum, minutes: float) -> TaskNumbers:
    over, failed = sum(whole.over), whole.counts.get("failed", 0)
    return TaskNumbers(
        over=over, failed=failed, retried=whole.counts.get("retried", 0), per_minute=over / minutes if minutes else 0.0,
        failing=failed / over if over else 0.0, run_p50=quantile(whole.run, 0.5), run_p95=quantile(whole.run, 0.95),
        wait_p50=quantile(whole.wait, 0.5), wait_p95=quantile(whole.wait, 0.95), spark=whole.over,
    )  # fmt: skip
