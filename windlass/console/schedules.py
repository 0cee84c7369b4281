"""Schedules as they are read: when they run, when they ran, and their timing as a text for editors."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from windlass.console import show
from windlass.console.desk import Desk, now_ms
from windlass.console.replies import Run, ScheduleRow
from windlass.core.duration import show_ms
from windlass.core.hints import did_you_mean
from windlass.core.language import every
from windlass.core.schedule import SchedulePlan, shown_plan
from windlass.core.timing import Cron, Every, Once, Timing, cron, describe, find_zone
from windlass.errors import ConfigError, NotFound
from windlass.operate.schedules import runs
from windlass.operate.timetable import Schedule, read_all, read_row

MOST = 1_000
COMING = 5
EXAMPLES = "'cron 0 9 * * 1-5', 'every 10 minutes', 'every weekday at 9:00' or 'at 2026-11-01T10:00+01:00'"


class Known(NamedTuple):
    """The rows of the schedules, and the states of the last job of each."""

    rows: list[Schedule]
    states: dict[str, str]


async def known(desk: Desk) -> Known:
    """All schedules of the user's queues, by name."""

    async def read() -> Known:
        found = (await read_all(await desk.store()))[:MOST]
        return Known(found, await last_runs(desk, found))

    desk.need("read")
    rows, states = await desk.shared.ask("schedules", read)
    return Known([row for row in rows if desk.access.sees(queue_of(row))], states)


async def schedule_rows(desk: Desk) -> list[ScheduleRow]:
    rows, states = await known(desk)
    return [schedule_row(desk, row, states) for row in rows]


async def next_schedules(desk: Desk, most: int) -> list[ScheduleRow]:
    """The schedules that run next."""
    rows, states = await known(desk)
    due = sorted((row for row in rows if row.next_slot and not row.paused), key=lambda row: row.next_slot)
    return [schedule_row(desk, row, states) for row in due[:most]]


def queue_of(row: Schedule) -> str:
    return shown_plan(row.body).job.queue


async def schedule_of(desk: Desk, name: str) -> Schedule:
    """The row of a schedule the user may see."""
    desk.need("read")
    row, _ = await read_row(await desk.store(), name)
    if row is None or not desk.access.sees(queue_of(row)):
        hint = did_you_mean(name, [row.name for row in (await known(desk)).rows])
        raise NotFound(f"there is no schedule {name!r}{hint}")
    return row


async def one_schedule(desk: Desk, name: str) -> ScheduleRow:
    row = await schedule_of(desk, name)
    return schedule_row(desk, row, await last_runs(desk, [row]))


async def last_runs(desk: Desk, found: list[Schedule]) -> dict[str, str]:
    """The states of the last jobs the schedules made."""
    ids = [row.last_job for row in found if row.last_job][:1_000]
    known = await (await desk.store()).get(ids) if ids else []
    return {job.id: str(job.state) for job in known if job is not None}


def schedule_row(desk: Desk, row: Schedule, states: dict[str, str]) -> ScheduleRow:
    plan = shown_plan(row.body)
    coming = [] if row.paused or not row.next_slot else [row.next_slot, *islice(runs(plan, row.next_slot), COMING - 1)]
    last = [Run(job=row.last_job, at=row.last_at, state=states.get(row.last_job, "gone"))] if row.last_job else []
    return ScheduleRow(
        name=row.name, when=describe(plan.timing), spec=spec_of(plan), tz=plan.tz, task=plan.job.task,
        queue=plan.job.queue, args=show.value(desk.access, plan.job.payload), paused=row.paused, in_code=plan.code,
        fired=row.fired, next_at=row.next_slot, last_at=row.last_slot, last_job=row.last_job, coming=coming, runs=last,
        missed=plan.missed, overlap=plan.overlap,
    )  # fmt: skip


# -- the text of a timing


def spec_of(plan: SchedulePlan) -> str:
    timing = plan.timing
    if isinstance(timing, Once):
        return f"at {datetime.fromtimestamp(timing.at / 1000, UTC).isoformat()}"
    if isinstance(timing, Every):
        return f"every {timing.text or show_ms(timing.ms)}"
    if timing.text.startswith("every "):
        return timing.text
    return f"cron {timing.text or timing.lines[0].partition(' ')[2]}"


def timing_of(spec: str, tz: str = "") -> Timing:
    """The timing a text stands for; the error for a wrong text shows how to write it."""
    kind, _, rest = spec.strip().partition(" ")
    if kind == "cron":
        return cron(rest, tz=tz)
    if kind == "every":
        found = every(rest)
        return every(rest, tz=tz) if tz and isinstance(found, Cron) else found
    if kind == "at":
        return _once(rest, tz)
    raise ConfigError(f"schedule {spec!r} is not understood; give {EXAMPLES}")


def _once(text: str, tz: str) -> Once:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(f"'at {text}' is no time; give {EXAMPLES}") from None
    aware = at if at.tzinfo else at.replace(tzinfo=find_zone(tz or "UTC", "tz"))
    instant = round(aware.timestamp() * 1000)
    if instant <= now_ms():
        raise ConfigError(f"'at {text}' is past")
    return Once(instant)
