"""The same random life on two engines: memory, the reference, and another must give the same answers and records.

An example is a list of plain values, so a failure shrinks to the few steps that matter and is printed as such.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar
from uuid import uuid4

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance.differential_steps import (
    FLOW_LIFE,
    IDS,
    LIFE,
    OUTCOMES,
    Advance,
    Alter,
    Beat,
    Exchange,
    Insert,
    Leave,
    Note,
    Step,
    Sweep,
    Tune,
    Wait,
    Watch,
    long_life,
    steps_of,
)
from tests.servers.redis import fresh_prefix
from tests.thorough import played
from windlass.core.job import Claim, ErrorInfo, Fence, Finished, Job, State
from windlass.core.keep import Keep
from windlass.core.lifecycle import Crashed, Outcome
from windlass.store.base import Store, StoreSettings
from windlass.store.flow import Tuning
from windlass.store.jobs import Change, Declared, Query, SweepReply, Want
from windlass.store.memory import MemoryStore
from windlass.store.redis import RedisStore
from windlass.store.sqlite import SQLiteStore
from windlass.testing.conformance import Bench, Hand, ManualClock
from windlass.testing.conformance.bench import move, new_job, presence
from windlass.testing.conformance.outcomes import EVERY, OOPS
from windlass.testing.conformance.sums import counted, faults_of, totals_of

# Failed jobs are kept by age only: which of several that a sweep ends at one instant counts as the older is open.
SETTINGS = StoreSettings(
    keep=Keep(count=4, age=20, failed=Keep(age=40)), unknown_after=9_000, events_kept=10_000, logs_kept=3
)

DECLARES: list[dict[str, Declared]] = [
    {"t": Declared()},
    {"t": Declared(), "u": Declared(max_crashes=1)},
    {"u": Declared((1, 2))},
    {"t": Declared(), "*r": Declared()},
]

UNIQUES = ["one", "two", "three"]


# ---- one engine's side ------------------------------------------------------------------------------------------


class Side:
    """One engine living through the steps; ``apply`` answers what must be the same on both."""

    declares: ClassVar[list[dict[str, Declared]]] = DECLARES
    outcomes: ClassVar[list[Outcome]] = OUTCOMES

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.hands: dict[int, Hand] = {}
        self.born = 0

    async def open(self) -> None:
        await self.store.open()
        self.bench = Bench(self.again, self.store, self.clock, SETTINGS)
        self.client = await self.bench.client()
        await self.store.sweep()  # both have seen the time: an engine that was never written to need not know it

    async def again(self, *, settings: StoreSettings = SETTINGS, clock: Any) -> Store:
        raise NotImplementedError("one connection per side")

    async def hand(self, n: int) -> Hand:
        """The worker of this number; a new one, with a new id, where the last one is gone."""
        if n not in self.hands:
            self.born += 1
            hand = Hand(self.store, presence(f"w{n}.{self.born}", queues=["q", "r"], declares=self.declares[n % 2]))
            await hand.start()
            self.hands[n] = hand
        return self.hands[n]

    async def apply(self, step: Step) -> Any:
        answer = await getattr(self, type(step).__name__.lower())(step)
        return plain(answer)

    async def insert(self, step: Insert) -> Any:
        answers = await self.store.insert([new_job(**job) for job in step.jobs])
        return [(str(answer.status), bool(answer.reason)) for answer in answers]

    async def beat(self, step: Beat) -> Any:
        hand = await self.hand(step.worker)
        hand.presence = msgspec.structs.replace(hand.presence, declares=self.declares[step.declares])
        held = list(hand.held)[step.forgets :] + (["never", IDS[0]] if step.claims_too_much else [])
        reply = await hand.beat(max(0, hand.acked - step.acked_less), held)
        if reply.gone:
            del self.hands[step.worker]
        [*kept] = [job for job in await self.store.get(list(hand.held)) if job]
        running = {job.id for job in kept if job.worker == hand.id and job.state is State.RUNNING}
        hand.held = {id: claim for id, claim in hand.held.items() if id in running}
        return msgspec.structs.replace(reply, lost=sorted(reply.lost), cancels=sorted(reply.cancels))

    async def exchange(self, step: Exchange) -> Any:
        hand = await self.hand(step.worker)
        moves = []
        for claim, outcome in zip(hand.held.values(), step.outcomes, strict=False):
            forged = {"fence": Fence(claim.run, claim.epoch, claim.seq + 1)} if step.forged else {}
            moves.append(move(claim, self.outcomes[outcome], **forged))
        want = Want([("q", step.caps[0]), ("r", step.caps[1])], step.total)
        held = dict(hand.held)
        replies = [await hand.exchange(moves, want)]
        replies += [await hand.resend() for _ in range(step.sent - 1)]
        if step.forged:
            hand.held = held | hand.held
        if replies[0].gone:
            del self.hands[step.worker]
        # The first answer to the letter; the answer to the same again has the same claims, in an order of its own.
        first = msgspec.structs.replace(replies[0], cancels=sorted(replies[0].cancels))
        for again in replies[1:]:
            assert sorted(again.claims, key=by_id) == sorted(first.claims, key=by_id)
            assert (again.refused, sorted(again.cancels)) == (first.refused, first.cancels)
        return first

    async def leave(self, step: Leave) -> Any:
        hand = await self.hand(step.worker)
        del self.hands[step.worker]
        await self.store.leave(hand.id, step.crashed)

    async def note(self, step: Note) -> Any:
        hand = await self.hand(step.worker)
        for claim in list(hand.held.values())[:1]:
            fence = Fence(claim.run, claim.epoch + 1, claim.seq) if step.forged else claim.fence
            return await hand.note(claim, step.text, step.text, progress=b"1", fence=fence)

    async def alter(self, step: Alter) -> Any:
        change = Change(action=step.action, queue=step.queue, priority=step.priority, payload=b"[1]", reason="by hand")
        if step.by_query:
            reply = await self.store.change(change, query=Query(queue=step.queue, oldest_first=True), limit=step.limit)
        else:
            reply = await self.store.change(change, list(dict.fromkeys(step.ids)))
        # Whether a cursor leads to nothing more is known to some engines only: they walk a narrower index.
        return reply.changed, sorted(reply.skipped.items())

    async def advance(self, step: Advance) -> Any:
        """A write that sees the new time: whether a read does is an engine's own affair."""
        return await self.insert(Insert([{"id": "tick", "queue": "probes", "delay": 10**9}]))

    async def wait(self, step: Wait) -> Any:
        """Time as in service: some workers beat, some do not, and there is a sweep at each step."""
        answers = []
        for _ in range(step.steps):
            self.clock.advance(5_000)
            for n in [n for n in self.hands if step.beating >> n & 1]:
                answers.append(await self.beat(Beat(n, 0, 0, False, n % 2)))
            answers.append(await self.sweep(Sweep(1_000)))
        return answers

    async def sweep(self, step: Sweep) -> Any:
        """Swept in steps until nothing is left; what comes first is an engine's own affair."""
        total = SweepReply(dead_workers=[])
        for _ in range(1_000):
            reply = await self.store.sweep(step.limit)
            for name in ("promoted", "recovered", "quarantined", "expired", "parked"):
                setattr(total, name, getattr(total, name) + getattr(reply, name))
            total.dead_workers = sorted({*total.dead_workers, *reply.dead_workers})
            if not reply.more:
                break
        assert not reply.more, "the sweep never ends"
        total.next_check = reply.next_check
        return total

    async def watch(self, step: Watch) -> Any:
        reply = await self.store.watch("client", list(dict.fromkeys(step.ids)))
        return [told(one) for one in reply.finished], reply.missing

    async def records(self) -> Any:
        """Everything there is to see."""
        jobs = [record(job) for job in await self.bench.everything(oldest_first=True)]
        logs = {id: await self.store.lines(id) for id in IDS}
        queues = {
            info.name: ({state: n for state, n in info.counts.items() if n}, info.oldest_ready >= 0)
            for info in await self.store.queues()
        }
        # Which of several idle workers is woken is an engine's own affair, so the idle marks may differ.
        workers = sorted((plain(info) | {"idle": None} for info in await self.store.workers()), key=str)
        faults = plain(await faults_of(self.bench))
        return {"jobs": jobs, "logs": plain(logs), "queues": queues, "workers": workers, "faults": faults}

    async def story(self) -> Any:
        """What happened to each job, in order, and what the client was told."""
        events = defaultdict(list)
        happened, totals = await self.bench.events(), await totals_of(self.bench)
        assert totals == counted(happened)
        for event in happened:
            about = () if event.kind == "duplicate" else (event.task, event.queue, plain(event.data))
            events[event.job].append((event.kind, event.at, *about))
        await self.client.flush()
        news = sorted((told(one) for one in self.client.news), key=str)
        # Of a job that came again an engine may tell where it is, or where it was to go.
        told_alike = {about: n for about, n in totals.items() if about[0] != "duplicate"}
        return {"events": dict(events), "news": news, "totals": told_alike}


