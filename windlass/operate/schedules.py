"""Schedules: declared in code with ``@app.schedule``, or kept in the store at run time by ``app.schedules``.

A schedule is a row in the store. Workers fire it (``windlass.worker.scheduler``); here it is made, read and changed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, TypeVar, Unpack
from zoneinfo import ZoneInfo

import msgspec

from windlass.calls.declared import Declared
from windlass.calls.task import Task
from windlass.calls.watch import firing
from windlass.core import codec
from windlass.core.duration import from_ms, instant_ms
from windlass.core.hints import did_you_mean
from windlass.core.ids import check_name
from windlass.core.job import Meta
from windlass.core.options import CALL_NAMES, parse_options
from windlass.core.schedule import (
    GONE,
    POLICY_NAMES,
    Policies,
    SchedulePlan,
    begin,
    check_schedule_name,
    decode_plan,
    job_of,
    next_run,
    parse_policies,
    shown_plan,
    with_overlap,
)
from windlass.core.timing import SHORTEST, Cron, Every, Gap, Once, Repeat, Timing, describe
from windlass.errors import ConfigError, EnqueueError, UnknownSchedule
from windlass.handles.handle import Handle, SyncHandle
from windlass.operate.timetable import TRIES, Schedule, drop, put, read_all, read_row
from windlass.store.answers import Accept
from windlass.support.ids import new_id
from windlass.support.portal import Portal
from windlass.workflows.signature import Signature
from windlass.workflows.work import App

F = TypeVar("F")
Times = list[datetime]

_NOT_HERE = frozenset({"at", "id", "seq"})
OPTION_NAMES = (CALL_NAMES - _NOT_HERE) | POLICY_NAMES
PAUSED = "paused"
"""So often a change is tried when others change the same schedule."""


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule now. ``when``: its timing in English; ``next_at``, ``last_at``: its slots, in its own time zone.

    ``fired``: jobs it has made. ``paused``: why, empty while it is not. ``in_code``: a worker's code declares it.
    """

    name: str
    when: str
    tz: str
    task: str
    queue: str
    args: dict[str, Any]
    next_at: datetime | None
    last_at: datetime | None
    last_job: str
    fired: int
    paused: str
    in_code: bool
    timing: Timing
    missed: str
    overlap: str
    jitter: int
    start: datetime | None
    end: datetime | None
    limit: int
    gap: str
    repeat: str


Infos = list[ScheduleInfo]


class Entry(msgspec.Struct, frozen=True):
    """A schedule as it is said: the options are parsed, the call is not made yet."""

    name: str
    timing: Timing
    task: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    call: dict[str, Any]
    fields: dict[str, Any]


