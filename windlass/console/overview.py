"""The first page, the health of the whole, and the warnings."""

from __future__ import annotations

import msgspec

from windlass.console import job_rows, show
from windlass.console.charts import CHARTS, Pace, chart, paces
from windlass.console.desk import Desk, now_ms
from windlass.console.queues import queue_names, queue_row, sees_gate
from windlass.console.replies import Health, JobRow, Overview, QueueHealth, QueueRow, Scale, Warn
from windlass.console.schedules import known, next_schedules
from windlass.console.search import plan_search, search
from windlass.console.store_state import StoreState, store_info, store_state
from windlass.core.breaker import Mode
from windlass.core.duration import show_ms
from windlass.core.health import NO_WORKER, PAUSED, STUCK, flow_of, in_words, is_well
from windlass.core.hints import did_you_mean
from windlass.core.mute import MOST, SHELF, Mute, decode
from windlass.core.terms import breaker_gate, queue_gate
from windlass.errors import ConfigError, NotFound, StoreError
from windlass.limits.breakers import info_of
from windlass.operate.standing import facts_of, slots_of
from windlass.store.reads import QueueInfo, WorkerInfo

FAILURES, COMING = 8, 8
SOME_WARNINGS = 50
CODES = {NO_WORKER: "no_worker", STUCK: "stuck", PAUSED: "paused_backlog"}
OF_QUEUES = frozenset({*CODES.values(), "dead_growing"})
"""Codes of warnings that are about a queue."""

MANY_FAILED = 100
"""Dead letters in ten minutes above which a warning is serious."""


# -- queues with their pace


async def flowing_queues(desk: Desk) -> list[QueueRow]:
    """The queues, each with its flow."""
    desk.need("read")
    now = await store_state(desk)
    names = queue_names(desk, now)
    infos = {queue.name: queue for queue in now.queues}
    found = await paces(desk, names)
    return [flowing(now, infos.get(name) or QueueInfo(name=name), found[name]) for name in names]


def flowing(now: StoreState, queue: QueueInfo, pace: Pace) -> QueueRow:
    return queue_row(
        now,
        queue,
        flow=flow_of(facts_of(queue, now.workers, now.gates.get(queue_gate(queue.name)), pace.quiet)),
        per_minute=pace.minute,
        spark=pace.spark,
    )


async def one_flowing(desk: Desk, name: str) -> QueueRow:
    found = [row for row in await flowing_queues(desk) if row.name == name]
    if not found:
        hint = did_you_mean(name, queue_names(desk, await store_state(desk)))
        raise NotFound(f"there is no queue {name!r}{hint}: it has had no job, and nothing declares or serves it")
    return found[0]


# -- the first page


async def overview(desk: Desk, span: str) -> Overview:
    desk.need("read")
    if span not in CHARTS:
        raise ConfigError(f"span is {span!r}; one of {', '.join(CHARTS)}")
    now, queues = await store_state(desk), await flowing_queues(desk)
    counts: dict[str, int] = {}
    for queue in queues:
        for state, count in queue.counts.items():
            counts[state] = counts.get(state, 0) + count
    oldest = max(queues, key=lambda queue: queue.oldest_ready, default=None)
    waits = oldest is not None and oldest.oldest_ready >= 0
    workers = live_workers(desk, now)
    return Overview(
        counts=counts, chart=await chart(desk, span), oldest_ready=oldest.oldest_ready if oldest and waits else -1,
        oldest_queue=oldest.name if oldest and waits else "", depth=counts.get("ready", 0),
        slots=sum(worker.presence.concurrency for worker in workers),
        busy=sum(slots_of(worker).busy for worker in workers), workers=len(workers), queues=queues,
        warnings=await warnings(desk), failures=await failures(desk),
        coming=await next_schedules(desk, COMING), store=await store_info(desk),
    )  # fmt: skip


def live_workers(desk: Desk, now: StoreState) -> list[WorkerInfo]:
    return [worker for worker in now.workers if worker.alive and any(map(desk.access.sees, worker.presence.queues))]


async def failures(desk: Desk) -> list[JobRow]:
    """The newest dead letters."""
    found = await search(desk, plan_search(desk, "state:failed"), "", FAILURES)
    return [job_rows.job_row(desk.access, job) for job in found.jobs]


# -- warnings


async def warnings(desk: Desk) -> list[Warn]:
    """What an operator should look at: serious warnings first, muted ones last."""
    desk.need("read")
    now = await store_state(desk)
    queues = await flowing_queues(desk)
    pace = await paces(desk, [queue.name for queue in queues])
    found = [warn for queue in queues for warn in of_queue(queue, pace[queue.name])]
    found += [_stale(worker) for worker in now.workers if _is_stale(desk, worker)]
    found += of_breakers(desk, now)
    found += [
        Warn(code="schedule_paused", text=f"schedule {row.name} is paused: {row.paused}", where=row.name)
        for row in (await known(desk)).rows
        if row.paused
    ]
    found += [Warn(code="store", text=text, where="store") for text in (await store_info(desk)).warnings]
    muted = await mutes(desk)
    told = [with_mute(warn, muted.get((warn.code, warn.where))) for warn in found]
    return sorted(told, key=lambda warn: (bool(warn.muted_until), not warn.serious))[:SOME_WARNINGS]