class FlowSide(Side):
    """One engine living with lanes and gates. When to ask again it may say sooner than it need be."""

    declares: ClassVar = [{"t": Declared((1, 2)), "u": Declared((1, 2))}] * len(DECLARES)
    outcomes: ClassVar = [*EVERY.values(), Crashed(OOPS, 99)]

    async def insert(self, step: Insert) -> Any:
        jobs = [new_job(**job) for job in step.jobs]
        for job in jobs:
            if job.terms is not None and job.terms.unique:
                job.task = "t"  # a key is one task's
        answers = await self.store.insert(jobs)
        return [(str(answer.status), bool(answer.reason), answer.holder) for answer in answers]

    async def beat(self, step: Beat) -> Any:
        return msgspec.structs.replace(await super().beat(step), next_due=0, next_check=0, ready=False)

    async def exchange(self, step: Exchange) -> Any:
        return msgspec.structs.replace(await super().exchange(step), next_due=0)

    async def sweep(self, step: Sweep) -> Any:
        return msgspec.structs.replace(await super().sweep(step), next_check=0)

    async def tune(self, step: Tune) -> Any:
        closed_for = msgspec.UNSET if step.closed_for < 0 else step.closed_for
        fields: dict[str, Any] = {step.side: step.limits}
        [info] = await self.store.tune([Tuning(name=step.gate, closed_for=closed_for, **fields)])
        return info.declared, info.tuned, info.closed_for, info.opens_in, info.held if info.limits.limit else 0

    async def records(self) -> Any:
        names = ["queue:q", "queue:r", "task:t", "task:u", "breaker:b"]
        gates = [(info.held if info.limits.limit else 0, info.opens_in) for info in await self.store.gates(names)]
        uniques = plain(await self.store.uniques(UNIQUES))
        return await super().records() | {"gates": gates, "uniques": uniques}

    async def story(self) -> Any:
        """How a change to a gate is told is tested elsewhere."""
        story = await super().story()
        return story | {"events": {job: told for job, told in story["events"].items() if ":" not in job}}


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value, builtin_types=(bytes,))