class Schedules:
    """``app.schedules``."""

    def __init__(self, app: App, declared: Declared, tz: str) -> None:
        self._app, self._tz, self._tasks, self._watchers = app, tz, declared.tasks, declared.watchers
        self.declared: dict[str, Entry] = {}
        declared.on_task.append(self.adopt)
        self._waiting: list[tuple[object, Callable[[Task[Any, Any]], None]]] = []

    # -- declaring

    def declare(
        self, name: str, timing: Timing, task: str, args: Sequence[Any], kwargs: Mapping[str, Any],
        options: Mapping[str, object],
    ) -> None:  # fmt: skip
        """A schedule of the code: workers put it when they start."""
        entry = self._entry(name, timing, task, args, kwargs, options)
        known = self.declared.get(name)
        if known is not None and known != entry:
            raise ConfigError(f"two schedules want the name {name!r}: of {known.task} and of {task}; give one name=")
        self.declared[name] = entry
        # Built now so that arguments that do not fit fail where they are written; an annotation that names something
        # defined further down is looked at again when a worker starts.
        with contextlib.suppress(NameError):
            self._plan(entry, code=True)

    def declare_call(self, name: str, timing: Timing, call: Signature[Any], policies: Mapping[str, object]) -> None:
        """The same of a call that is a value already. One of this name before it is forgotten."""
        entry = self._entry(name, timing, call.name, call.args, call.kwargs, policies)
        options = {option: value for option, value in call.options.items() if option not in _NOT_HERE}
        self.declared[name] = msgspec.structs.replace(entry, call=options)

    def declare_on(self, target: object, declare: Callable[[Task[Any, Any]], None]) -> None:
        """Declare for a task, or for a function that is about to become one."""
        if isinstance(target, Task):
            declare(target)
        elif callable(target):
            self._waiting.append((target, declare))
        else:
            raise ConfigError(f"@app.schedule is for tasks and functions, not for {target!r}")

    def adopt(self, task: Task[Any, Any]) -> None:
        """A function became a task: its schedules are declared now."""
        mine = [declare for target, declare in self._waiting if target is task.fn]
        self._waiting = [(target, declare) for target, declare in self._waiting if target is not task.fn]
        for declare in mine:
            declare(task)

    def plans(self) -> dict[str, SchedulePlan]:
        """What the code declares, for a worker that starts."""
        if self._waiting:
            raise ConfigError(f"@app.schedule on {self._waiting[0][0]!r}, which is no task: add @app.task")
        return {name: self._plan(entry, code=True) for name, entry in self.declared.items()}

    def _entry(
        self, name: object, timing: object, task: object, args: Sequence[Any], kwargs: Mapping[str, Any] | None,
        options: Mapping[str, object],
    ) -> Entry:  # fmt: skip
        where = f"schedule {name}"
        check_schedule_name(name)
        if not isinstance(timing, Cron | Every | Once):
            raise ConfigError(f"{where}: the timing is {timing!r}; give cron(...), every(...) or once_at(...)")
        if isinstance(timing, Every) and timing.ms < SHORTEST:
            raise ConfigError(f"{where}: the shortest interval is {SHORTEST} ms")
        for option in options:
            if option in _NOT_HERE:
                raise ConfigError(f"{where}: {option} is for one job, and a schedule makes many")
            if option not in OPTION_NAMES:
                raise ConfigError(f"{where} got an unknown option {option!r}{did_you_mean(option, OPTION_NAMES)}")
        fields = parse_policies({key: value for key, value in options.items() if key in POLICY_NAMES}, where)
        call = parse_options({key: value for key, value in options.items() if key in CALL_NAMES}, CALL_NAMES, where)
        zone = timing.tz if isinstance(timing, Cron) else ""
        if zone and fields.get("tz", zone) != zone:
            raise ConfigError(f"{where}: its timing is in {zone}, and tz={fields['tz']!r}")
        fields["tz"] = zone or fields.get("tz") or self._tz
        called = task.name if isinstance(task, Task) else check_name("task", task)
        if isinstance(args, str | bytes | Mapping):
            raise ConfigError(f"{where}: args is {args!r}; give a list, or kwargs=")
        return Entry(str(name), timing, called, tuple(args), dict(kwargs or {}), call, fields)

    def _plan(self, entry: Entry, code: bool) -> SchedulePlan:
        """The plan, with its job made: checked and encoded like any call."""
        where, app = f"schedule {entry.name}", self._app
        task = self._tasks.get(entry.task)
        if task is None and entry.args:
            raise ConfigError(f"{where}: task {entry.task} is not declared here, so give its arguments by kwargs=")
        call: Signature[Any] = Signature(app, entry.task, entry.args, entry.kwargs, entry.call, task=task)
        draft = app.submitting.draft(call, stable=True)
        draft.correlation_id = entry.call.get("correlation_id", "")  # not of the job that happens to put it
        source = f"schedule:{entry.name}"
        job = msgspec.structs.replace(draft.to_job(source, Meta(source).encode()), id="")
        job = with_overlap(job, entry.name, entry.fields.get("overlap", "allow"), where)
        return SchedulePlan(timing=entry.timing, job=job, code=code, **entry.fields)

    # -- at run time

    async def put(
        self, name: str, timing: Timing, task: Task[Any, Any] | str, *, args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None, **options: Unpack[Policies],
    ) -> ScheduleInfo:  # fmt: skip
        """Make a schedule, or change the one of this name. Where its times stay the same, so does its next slot."""
        plan = self._plan(self._entry(name, timing, task, args, kwargs, options), code=False)
        store = (await self._app.connections.client()).store
        for _ in range(TRIES):
            row, now = await read_row(store, name)
            before = decode_plan(row.body) if row is not None else None
            # A start or an end that is relative begins anew with every put.
            if plan.start_in or plan.end_in:
                before = None
            begun, slot = begin(plan, now, before, row.next_slot if row else 0)
            if not slot:
                raise ConfigError(
                    f"schedule {name} would never run: {describe(timing)}, which is past or after its end"
                )
            row = row or Schedule(name=name, body=b"")
            paused = row.paused if row.paused != GONE else ""
            changed = msgspec.structs.replace(row, body=begun.encode(), next_slot=slot, paused=paused)
            if (done := (await put(store, [changed]))[0]) is not None:
                return schedule_info(done)
        raise EnqueueError(f"schedule {name} is being changed by others all the time")

    async def get(self, name: str) -> ScheduleInfo | None:
        """One schedule, None where there is none."""
        row, _ = await read_row((await self._app.connections.client()).store, name)
        return schedule_info(row) if row is not None else None

    async def list(self) -> Infos:
        """All schedules by name."""
        return [schedule_info(row) for row in await read_all((await self._app.connections.client()).store)]

    async def pause(self, name: str, reason: str = PAUSED) -> ScheduleInfo:
        """It does not run until it is resumed. What would have run meanwhile is not made up for."""

        def paused(row: Schedule, now: int) -> tuple[int, str]:
            return row.next_slot, (reason or PAUSED) if row.paused in ("", GONE) else row.paused

        return await self._change(name, paused)

    async def resume(self, name: str) -> ScheduleInfo:
        """It runs again, from its next slot on."""

        def resumed(row: Schedule, now: int) -> tuple[int, str]:
            return (next_run(decode_plan(row.body), now) if row.paused else row.next_slot), ""

        return await self._change(name, resumed)

    async def _change(self, name: str, change: Callable[[Schedule, int], tuple[int, str]]) -> ScheduleInfo:
        store = (await self._app.connections.client()).store
        for _ in range(TRIES):
            row, now = await read_row(store, name)
            if row is None:
                raise UnknownSchedule(f"there is no schedule {name!r}")
            slot, paused = change(row, now)
            if paused == row.paused:
                return schedule_info(row)
            changed = msgspec.structs.replace(row, next_slot=slot, paused=paused)
            if (done := (await put(store, [changed]))[0]) is not None:
                return schedule_info(done)
        raise EnqueueError(f"schedule {name} is being changed by others all the time")

    async def remove(self, name: str) -> bool:
        """Forget a schedule; whether it was there. One that the code declares comes back with the next worker."""
        return await drop((await self._app.connections.client()).store, name)

    async def run(self, name: str) -> Handle[Any]:
        """Run it now, besides its slots, which stay as they are."""
        store = (await self._app.connections.client()).store
        row, now = await read_row(store, name)
        if row is None:
            raise UnknownSchedule(f"there is no schedule {name!r}")
        plan = decode_plan(row.body)
        job = job_of(msgspec.structs.replace(plan, jitter=0), name, now, new_id())
        told = firing(self._watchers, job)
        (answer,) = await store.insert([job])
        told(answer.status is Accept.ACCEPTED)
        read = self._app.declared.reader(job.task)
        if answer.status is Accept.ACCEPTED:
            return Handle(self._app.connections, job.id, read)
        if answer.holder:
            return Handle(self._app.connections, answer.holder, read, existing=True)
        raise EnqueueError(f"schedule {name}: its job was refused: {answer.reason}")

    async def preview(
        self, what: str | Timing, *, n: int = 10, start: datetime | None = None, end: datetime | None = None,
        tz: str = "", gap: Gap = "after", repeat: Repeat = "first",
    ) -> Times:  # fmt: skip
        """The next ``n`` runs of a schedule, or of a timing, in its time zone, from ``start`` or from now on.

        ``tz``, ``gap`` and ``repeat`` are those of a timing; a schedule has its own.
        """
        if isinstance(what, str):
            row, now = await read_row((await self._app.connections.client()).store, what)
            if row is None:
                raise UnknownSchedule(f"there is no schedule {what!r}")
            plan = decode_plan(row.body)
        else:
            now = int(time.time() * 1000)
            plan = self.plan_of(what, now, {"gap": gap, "repeat": repeat, **({"tz": tz} if tz else {})})
        slots = runs(plan, instant_ms(start, "start") - 1 if start else now, instant_ms(end, "end") if end else 0)
        return [local(slot, plan.tz) for slot, _ in zip(slots, range(n), strict=False)]

    def plan_of(self, timing: Timing, now: int, options: Mapping[str, object]) -> SchedulePlan:
        """A plan that runs nothing, to look at its times."""
        entry = self._entry("preview", timing, "preview", (), {}, options)
        return begin(self._plan(entry, code=False), now)[0]


