"""The same random life on two engines: memory, the reference, and another must give the same answers and records.

An example is a list of plain values, so a failure shrinks to the few steps that matter and is printed as such.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, NamedTuple
from uuid import uuid4

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers.redis import fresh_prefix
from tests.thorough import played
from windlass.core.job import Claim, ErrorInfo, Fence, Finished, Job, State
from windlass.core.keep import Keep
from windlass.core.lifecycle import Crashed, Outcome
from windlass.core.limits import Limits, Rate
from windlass.core.terms import Policy, Terms
from windlass.store.base import Store, StoreSettings
from windlass.store.flow import Tuning
from windlass.store.jobs import Action, Change, Declared, Query, SweepReply, Want
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
OUTCOMES: list[Outcome] = [*EVERY.values(), Crashed(OOPS, 2)]
DECLARES: list[dict[str, Declared]] = [
    {"t": Declared()},
    {"t": Declared(), "u": Declared(max_crashes=1)},
    {"u": Declared((1, 2))},
    {"t": Declared(), "*r": Declared()},
]
IDS = [f"j{n}" for n in range(15)]

# ---- the steps ------------------------------------------------------------------------------------------------


class Insert(NamedTuple):
    jobs: list[dict[str, Any]]


class Beat(NamedTuple):
    worker: int
    acked_less: int
    forgets: int
    claims_too_much: bool
    declares: int


class Exchange(NamedTuple):
    worker: int
    outcomes: list[int]
    forged: bool
    caps: tuple[int, int]
    total: int
    sent: int


class Leave(NamedTuple):
    worker: int
    crashed: bool


class Note(NamedTuple):
    worker: int
    text: str
    forged: bool


class Alter(NamedTuple):
    action: Action
    ids: list[str]
    by_query: bool
    queue: str
    priority: int
    limit: int


class Advance(NamedTuple):
    ms: int


class Wait(NamedTuple):
    steps: int
    beating: int


class Sweep(NamedTuple):
    limit: int


class Watch(NamedTuple):
    ids: list[str]


class Tune(NamedTuple):
    gate: str
    side: str
    limits: Limits
    closed_for: int


Step = Insert | Beat | Exchange | Leave | Note | Alter | Advance | Wait | Sweep | Watch | Tune


class Some(NamedTuple):
    """A list of values."""

    of: Any
    least: int
    most: int


class Weighed(NamedTuple):
    """A step, the values each of its fields is chosen from, and how often it comes."""

    weight: int
    kind: type
    fields: dict[str, Any]


_WORKER = [0, 0, 1, 1, 2]
_JOB = {
    "id": IDS,
    "task": ["t", "t", "u"],
    "queue": ["q", "q", "r"],
    "payload": [b"[1]", b"[1]", b"[1]", b"[2]"],
    "version": [1, 1, 1, 1, 1, 2],
    "priority": [5, 5, 0, 9],
    "delay": [0, 0, 0, 1, 2_000],
    "expires_in": [0, 0, 0, 0, 3_000],
    "expire_to": [State.CANCELLED, State.FAILED],
    "max_crashes": [2, 1, 2, 3],
    "crash_delay": [0, 0, 1_000],
    "keep_done": ["", "", "1|-1|k"],
    "keep_failed": ["", "", "0|-1|k"],
}
_CAPS = [(3, 2), (3, 2), (1, 1), (0, 2), (2, 0)]
LIFE = [
    Weighed(3, Insert, {"jobs": Some(_JOB, 1, 4)}),
    Weighed(
        9,
        Exchange,
        {
            "worker": _WORKER,
            "outcomes": Some(range(len(OUTCOMES)), 0, 3),
            "forged": [False] * 6 + [True],
            "caps": _CAPS,
            "total": [4, 4, 2, 1, 0],
            "sent": [1, 1, 2],
        },
    ),
    Weighed(
        2,
        Beat,
        {
            "worker": _WORKER,
            "acked_less": [0, 0, 1],
            "forgets": [0, 0, 0, 1, 2],
            "claims_too_much": [False, False, True],
            "declares": [0, 1, 1, 1, 2, 3],
        },
    ),
    Weighed(
        2,
        Alter,
        {
            "action": list(Action),
            "ids": Some(IDS, 1, 3),
            "by_query": [False, False, True],
            "queue": ["q", "r"],
            "priority": [1, 9],
            "limit": [1, 2, 1_000],
        },
    ),
    Weighed(1, Leave, {"worker": _WORKER, "crashed": [False, True]}),
    Weighed(1, Note, {"worker": _WORKER, "text": ["a", "b"], "forged": [False, False, True]}),
    Weighed(1, Watch, {"ids": Some(IDS, 1, 3)}),
    Weighed(2, Advance, {"ms": [1, 900, 2_000, 5_000, 6_000, 60_000, -30_000]}),
    Weighed(2, Wait, {"steps": [1, 2, 3, 4], "beating": [0, 0b111, 0b110, 0b010, 0b011]}),
    Weighed(2, Sweep, {"limit": [1_000, 1_000, 1, 2]}),
]

UNIQUES = ["one", "two", "three"]
_TERMS = [
    None,
    None,
    None,
    Terms(key="a"),
    Terms(key="b", key_limit=1),
    Terms(key="c", key_rate=Rate(1_000_000, 1)),
    Terms(key="o", ordered=True),
    *[Terms(key="s", seq=seq, gap=2_000) for seq in (1, 2, 3)],
    Terms(breaker="b"),
    Terms(units=2),
    Terms(unique="one"),
    Terms(unique="two", policy=Policy.REPLACE, key="o", ordered=True),
    Terms(unique="two", policy=Policy.REPLACE),
    Terms(unique="three", policy=Policy.DEBOUNCE, most=4_000, window=6_000),
    Terms(max_ready=2),
    Terms(max_ready=2, drop_oldest=True),
]
_LIMITS = [
    Limits(),
    Limits(),
    Limits(limit=1),
    Limits(limit=2, key_limit=1),
    Limits(rate=Rate(1_000_000, 2)),
    Limits(paused=True),
    Limits(draining=True),
    Limits(max_ready=3),
    Limits(limit=0, rate=Rate(0, 0), key_limit=0, key_rate=Rate(0, 0), max_ready=0, paused=False, draining=False),
]
_SIDE = ["tuned", "tuned", "declared"]
_CLOSED_FOR = [-1, -1, -1, 0, 1_500]
_FLOW_JOB = _JOB | {"terms": _TERMS, "max_crashes": [99], "expires_in": [0], "payload": [b"[1]"]}
FLOW_LIFE = [
    Weighed(4, Insert, {"jobs": Some(_FLOW_JOB, 1, 4)}),
    *[one for one in LIFE if one.kind not in (Insert, Wait)],
    Weighed(2, Wait, {"steps": [1, 2, 3, 4], "beating": [0b111]}),
    Weighed(2, Tune, {"gate": ["queue:q", "queue:r"], "side": _SIDE, "limits": _LIMITS, "closed_for": _CLOSED_FOR}),
    Weighed(
        2,
        Tune,
        {
            "gate": ["task:t", "task:u", "breaker:b"],
            "side": _SIDE,
            "limits": [Limits(), Limits(paused=True), Limits(paused=False)],
            "closed_for": _CLOSED_FOR,
        },
    ),
]
"""Lives with lanes, gates and unique keys, as far as the rules settle who is granted first.