def by_id(claim: Claim) -> str:
    return claim.id


def told(one: Finished) -> Any:
    return one.id, one.state, one.result, error_text(one.error), one.reason, one.inline


def record(job: Job) -> Any:
    return plain(job) | {"error": error_text(job.error)}


def error_text(error: bytes | None) -> Any:
    """An error without the words an engine may choose."""
    info = msgspec.json.decode(error, type=ErrorInfo) if error else None
    return info and (info.type, info.fingerprint, [earlier.attempt for earlier in info.attempts])


# ---- both sides ----------------------------------------------------------------------------------------------


def same(memory: Any, other: Any, what: str) -> None:
    found = list(differences(memory, other, what))
    assert not found, "\n".join(found)


def differences(memory: Any, other: Any, where: str) -> Iterator[str]:
    """One line for each place where two values differ."""
    if isinstance(memory, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*memory, *other]):
            yield from differences(memory.get(key), other.get(key), f"{where} / {key}")
    elif isinstance(memory, list) and isinstance(other, list) and len(memory) == len(other):
        for n, (left, right) in enumerate(zip(memory, other, strict=True)):
            yield from differences(left, right, f"{where} / {n}")
    elif memory != other:
        yield f"{where}: memory {memory!r}, the other {other!r}"


async def live(steps: Iterable[Step], make: Make, side: type[Side]) -> None:
    mine, theirs = ManualClock(), ManualClock()
    memory = side(MemoryStore(f"memory://{uuid4()}", SETTINGS, clock=mine), mine)
    other = side(make(theirs), theirs)
    try:
        await memory.open()
        await other.open()
        for n, step in enumerate(steps):
            if isinstance(step, Advance):
                memory.clock.advance(step.ms)
                other.clock.advance(step.ms)
            same(await memory.apply(step), await other.apply(step), f"answer to step {n}, {step}")
            same(await memory.records(), await other.records(), f"records after step {n}, {step}")
        same(await memory.story(), await other.story(), "story")
    finally:
        await memory.store.close()
        await other.store.close()