class ScheduleDecorator:
    """``@app.schedule(...)``, waiting for the task or for the function below ``@app.task``."""

    def __init__(
        self, schedules: Schedules, timing: Timing, name: str, args: Sequence[Any], kwargs: Mapping[str, Any],
        options: Mapping[str, object],
    ) -> None:  # fmt: skip
        schedules._entry(name or "?", timing, "task", args, kwargs, options)
        self._schedules, self._name = schedules, name
        self._rest = timing, args, kwargs, options

    def __call__(self, target: F) -> F:
        def declare(task: Task[Any, Any]) -> None:
            timing, args, kwargs, options = self._rest
            self._schedules.declare(self._name or task.name, timing, task.name, args, kwargs, options)

        self._schedules.declare_on(target, declare)
        return target


class SyncSchedules:
    """``app.sync.schedules``: the same for threads and plain scripts."""

    def __init__(self, schedules: Schedules, portal: Portal) -> None:
        self._schedules, self._portal = schedules, portal

    def put(
        self, name: str, timing: Timing, task: Task[Any, Any] | str, *, args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None, **options: Unpack[Policies],
    ) -> ScheduleInfo:  # fmt: skip
        return self._portal.call(lambda: self._schedules.put(name, timing, task, args=args, kwargs=kwargs, **options))

    def get(self, name: str) -> ScheduleInfo | None:
        return self._portal.call(lambda: self._schedules.get(name))

    def list(self) -> Infos:
        return self._portal.call(self._schedules.list)

    def pause(self, name: str, reason: str = PAUSED) -> ScheduleInfo:
        return self._portal.call(lambda: self._schedules.pause(name, reason))

    def resume(self, name: str) -> ScheduleInfo:
        return self._portal.call(lambda: self._schedules.resume(name))

    def remove(self, name: str) -> bool:
        return self._portal.call(lambda: self._schedules.remove(name))

    def run(self, name: str) -> SyncHandle[Any]:
        return self._portal.call(lambda: self._schedules.run(name)).sync

    def preview(
        self, what: str | Timing, *, n: int = 10, start: datetime | None = None, end: datetime | None = None,
        tz: str = "", gap: Gap = "after", repeat: Repeat = "first",
    ) -> Times:  # fmt: skip
        preview = self._schedules.preview
        return self._portal.call(lambda: preview(what, n=n, start=start, end=end, tz=tz, gap=gap, repeat=repeat))


# -- reading


def runs(plan: SchedulePlan, after: int, until: int = 0) -> Iterator[int]:
    """The slots of a plan later than an instant."""
    slot = next_run(plan, after)
    while slot and (not until or slot <= until):
        yield slot
        slot = next_run(plan, slot)


def local(slot: int, tz: str) -> datetime:
    zone: tzinfo = ZoneInfo(tz)
    return datetime.fromtimestamp(slot / 1000, zone)


def schedule_info(row: Schedule) -> ScheduleInfo:
    plan = shown_plan(row.body)
    return ScheduleInfo(
        name=row.name, when=describe(plan.timing), tz=plan.tz, task=plan.job.task, queue=plan.job.queue,
        args=codec.decode_any(plan.job.payload), next_at=local(row.next_slot, plan.tz) if row.next_slot else None,
        last_at=local(row.last_slot, plan.tz) if row.last_slot else None, last_job=row.last_job, fired=row.fired,
        paused=row.paused, in_code=plan.code, timing=plan.timing, missed=plan.missed, overlap=plan.overlap,
        jitter=plan.jitter, start=from_ms(plan.start), end=from_ms(plan.end), limit=plan.limit, gap=plan.gap,
        repeat=plan.repeat,
    )  # fmt: skip
