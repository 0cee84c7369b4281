"""Schedules: rows that say when jobs come in. Workers read them and fire; here a slot and its jobs are one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from windlass.core.event import Group
from windlass.store.base import MAX_BATCH, Fire, Fired, PutSchedule, Schedule, SchedulePage
from windlass.store.memory import inserts

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub


def put(hub: Hub, new: PutSchedule) -> Schedule | None:
    row = hub.schedules.get(new.name)
    version = row.version if row is not None else 0
    if new.expect not in (-1, version):
        return None
    row = msgspec.structs.replace(row) if row is not None else Schedule(name=new.name, body=b"")
    row.body, row.next_slot, row.paused, row.version = new.body, new.next_slot, new.paused, hub.next_version()
    hub.schedules[new.name] = row
    return msgspec.structs.replace(row)


def drop(hub: Hub, name: str) -> bool:
    return hub.schedules.pop(name, None) is not None


def changed(hub: Hub) -> None:
    """Rows were put or dropped: one worker reads them, and hands the news on."""
    hub.stamp += 1
    hub.wake_any()


def page(hub: Hub, names: Sequence[str], after: str, limit: int, now: int) -> SchedulePage:
    wanted = [name for name in names if name in hub.schedules] if names else sorted(hub.schedules)
    left = [name for name in wanted if names or name > after]
    limit = len(left) if names else min(limit, MAX_BATCH)
    rows = [msgspec.structs.replace(hub.schedules[name]) for name in left[:limit]]
    return SchedulePage(rows, rows[-1].name if rows and len(left) > limit else "", hub.stamp, now)


def fire(hub: Hub, fires: Sequence[Fire], now: int) -> list[Fired]:
    batch = inserts.Batch(hub, now, bounded=False)
    fired: list[Fired] = []
    groups: list[Group] = []
    for one in fires:
        row = hub.schedules.get(one.name)
        if row is None or row.version != one.version or row.next_slot != one.slot or row.paused:
            fired.append(Fired(done=False, row=msgspec.structs.replace(row) if row is not None else None))
            continue
        answers = [batch.insert(job) for job in one.jobs]
        row.next_slot, row.fired, row.last_slot, row.last_at = one.next_slot, row.fired + len(answers), one.slot, now
        if one.jobs:
            row.last_job = answers[0].holder or one.jobs[0].id
        first = (one.jobs[0].task, one.jobs[0].queue) if one.jobs else ("", "")
        data = {"slot": one.slot, "jobs": [job.id for job in one.jobs]}
        groups.append(("schedule_fired", one.worker, [[one.name, *first, data]]))
        fired.append(Fired(done=True, row=msgspec.structs.replace(row), answers=answers))
        hub.stamp += 1
    hub.record(now, batch.groups() + groups)
    return fired