Make = Callable[[ManualClock], Store]


@contextmanager
def sqlite() -> Iterator[Make]:
    with tempfile.TemporaryDirectory() as folder:
        yield lambda clock: SQLiteStore(f"sqlite:///{folder}/jobs.db", SETTINGS, clock=clock)


@pytest.fixture(params=["sqlite", "redis"])
def other(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[Make]]:
    """A new store for each life."""
    if request.param == "sqlite":
        return sqlite
    url = request.getfixturevalue("redis7").url
    return lambda: nullcontext(lambda clock: RedisStore(f"{url}?prefix={fresh_prefix()}", SETTINGS, clock=clock))


def run(steps: list[Step], other: Callable[[], AbstractContextManager[Make]], side: type[Side] = Side) -> None:
    with other() as make:
        asyncio.run(live(steps, make, side))


LIVES = int(os.environ.get("WINDLASS_LIVES", played(4, 12)))

SEARCH = LIVES > 12
"""With more lives than usual Hypothesis looks for new examples too; by default it tries the same ones every time."""

CHOSEN = settings(
    max_examples=2_000 if SEARCH else played(20, 60), derandomize=not SEARCH, database=None, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it is the same for all examples
)  # fmt: skip


@CHOSEN
@pytest.mark.timeout(400)  # Hypothesis gives itself five minutes to find the smallest example of a difference
@given(st.lists(steps_of(LIFE), min_size=8, max_size=40))
def test_both_engines_live_the_same_life(other: Callable[[], AbstractContextManager[Make]], steps: list[Step]) -> None:
    run(steps, other)


@pytest.mark.parametrize("seed", range(LIVES))
def test_both_engines_live_the_same_long_life(other: Callable[[], AbstractContextManager[Make]], seed: int) -> None:
    run(long_life(seed, 150, LIFE), other)


@CHOSEN
@pytest.mark.timeout(400)
@given(st.lists(steps_of(FLOW_LIFE), min_size=8, max_size=40))
def test_both_engines_live_the_same_life_with_lanes_and_gates(
    other: Callable[[], AbstractContextManager[Make]], steps: list[Step]
) -> None:
    run(steps, other, FlowSide)


@pytest.mark.parametrize("seed", range(LIVES))
def test_both_engines_live_the_same_long_life_with_lanes_and_gates(
    other: Callable[[], AbstractContextManager[Make]], seed: int
) -> None:
    run(long_life(seed, 150, FLOW_LIFE), other, FlowSide)
