"""Why is it not running? Facts read from the store, and a pure function that turns them into reasons.

It reads and changes nothing. What it says was true when it was read: a gate may open in the next moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from windlass.core.duration import from_ms, show_ms
from windlass.core.job import Job, State
from windlass.core.limits import fits, show_rate
from windlass.core.terms import breaker_gate, queue_gate, task_gate
from windlass.errors import StoreError
from windlass.store.base import Store
from windlass.store.flow import GateInfo, Hold, HoldKind
from windlass.store.reads import QueueInfo, WorkerInfo

NAMED = 5
"""So many open sources are named; the rest is counted."""

LATE_SECONDS = 1.0
"""How long the store may take to say why a result is late; after that the error goes without the reason."""

LOOKED_AT = 1_000
"""Records of a graph that are looked at to find what is open before a job."""


class Reason(msgspec.Struct, frozen=True):
    """One thing in the way. ``until``: when time removes it, None where something else must. ``by``: who or what it is:
    a worker, a job, a queue, a task, a breaker.
    """

    code: str
    text: str
    until: datetime | None = None
    by: str = ""

    def __str__(self) -> str:
        return self.text


class Why(msgspec.Struct, frozen=True):
    """Every reason, the main one first."""

    reasons: list[Reason]

    @property
    def main(self) -> Reason:
        return self.reasons[0]

    def __str__(self) -> str:
        return "\n".join(reason.text for reason in self.reasons)


class Facts(msgspec.Struct, kw_only=True):
    """What the store said of one job. ``sources``: what is open before a waiting one."""

    id: str
    now: int
    job: Job | None = None
    hold: Hold | None = None
    gates: dict[str, GateInfo] = {}
    workers: list[WorkerInfo] = []
    queue: QueueInfo | None = None
    sources: list[Job] = []


# -- reading


async def ask_why(store: Store, id: str) -> Why:
    return explain(await read_facts(store, id, int(time.time() * 1000)))


async def read_facts(store: Store, id: str, now: int) -> Facts:
    (job,) = await store.get([id])
    facts = Facts(id=id, now=now, job=job)
    if job is None or job.state.terminal or job.state is State.RUNNING:
        return facts
    (facts.hold,) = await store.holds([id])
    if job.state is State.WAITING:
        facts.sources = await open_sources(store, job)
        return facts
    names = [queue_gate(job.queue), task_gate(job.task)]
    if job.terms is not None and job.terms.breaker:
        names.append(breaker_gate(job.terms.breaker))
    facts.gates = {gate.name: gate for gate in await store.gates(names)}
    facts.workers = [worker for worker in await store.workers() if worker.alive]
    facts.queue = next((queue for queue in await store.queues() if queue.name == job.queue), None)
    return facts


async def open_sources(store: Store, job: Job) -> list[Job]:
    """The jobs that are not over and that a waiting one needs, also through joins. Looks at a bounded number."""
    if job.awaits:
        return [one for one in await store.get([job.awaits]) if one is not None]
    wanted = [edge.source for edge in job.links.ins] if job.links is not None else []
    seen: set[str] = set()
    found: list[Job] = []
    while wanted and len(seen) < LOOKED_AT:
        page = [id for id in dict.fromkeys(wanted) if id not in seen][: LOOKED_AT - len(seen)]
        seen.update(page)
        wanted = []
        for one in await store.get(page) if page else []:
            if one is None or one.state.terminal:
                continue
            if one.task:
                found.append(one)
            elif one.links is not None:
                wanted += [edge.source for edge in one.links.ins]
    return found


async def why_late(store: Store, id: str) -> str:
    """The end of the error for a caller whose job or workflow is late: why it is. Empty where the store is slow."""
    try:
        async with asyncio.timeout(LATE_SECONDS):
            facts = await read_facts(store, id, int(time.time() * 1000))
            job = facts.job
            if job is not None and job.state is State.WAITING and (job.graph or not job.task):
                job = await _in_turn(store, job.graph or id)
                facts = await read_facts(store, job.id, facts.now) if job is not None else facts
    except (StoreError, TimeoutError):
        return ""
    if job is None or job.state.terminal:
        return ""
    who = f" job {job.id} ({job.task}):" if job.id != id else ""
    return f":{who} {explain(facts).main.text}"


async def _in_turn(store: Store, graph: str) -> Job | None:
    """The first job of a workflow that waits for no other."""
    members = await store.members(graph, limit=LOOKED_AT)
    return next(
        (job for job in members if job.task and not job.state.terminal and job.state is not State.WAITING), None
    )


# -- explaining


def explain(facts: Facts) -> Why:
    """The reasons, the main one first. Never none."""
    job = facts.job
    if job is None:
        text = "the store has no record of it: it was never accepted, was deleted, or its retention has passed"
        return Why([Reason("missing", f"job {facts.id}: {text}")])
    if job.state.terminal:
        return Why([Reason("over", f"it is over: {job.state}" + (f" ({job.reason})" if job.reason else ""))])
    if job.state is State.RUNNING:
        asked = "; a cancel was requested" if job.cancel_requested else ""
        ran = show_ms(max(facts.now - job.started_at, 0))
        text = f"it has been running for {ran} on worker {job.worker}{asked}"
        return Why([Reason("running", text, by=job.worker)])
    if job.state is State.WAITING:
        return Why([_waits(facts, job)])
    return Why(list(_not_started(facts, job)))


def _not_started(facts: Facts, job: Job) -> Iterator[Reason]:
    """Of a job that is scheduled or ready."""
    reasons: list[Reason] = []
    if job.state is State.SCHEDULED:
        reasons.append(_scheduled(facts, job))
    reasons += _pauses(facts, job)
    reasons += _nobody(facts, job)
    reasons += _kept(facts, job)
    reasons += _closed(facts, job)
    yield from reasons or [_behind(facts, job)]


def _waits(facts: Facts, job: Job) -> Reason:
    hold = facts.hold
    if hold is not None and hold.kind is HoldKind.SUCCESSOR:
        text = f"it starts when job {hold.holder}, which has its unique key, is over"
        return Reason("unique_successor", text, by=hold.holder)
    if job.awaits:
        return Reason("waiting_for", f"it waits for workflow {job.awaits}, which it started", by=job.awaits)
    if not facts.sources:
        return Reason("waiting_for", "it waits for other jobs of its workflow", by=job.graph)
    named = ", ".join(f"{one.id} ({one.task}, {one.state})" for one in facts.sources[:NAMED])
    more = f" and {len(facts.sources) - NAMED} more" if len(facts.sources) > NAMED else ""
    return Reason("waiting_for", f"it waits for {named}{more}", by=facts.sources[0].id)


def _scheduled(facts: Facts, job: Job) -> Reason:
    what = f"retry {job.attempt} is due" if job.attempt else "it is due"
    return Reason("scheduled", f"{what} {_in(job.due_at - facts.now)}", from_ms(job.due_at))


def _pauses(facts: Facts, job: Job) -> Iterator[Reason]:
    for name, code, kind, by in (
        (queue_gate(job.queue), "paused_queue", "queue", job.queue),
        (task_gate(job.task), "paused_task", "task", job.task),
    ):
        gate, what = facts.gates.get(name), f"{kind} {by!r}"
        if gate is not None and gate.limits.paused:
            yield Reason(code, f"{what} is paused", by=by)
        elif gate is not None and gate.closed_for:
            yield Reason(code, f"{what} is closed {_for(gate.closed_for)}", _at(facts, gate.closed_for), by)


def _nobody(facts: Facts, job: Job) -> Iterator[Reason]:
    """No worker listens to its queue, or none of those that do knows its task."""
    listening = [worker for worker in facts.workers if job.queue in worker.presence.queues]
    if not listening:
        yield Reason("no_worker", f"no live worker takes jobs from queue {job.queue!r}", by=job.queue)
    elif not any(declares(worker, job) for worker in listening):
        version = f" version {job.version}" if job.version > 1 else ""
        text = f"no live worker of queue {job.queue!r} declares task {job.task!r}{version}"
        yield Reason("undeclared", text, by=job.task)


def declares(worker: WorkerInfo, job: Job) -> bool:
    known = worker.presence.declares
    return f"*{job.queue}" in known or (job.task in known and job.version in known[job.task].versions)


def _kept(facts: Facts, job: Job) -> Iterator[Reason]:
    """What keeps its lane, or itself."""
    hold = facts.hold
    if hold is None:
        return
    until = _at(facts, hold.opens_in) if hold.opens_in >= 0 else None
    key = job.terms.key if job.terms is not None else ""
    if hold.kind is HoldKind.SOLO:
        yield Reason("alone", "its workers died under it: it must run alone, and waits for a worker to be empty")
    elif hold.holder and hold.holder != job.id:
        yield Reason(
            "lane_held", f"job {hold.holder} comes first: the jobs of key {key!r} run in order", by=hold.holder
        )
    elif hold.missing:
        text = f"number {hold.missing} of key {key!r} has not come and is waited for"
        yield Reason("lane_gap", text + (f", {show_ms(hold.opens_in)} more" if until else ""), until, key)
    elif hold.gate.startswith("key:"):
        text = f"the limit of key {key!r} in queue {job.queue!r} is reached"
        yield Reason("key_limited", text + (f"; it opens {_in(hold.opens_in)}" if until else ""), until, key)
    elif hold.ahead:
        yield Reason("behind", f"{_jobs(hold.ahead)} of its lane {'is' if hold.ahead == 1 else 'are'} before it")


def _closed(facts: Facts, job: Job) -> Iterator[Reason]:
    """Breakers, limits and rates, of what concerns it."""
    units = job.terms.units if job.terms is not None else 1
    for name, gate in facts.gates.items():
        kind, _, of = name.partition(":")
        what, limits = f"{kind} {of!r}", gate.limits
        if kind == "breaker" and limits.paused:
            yield Reason("breaker_open", f"{what} was opened by hand, until it is closed or left to itself", by=of)
        elif limits.paused:
            continue
        elif kind == "breaker" and gate.closed_for:
            text = f"{what} is open {_for(gate.closed_for)}"
            yield Reason("breaker_open", text, _at(facts, gate.closed_for), of)
        elif not fits(gate.held, limits.limit, units):
            yield Reason("limit_reached", f"{what} has its limit: {gate.held} of {limits.limit} run", by=of)
        elif limits.rate is not None and limits.rate.every and gate.opens_in:
            text = f"{what} is limited to {show_rate(limits.rate)}; the next may start {_in(gate.opens_in)}"
            yield Reason("rate_limited", text, _at(facts, gate.opens_in), of)


def _behind(facts: Facts, job: Job) -> Reason:
    """Nothing is in its way but other jobs."""
    ready = facts.queue.counts.get(State.READY, 0) if facts.queue is not None else 0
    listening = [worker for worker in facts.workers if job.queue in worker.presence.queues]
    running = sum(worker.running for worker in listening)
    room = sum(worker.presence.concurrency for worker in listening)
    busy = f"{running:,} of {room:,} slots of its workers taken"
    text = f"it waits for its turn: {_jobs(ready)} of queue {job.queue!r} are ready, {busy}"
    return Reason("behind", text, by=job.queue)


def _jobs(n: int) -> str:
    return f"{n:,} job{'' if n == 1 else 's'}"


def _at(facts: Facts, ms: int) -> datetime:
    return datetime.fromtimestamp((facts.now + ms) / 1000, UTC)


def _in(ms: int) -> str:
    return f"in {show_ms(ms)}" if ms > 0 else "now"


def _for(ms: int) -> str:
    return f"for {show_ms(max(ms, 0))} more"