async def mutes(desk: Desk) -> dict[tuple[str, str], Mute]:
    """The mutes that hold now."""

    async def read() -> dict[tuple[str, str], Mute]:
        items = await (await desk.store()).shelf(SHELF, limit=MOST)
        return decode((item.body for item in items), now_ms())

    return await desk.shared.ask("mutes", read)


def with_mute(warn: Warn, mute: Mute | None) -> Warn:
    if mute is None:
        return msgspec.structs.replace(warn, muted_until=0, muted_by="", muted_reason="")
    said = show.one_line(mute.reason, 500)
    return msgspec.structs.replace(warn, muted_until=mute.until, muted_by=show.one_line(mute.by), muted_reason=said)


def of_queue(queue: QueueRow, pace: Pace) -> list[Warn]:
    found: list[Warn] = []
    ready = queue.counts.get("ready", 0)
    text = in_words(queue.flow, ready, show_ms(max(queue.oldest_ready, 0)))
    if text and queue.flow in CODES:
        serious = not is_well(queue.flow, queue.oldest_ready)
        found.append(
            Warn(code=CODES[queue.flow], text=f"queue {queue.name}: {text}", where=queue.name, serious=serious)
        )
    if pace.failed:
        some = f"{pace.failed:,} dead letter{'' if pace.failed == 1 else 's'}"
        text = f"queue {queue.name}: {some} in the last ten minutes"
        found.append(Warn(code="dead_growing", text=text, where=queue.name, serious=pace.failed > MANY_FAILED))
    return found


def _is_stale(desk: Desk, worker: WorkerInfo) -> bool:
    return not worker.alive and any(map(desk.access.sees, worker.presence.queues))


def _stale(worker: WorkerInfo) -> Warn:
    who = worker.presence
    jobs = f", with {worker.running} job{'' if worker.running == 1 else 's'}" if worker.running else ""
    text = f"worker {who.host}:{who.pid} has not been heard of for {show_ms(worker.beat_age)}{jobs}"
    return Warn(code="stale_worker", text=text, where=who.id, serious=worker.running > 0)


def of_breakers(desk: Desk, now: StoreState) -> list[Warn]:
    found, prefix = [], breaker_gate("")
    for gate in now.gates.values():
        name = gate.name.removeprefix(prefix)
        if not gate.name.startswith(prefix) or not sees_gate(desk, "breaker", name):
            continue
        info = info_of(name, gate)
        if info.state is not Mode.CLOSED:
            hand = " by hand" if info.forced else ""
            text = f"breaker {name} is {info.state.replace('_', '-')}{hand}"
            found.append(Warn(code="breaker_open", text=text, where=name, serious=info.state is Mode.OPEN))
    return found


# -- health


async def health(desk: Desk) -> Health:
    """Whether work is flowing. A store that cannot be reached is an answer here, not an error."""
    desk.need("read")
    try:
        queues, now = await flowing_queues(desk), await store_state(desk)
    except StoreError as error:
        return Health(ok=False, store=False, text=f"the store cannot be reached: {error}")
    checked = [
        QueueHealth(
            name=queue.name, flow=queue.flow, ready=queue.counts.get("ready", 0), oldest_ready=queue.oldest_ready,
            text=in_words(queue.flow, queue.counts.get("ready", 0), show_ms(max(queue.oldest_ready, 0))),
        )
        for queue in queues
    ]  # fmt: skip
    ill = [queue for queue in checked if not is_well(queue.flow, queue.oldest_ready)]
    text = "; ".join(f"queue {queue.name}: {queue.text}" for queue in ill) or "work is flowing"
    return Health(ok=not ill, store=True, text=text, queues=checked, workers=len(live_workers(desk, now)))


async def scale(desk: Desk, queue: str) -> Scale:
    desk.need("read")
    now = await store_state(desk)
    infos = {info.name: info for info in now.queues if desk.access.sees(info.name)}
    info = infos.get(queue) or QueueInfo(name=queue)
    ready, running = info.counts.get("ready", 0), info.counts.get("running", 0)
    slots = sum(worker.presence.concurrency for worker in now.serving(queue)) if desk.access.sees(queue) else 0
    return Scale(
        queue=queue, ready=ready, running=running, scheduled=info.counts.get("scheduled", 0), backlog=ready + running,
        age=max(info.oldest_ready, 0) / 1000, slots=slots,
    )  # fmt: skip