All workers declare all, nothing must run alone and nothing expires: what is set aside goes back to its lane, and what
has expired ends, when somebody looks at it, and when that is is an engine's own affair. So is which lanes of several
queues are looked at for one unit of a task, and in which order a sweep gives back what dead workers held.
"""


def strategy(values: Any) -> st.SearchStrategy[Any]:
    """Hypothesis's way to choose."""
    if isinstance(values, Some):
        return st.lists(strategy(values.of), min_size=values.least, max_size=values.most)
    if isinstance(values, dict):
        return st.fixed_dictionaries({name: strategy(of) for name, of in values.items()})
    return st.sampled_from(values)


def chosen(values: Any, rng: random.Random) -> Any:
    """The same by dice, without Hypothesis's love of small examples: for long lives."""
    if isinstance(values, Some):
        return [chosen(values.of, rng) for _ in range(rng.randint(values.least, values.most))]
    if isinstance(values, dict):
        return {name: chosen(of, rng) for name, of in values.items()}
    return rng.choice(values)


def long_life(seed: int, steps: int, life: list[Weighed]) -> list[Step]:
    rng = random.Random(seed)
    picked = rng.choices(life, [one.weight for one in life], k=steps)
    return [one.kind(**chosen(one.fields, rng)) for one in picked]


def steps_of(life: list[Weighed]) -> st.SearchStrategy[Step]:
    # Not one_of(), which throws out the repeated ones and with them the weights.
    return st.sampled_from([one for one in life for _ in range(one.weight)]).flatmap(
        lambda one: st.builds(one.kind, **{name: strategy(of) for name, of in one.fields.items()})
    )


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
