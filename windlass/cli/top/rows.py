"""The tables of ``windlass top``: the console's answers as rows of text."""

from __future__ import annotations

import time

from windlass.cli import output
from windlass.cli.operator import quoted
from windlass.cli.top.model import Row
from windlass.console.console import Console
from windlass.console.replies import FaultRow, JobRow, QueueRow, ScheduleRow, WorkerRow
from windlass.console.workflow_replies import WorkflowRow

COLUMNS: dict[str, tuple[str, ...]] = {
    "queues": ("queue", "flow", "ready", "running", "scheduled", "failed", "oldest", "per min", "workers", "lately"),
    "jobs": ("id", "state", "task", "queue", "enqueued", "took", "tries", "what"),
    "workers": ("worker", "alive", "slots", "memory", "lag", "done", "beat", "queues"),
    "dead": ("dead letters", "error", "tasks", "last", "message"),
    "schedules": ("schedule", "when", "next", "last", "fired", "task", "paused"),
    "workflows": ("id", "name", "state", "done", "created", "reason"),
}
SPARE: dict[str, tuple[str, ...]] = {
    "queues": ("lately", "scheduled", "per min", "workers"),
    "jobs": ("tries", "took", "queue", "enqueued"),
    "workers": ("lag", "done", "beat", "memory"),
    "dead": ("last", "tasks"),
    "schedules": ("last", "fired", "task"),
    "workflows": ("created", "done"),
}
"""Columns that go where the terminal is too narrow, the first first."""

ACCENTS = {
    "queues": "flow", "jobs": "state", "workers": "alive", "dead": "error", "schedules": "paused", "workflows": "state",
}  # fmt: skip
"""The column of each table that has the row's colour."""

_BARS = " ▁▂▃▄▅▆▇█"
NUMBERS = frozenset(
    {"ready", "running", "scheduled", "failed", "oldest", "per min", "workers", "took", "tries", "memory", "lag"}
    | {"done", "beat", "dead letters", "fired"}
)
MOST = 200
_FLOWS = {"stuck": "red", "no_worker": "red", "paused": "yellow", "draining": "yellow", "saturated": "yellow"}


async def read_rows(console: Console, tab: str, filter: str) -> tuple[list[Row], str]:
    """The rows of one tab as they are now, and a note on them, such as that there are more."""
    now = int(time.time() * 1000)
    if tab == "queues":
        return [_queue(row) for row in await console.queues()], ""
    if tab == "jobs":
        page = await console.jobs(filter, limit=MOST)
        part = f"found in the newest {page.looked:,}" if page.partial else f"the newest {MOST}" if page.cursor else ""
        return [_job(row, now) for row in page.jobs], part
    if tab == "workers":
        return [_worker(row) for row in await console.workers()], ""
    if tab == "dead":
        found = await console.faults()
        part = f"of the newest {found.looked:,} dead letters" if found.partial else ""
        return [_fault(row, now) for row in found.faults], part
    if tab == "schedules":
        return [_schedule(row, now) for row in await console.schedules()], ""
    flows = await console.workflows(limit=MOST)
    part = f"the newest {len(flows.workflows)}" if flows.cursor else ""
    return [_workflow(row, now) for row in flows.workflows], part


def spark(numbers: list[int]) -> str:
    """Numbers as bars; the largest is a full one."""
    top = max(numbers, default=0)
    return "".join(_BARS[-(-number * (len(_BARS) - 1) // top)] if top else _BARS[0] for number in numbers)


def _ago(at: int, now: int) -> str:
    if not at:
        return ""
    return f"{output.about(now - at)} ago" if at <= now else f"in {output.about(at - now)}"


def _took(ms: float | None) -> str:
    if ms is None:
        return ""
    return f"{ms:.0f} ms" if ms < 1_000 else f"{ms / 1_000:.1f} s" if ms < 60_000 else output.about(int(ms))


def _queue(row: QueueRow) -> Row:
    counts = row.counts
    cells = (
        row.name, row.flow.replace("_", " "), *(f"{counts.get(state, 0):,}" for state in _COUNTED),
        output.about(row.oldest_ready) if row.oldest_ready >= 0 else "", f"{sum(row.per_minute.values()):,}",
        str(row.workers), spark(row.spark),
    )  # fmt: skip
    return Row(row.name, cells, _FLOWS.get(row.flow, ""), f"queue:{quoted(row.name)}", row.paused)


_COUNTED = ("ready", "running", "scheduled", "failed")


def _job(row: JobRow, now: int) -> Row:
    progress = f"{row.progress:.0f}% " if row.progress is not None and row.state == "running" else ""
    what = progress + (row.error or row.reason or row.args)
    cells = (
        row.id, row.state, row.task, row.queue, _ago(row.enqueued_at, now), _took(row.took), str(row.attempts), what,
    )  # fmt: skip
    return Row(row.id, cells, output.COLOURS.get(row.state, ""))


def _worker(row: WorkerRow) -> Row:
    cells = (
        row.id, "yes" if row.alive else "no", output.slots(row.busy, row.slots, row.ahead),
        f"{row.memory / 1_048_576:.0f} MB", _took(row.lag), f"{row.done:,}", output.about(row.beat_age),
        ", ".join(row.queues),
    )  # fmt: skip
    return Row(row.id, cells, "" if row.alive else "red", f"state:running worker:{quoted(row.id)}")


def _fault(row: FaultRow, now: int) -> Row:
    cells = (f"{row.count:,}", row.error, ", ".join(row.tasks), _ago(row.last_at, now), row.message)
    return Row(row.fingerprint, cells, "red", fault_filter(row.fingerprint))


def fault_filter(fingerprint: str) -> str:
    return f"state:failed fingerprint:{quoted(fingerprint)}"


def _schedule(row: ScheduleRow, now: int) -> Row:
    cells = (
        row.name, row.when, _ago(row.next_at, now), _ago(row.last_at, now), f"{row.fired:,}", row.task, row.paused,
    )  # fmt: skip
    return Row(row.name, cells, "yellow" if row.paused else "", f"task:{quoted(row.task)}", bool(row.paused))


def _workflow(row: WorkflowRow, now: int) -> Row:
    cells = (row.id, row.name, row.state, f"{row.done} of {row.total}", _ago(row.created_at, now), row.reason)
    return Row(row.id, cells, output.COLOURS.get(row.state, ""), f"workflow:{quoted(row.id)}")
