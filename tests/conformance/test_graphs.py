"""Random graphs with random fates on every engine, held against the model of the rules: all agree, and nothing hangs.

An example is a few plain values, so a failure shrinks to the nodes and steps that matter and is printed as such. Steps
name what they act on by number, modulo what there is to act on at that moment.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers.redis import fresh_prefix
from tests.thorough import played
from windlass.core.graph import because
from windlass.core.job import Claim, State
from windlass.core.lifecycle import Adopted, Outcome
from windlass.core.links import Inject, On, Shape
from windlass.store.answers import Accept
from windlass.store.base import Store, StoreSettings
from windlass.store.jobs import Action
from windlass.store.memory import MemoryStore
from windlass.store.redis import RedisStore, library
from windlass.store.redis.commands import Library
from windlass.store.sqlite import SQLiteStore
from windlass.testing.conformance import Bench, Hand, ManualClock
from windlass.testing.conformance.bench import HOUR, LEASE, START, move, value
from windlass.testing.conformance.graph_drafts import After, GraphDraft, done
from windlass.testing.conformance.model import Deed, GraphModel, Kind
from windlass.testing.conformance.outcomes import BACK, DEAD, RETRY_NOW, STOPPED
from windlass.testing.conformance.sums import check_sums

SETTINGS = StoreSettings()
MANY_CRASHES = 99
TIME = HOUR // 2
LATE = START + TIME
"""The late hour: later than any life lasts by itself, and sooner than what is over is pruned."""

# ---- random plans -----------------------------------------------------------------------------------------------


class Sketch(NamedTuple):
    """A node in the making. ``sources`` are taken modulo the nodes before it. ``expires``: what becomes of it if it has
    not begun before the late hour comes."""

    join: bool
    sources: tuple[int, ...]
    ons: tuple[On, ...]
    spare: int
    hasty: bool
    fragile: bool
    expires: State | None


class Draft(NamedTuple):
    """A graph in the making; ``after``: its callbacks, by what end of the workflow they are met."""

    nodes: tuple[Sketch, ...]
    ends: tuple[On, ...]
    spare: int
    fail_fast: bool
    after: tuple[On, ...]


_ON = st.sampled_from([On.SUCCESS, On.SUCCESS, On.SUCCESS, On.DONE, On.FAILURE])
SKETCHES = st.builds(
    Sketch,
    join=st.sampled_from([False, False, True]),
    sources=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    ons=st.tuples(_ON, _ON, _ON),
    spare=st.sampled_from([0, 0, 0, 1]),
    hasty=st.sampled_from([False, False, False, True]),
    fragile=st.sampled_from([False, False, True]),
    expires=st.sampled_from([None, None, None, None, State.CANCELLED, State.FAILED]),
)
DRAFTS = st.builds(
    Draft,
    nodes=st.lists(SKETCHES, min_size=1, max_size=8).map(tuple),
    ends=st.tuples(*[st.sampled_from([On.SUCCESS, On.SUCCESS, On.DONE])] * 8),
    spare=st.sampled_from([0, 0, 0, 1]),
    fail_fast=st.sampled_from([False, False, True]),
    after=st.lists(st.sampled_from(list(On)), max_size=2).map(tuple),
)


def drawn(draft: Draft, id: str, parent: str = "", parent_on: On = On.SUCCESS) -> GraphDraft:
    """The plan of a draft. Whatever leads nowhere leads to the end."""
    plan = GraphDraft(id, parent=parent, parent_on=parent_on, name=f"life of {id}", fail_fast=draft.fail_fast)
    names = [f"{id}.{n}" for n in range(len(draft.nodes))]
    for n, sketch in enumerate(draft.nodes):
        edges = edges_of(sketch, names[:n])
        if sketch.join:
            plan.join(names[n], *edges, spare=0 if sketch.hasty else sketch.spare)
        else:
            fields: dict[str, Any] = {"max_crashes": 1 if sketch.fragile else MANY_CRASHES}
            if sketch.expires is not None:
                fields |= {"expires_at": LATE, "expire_to": sketch.expires}
            plan.job(names[n], *edges, spare=0 if sketch.hasty else sketch.spare, **fields)
    sources = {edge.source for node in plan.added for edge in node.after}
    ends = [After(name, on) for name, on in zip(names, draft.ends, strict=False) if name not in sources]
    plan.end(*ends, shape=Shape.MANY, spare=draft.spare)
    for n, on in enumerate(draft.after):
        plan.job(f"{id}.after{n}", After(id, on, Inject.NONE), aftermath=True, max_crashes=MANY_CRASHES)
    if draft.after:
        plan.job(f"{id}.last", f"{id}.after0", aftermath=True, max_crashes=MANY_CRASHES)
    return plan


def is_spared(plan: GraphDraft) -> bool:
    """Whether a workflow that is to fail fast may succeed in spite of something that does not."""
    [end] = [node for node in plan.added if node.id == plan.id]
    return plan.fields["fail_fast"] and (end.spare > 0 or any(edge.on is On.DONE for edge in end.after))


def edges_of(sketch: Sketch, before: list[str]) -> list[After]:
    """A node with a hasty edge is made so that it comes to the same in whichever order its edges are decided."""
    names = list(dict.fromkeys(before[source % len(before)] for source in sketch.sources)) if before else []
    edges = [After(name, on) for name, on in zip(names, sketch.ons, strict=False)]
    if not sketch.hasty or not edges:
        return edges
    if edges[0].on is On.SUCCESS:
        return [edges[0]._replace(hasty=True), *edges[1:]]
    return [done(edges[0].source, hasty=True), *(done(edge.source) for edge in edges[1:])]


# ---- random lives -----------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """``what`` happens, to which of those there are (``which``), and how (``how``)."""

    what: str
    which: int
    how: int


WEIGHTS = {
    "claim": 6, "settle": 10, "again": 2, "die": 2, "cancel": 2, "stop": 1, "retry": 4, "retry_all": 2, "adopt": 3,
    "expire": 1, "sweep": 1, "submit": 1, "check": 1,
}  # fmt: skip
STEPS = st.builds(
    Step,
    what=st.sampled_from([what for what, weight in WEIGHTS.items() for _ in range(weight)]),
    which=st.integers(0, 11),
    how=st.integers(0, 11),
)


class Life:
    """Some graphs on one engine, driven step by step; the worlds of the model go along."""

    def __init__(
        self, store: Store, clock: ManualClock, plans: list[GraphDraft], inner: list[Draft], slow: bool
    ) -> None:
        self.store, self.clock, self.plans, self.slow = store, clock, plans, slow
        self.inner = list(inner)
        self.nested = bool(inner)
        self.fast = any(plan.fields["fail_fast"] for plan in plans) or any(draft.fail_fast for draft in inner)
        # A first failure here may stop what waits for a failure there, or a workflow that others would let succeed,
        # and then it matters which of them came first.
        self.one_by_one = (self.nested and self.fast) or any(is_spared(plan) for plan in plans)
        self.bench = Bench(self.again_opened, store, clock, SETTINGS)
        self.worlds = {plan.id: GraphModel(plan) for plan in plans}
        self.deeds: dict[str, list[Deed]] = {plan.id: [] for plan in plans}
        self.home = {id: plan.id for plan in plans for id in plan.ids}
        self.hands: dict[int, Hand] = {}
        self.asked: set[str] = set()
        self.crashes: Counter[str] = Counter()
        self.stopped: set[str] = set()
        self.born = 0

    async def again_opened(self, *, settings: StoreSettings = SETTINGS, clock: Any) -> Store:
        raise NotImplementedError("one connection per life")

    # -- what the model knows

    def running(self) -> set[str]:
        return {id for hand in self.hands.values() for id in hand.held}

    def state(self, id: str) -> State:
        return self.worlds[self.home[id]].state[id]

    def jobs(self, *states: State) -> list[str]:
        return [id for plan in self.plans for id in plan.jobs if self.state(id) in states]

    def stopping(self, id: str) -> bool:
        return bool(self.worlds[self.home[id]].stopping)

    def did(self, kind: Kind, id: str, graph: str = "", running: set[str] | None = None) -> None:
        """Tell the model."""
        graph = graph or self.home[id]
        now = frozenset((self.running() if running is None else running) - {id})
        deed = Deed(kind, id, now)
        self.deeds[graph].append(deed)
        self.tell(partial(self.worlds[graph].do, deed), now)
        self.asked.discard(id)

    def tell(self, what: Callable[[], None], now: frozenset[str]) -> None:
        """What comes of it may stop graphs, and then whatever runs in them is asked to end."""
        before = {id for id, world in self.worlds.items() if world.stopping}
        what()
        for stopped, world in self.worlds.items():
            if world.stopping and stopped not in before:
                self.stopped.add(stopped)
                self.asked |= {one for one in now if self.home[one] == stopped and not world.nodes[one].aftermath}

    # -- steps

    async def submit(self, plan: GraphDraft, rng: random.Random) -> None:
        """In parts, some of which come twice."""
        first = 0
        while first < len(plan.added):
            last = min(len(plan.added), first + rng.randint(1, 6))
            for _ in range(rng.choice([1, 1, 2])):
                answer = await self.bench.stage(plan, max(0, first - rng.randint(0, 2)), last)
                assert (answer.status, answer.staged) == (Accept.ACCEPTED, last)
            first = last
        answer = await self.bench.stage(plan, first, commit=True)
        assert answer.status is Accept.ACCEPTED

    async def hand(self, which: int) -> Hand:
        n = which % 2
        if n not in self.hands:
            self.born += 1
            self.hands[n] = await self.bench.worker(f"w{n}.{self.born}")
        return self.hands[n]

    async def do(self, step: Step) -> None:
        """In small steps the engine lags behind the model; what people do depends on what they see, so they wait.

        So does everyone while a stop may still be on its way from one graph to another.
        """
        if self.slow and step.what in ("cancel", "stop", "retry", "retry_all"):
            await self.bench.drain()
        await getattr(self, f"do_{step.what}")(step)
        if self.slow and (self.nested or self.one_by_one or step.what in ("retry", "retry_all")):
            await self.bench.drain()
        await self.pass_away()

    async def do_claim(self, step: Step) -> None:
        await self.claim(await self.hand(step.which), 1 + step.how % 4)

    async def claim(self, hand: Hand, total: int) -> None:
        if self.slow and self.fast:
            await self.bench.drain()  # until its failure has spread, nobody knows that the graph is to be stopped
        for claim in await hand.claim(total):
            found = self.state(claim.id)
            assert found is State.READY, f"{claim.id} was granted, but by the rules it is {found}"
            assert not self.stopping(claim.id) or self.is_aftermath(claim.id), f"{claim.id} is of a stopped graph"

    def is_aftermath(self, id: str) -> bool:
        return self.worlds[self.home[id]].nodes[id].aftermath

    async def do_settle(self, step: Step) -> None:
        hand = await self.hand(step.which)
        held = list(hand.held.values())[: 1 if self.one_by_one else 1 + step.how % 3]
        ways = ["succeed", "fail", "succeed", "retry", "fail", "stop", "succeed", "back"]
        how = {claim.id: ways[(step.how + at * 5) % len(ways)] for at, claim in enumerate(held)}
        # What goes back is sent alone: whether it went before or after a failure that stops the graph is told apart so.
        for claim in [claim for claim in held if how[claim.id] in ("retry", "back")]:
            await self.settle(hand, [(claim, how[claim.id])])
        await self.settle(hand, [(claim, how[claim.id]) for claim in held if how[claim.id] not in ("retry", "back")])

    async def settle(self, hand: Hand, ends: list[tuple[Claim, str]]) -> None:
        outcomes: dict[str, Outcome] = {"fail": DEAD, "stop": STOPPED, "retry": RETRY_NOW, "back": BACK}
        kinds = {"succeed": Kind.SUCCEED, "fail": Kind.FAIL, "stop": Kind.CANCEL}
        running = self.running()
        moves = [move(claim, outcomes.get(how, value(claim.id))) for claim, how in ends]
        reply = await hand.exchange(moves)
        assert reply.refused == []
        if self.slow and self.one_by_one:
            await self.bench.drain()
        for claim, how in ends:
            kind = kinds.get(how) or (Kind.CANCEL if claim.id in self.asked else None)
            if kind is not None:
                self.did(kind, claim.id, running=running)
            running.discard(claim.id)

    async def do_adopt(self, step: Step) -> None:
        """A running job starts a graph and waits for it."""
        hand = await self.hand(step.which)
        claims = [claim for claim in hand.held.values() if claim.id not in self.asked]
        if not claims or not self.inner or (self.slow and self.clock() >= LATE):
            return  # after the late hour it is a race between a graph that opens slowly and the sweep
        claim, replaced = claims[step.how % len(claims)], bool(step.how % 2)
        id = f"c{len(self.plans)}"
        plan = drawn(self.inner.pop(), id, claim.id, On.DONE if step.which % 3 == 0 else On.SUCCESS)
        self.plans.append(plan)
        self.home |= dict.fromkeys(plan.ids, id)
        self.deeds[id] = []
        assert (await self.bench.stage(plan)).status is Accept.ACCEPTED
        reply = await hand.settle(claim, Adopted(id, replaced))
        assert reply.refused == []
        now, outer = frozenset(self.running()), self.worlds[self.home[claim.id]]
        self.tell(lambda: self.worlds.update({id: outer.adopt(claim.id, plan, replaced, now)}), now)

    async def do_expire(self, step: Step) -> None:
        """The late hour comes. Several may fail by that at a time, which the lives of ``one_by_one`` do not bear."""
        if not self.one_by_one and self.clock() < LATE:
            await self.bench.drain()
            self.clock.advance(TIME)

    async def pass_away(self) -> None:
        """After the late hour: whoever has to begin before it and does not run is swept away."""
        if self.clock() >= LATE:
            await self.bench.drain()
            running = frozenset(self.running())
            for plan in self.plans:
                if not plan.parent:
                    self.tell(partial(self.worlds[plan.id].expire, running), running)

    async def do_again(self, step: Step) -> None:
        """A lost reply: the same exchange once more."""
        hand = await self.hand(step.which)
        if hand.seq:
            reply = await hand.resend()
            assert not reply.gone
            assert {claim.id for claim in reply.claims} <= set(hand.held)

    async def do_die(self, step: Step) -> None:
        hand = await self.hand(step.which)
        if self.one_by_one and len(hand.held) > 1:
            return
        others = [other for other in self.hands.values() if other is not hand]
        charged = step.how % 3 > 0
        if step.how % 3 == 2:
            await self.bench.passes(LEASE + 1, *others)
        else:
            await self.store.leave(hand.id, crashed=charged)
        del self.hands[step.which % 2]
        ends: dict[str, Kind] = {}
        for id in hand.held:
            self.crashes[id] += charged
            limit = self.worlds[self.home[id]].nodes[id].fields["max_crashes"]
            if charged and limit == 1:
                ends[id] = Kind.FAIL
            elif id in self.asked:
                ends[id] = Kind.CANCEL
        left = self.running() | set(ends)
        for id, kind in ends.items():
            self.did(kind, id, running=left)
            left.discard(id)
        self.asked -= set(hand.held)

    async def do_cancel(self, step: Step) -> None:
        jobs = self.jobs(State.WAITING, State.READY)
        if not jobs:
            return
        id = jobs[step.which % len(jobs)]
        reply = await self.bench.change(Action.CANCEL, id, reason="by hand")
        assert reply.changed == [id], f"{id} is not over by the rules: {reply.skipped}"
        if id in self.running():
            self.asked.add(id)
        else:
            self.did(Kind.CANCEL, id)

    async def do_stop(self, step: Step) -> None:
        plan = self.plans[step.which % len(self.plans)]
        over = self.worlds[plan.id].state[plan.id] is not State.WAITING
        if not over and self.worlds[plan.id].stopping:
            return
        reply = await self.bench.change(Action.CANCEL, plan.id, reason="enough")
        assert reply.changed == ([] if over else [plan.id]), f"{plan.id}: {reply}"
        if not over:
            self.did(Kind.STOP, "", plan.id)

    async def do_retry(self, step: Step) -> None:
        jobs = self.jobs(State.FAILED, State.FAILED, State.CANCELLED, State.SUCCEEDED, State.SKIPPED)
        # In a graph that was stopped a retry of one is a retry of all; what is over for good has no part in that.
        jobs = [id for id in jobs if not self.stopping(id) or (self.is_lost(id) and not self.is_aftermath(id))]
        if not jobs:
            return
        id = jobs[step.which % len(jobs)]
        reply = await self.bench.change(Action.RETRY, id)
        if self.state(id) is State.SKIPPED or (not self.stopping(id) and self.worlds[self.home[id]].lacks(id)):
            assert reply.changed == [], f"{id} lacks what it needs by the rules"
            return
        assert reply.changed == [id], f"{id} can be retried by the rules: {reply.skipped}"
        self.did(Kind.RETRY, id)

    def is_lost(self, id: str) -> bool:
        return self.state(id) in (State.FAILED, State.CANCELLED)

    async def do_retry_all(self, step: Step) -> None:
        plan = self.plans[step.which % len(self.plans)]
        failed = self.worlds[plan.id].state[plan.id] in (State.FAILED, State.CANCELLED)
        reply = await self.bench.change(Action.RETRY, plan.id)
        assert reply.changed == ([plan.id] if failed else []), f"{plan.id}: {reply}"
        if failed:
            self.did(Kind.RETRY_ALL, "", plan.id)

    async def do_sweep(self, step: Step) -> None:
        await self.store.sweep(1 + 40 * step.how)

    async def do_submit(self, step: Step) -> None:
        plan = self.plans[step.which % len(self.plans)]
        assert (await self.bench.stage(plan, commit=True)).status is Accept.DUPLICATE

    async def do_check(self, step: Step) -> None:
        await self.check()

    # -- the end, and comparing

    async def finish(self, how: int) -> None:
        """Whatever there is to run is run; by the rules that must end everything."""
        for n in range(400):
            hand = await self.hand(n)
            if not hand.held:
                await self.claim(hand, 3)
            if not self.running():
                await self.bench.drain()
                await self.claim(hand, 3)
            if not self.running():
                break
            await self.do_settle(Step("settle", n, how * (n % 3)))
            await self.pass_away()
        assert not self.running(), "it never ends"
        await self.check()
        assert "workflow_repaired" not in await self.bench.kinds(), "something hung, and an audit put it right"
        for plan in self.plans:
            under_way = [id for id, fate in self.worlds[plan.id].fates().items() if not fate.state.terminal]
            assert under_way == [], "by the rules these can never end, which is a fault of the rules"

    async def check(self) -> None:
        """Everything on the engine is as the model says."""
        await self.bench.drain()
        for plan in self.plans:
            fates = self.worlds[plan.id].fates()
            members = await self.store.members(plan.id)
            assert [job.id for job in members] == plan.ids
            wrong = [
                f"{job.id} is {job.state} ({job.reason}), by the rules {fates[job.id].state}"
                for job in members
                if not self.agrees(plan, job.state, fates[job.id].state)
            ]
            assert not wrong, "\n".join([*wrong, f"deeds: {self.deeds[plan.id]}"])
            await self.check_graph(plan)
            if plan.id not in self.stopped:
                for job in members:
                    blamed(job.id, job.state, job.reason, fates[job.id].blames, self.deeds[plan.id])

    def agrees(self, plan: GraphDraft, found: State, expected: State) -> bool:
        """Whether two states are the same as far as the rules say.

        In which order a first failure stops a graph and gives up what is behind it is open, so that a job which never
        ran may be skipped or cancelled. Either way it is over, breaks the same edges, and comes back with the whole.
        """
        if expected is State.READY:
            return found in (State.SCHEDULED, State.READY, State.RUNNING)
        if self.fast and plan.id in self.stopped and expected in (State.SKIPPED, State.CANCELLED):
            return found in (State.SKIPPED, State.CANCELLED)
        return found is expected

    async def check_graph(self, plan: GraphDraft) -> None:
        world, info = self.worlds[plan.id], await self.bench.graph(plan.id)
        assert info.state is world.state[plan.id]
        assert bool(info.stopping) == bool(world.stopping), f"stopping is {info.stopping!r}"
        assert bool(info.finished_at) == info.state.terminal
        ended = Counter(
            world.state[node.id]
            for node in plan.added
            if node.shape is Shape.CALL and not node.aftermath and world.state[node.id].terminal
        )
        counts = Counter({State(state): n for state, n in info.counts.items() if n})
        if self.fast and plan.id in self.stopped:
            ended[State.CANCELLED] += ended.pop(State.SKIPPED, 0)
            counts[State.CANCELLED] += counts.pop(State.SKIPPED, 0)
        assert +counts == +ended, f"the counts of {plan.id}"


def blamed(id: str, state: State, reason: str, blames: frozenset[str], deeds: list[Deed]) -> None:
    """A node that was given up names one of those whose end may have been the cause."""
    if state is State.SKIPPED:
        ends = (State.FAILED, State.CANCELLED, State.SUCCEEDED)
        possible = {because(task, one, end) for one in blames for end in ends for task in ("t", "")}
        possible |= {because("t", one, State.CANCELLED, expired=True) for one in blames}
        assert reason in possible, f"{id} blames {reason!r}, not one of {sorted(blames)}\ndeeds: {deeds}"


# ---- the engines ------------------------------------------------------------------------------------------------

Make = Callable[[ManualClock], Store]


@contextmanager
def sqlite() -> Iterator[Make]:
    with tempfile.TemporaryDirectory() as folder:
        yield lambda clock: SQLiteStore(f"sqlite:///{folder}/jobs.db?durability=normal", SETTINGS, clock=clock)


@pytest.fixture(params=["memory", "sqlite", "redis"])
def engine(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[Make]]:
    """A new store for each life."""
    if request.param == "sqlite":
        return sqlite
    if request.param == "memory":
        return lambda: nullcontext(lambda clock: MemoryStore(f"memory://{uuid4()}", SETTINGS, clock=clock))
    url = request.getfixturevalue("redis7").url
    return lambda: nullcontext(lambda clock: RedisStore(f"{url}?prefix={fresh_prefix()}", SETTINGS, clock=clock))


async def live(
    make: Make, drafts: list[Draft], inner: list[Draft], steps: list[Step], how: int, slow: bool = False
) -> None:
    clock = ManualClock()
    store = make(clock)
    await store.open()
    try:
        life = Life(store, clock, [drawn(draft, f"g{n}") for n, draft in enumerate(drafts)], inner, slow)
        for plan in list(life.plans):
            await life.submit(plan, random.Random(how))
        for step in steps:
            await life.do(step)
        await life.finish(how)
        await check_sums(life.bench)
    finally:
        await store.close()


LIVES = int(os.environ.get("WINDLASS_LIVES", played(4, 12)))
SEARCH = LIVES > 12
"""With more lives than usual Hypothesis looks for new examples too; by default it tries the same ones every time."""


FEW = 4
"""So many nodes, and not some hundreds, are touched in a step when engines are slowed down."""


@pytest.fixture
def slowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that leave todos behind even where graphs are small."""
    for module in ("memory.hub", "machine.graphs.todos", "machine.graphs.staging"):
        monkeypatch.setattr(f"windlass.store.{module}.WORK", FEW)
    whole, names = library.build()
    name, code = whole.name.encode(), whole.code
    assert code.count(b"local WORK = 500") == 1
    slow = code.replace(b"local WORK = 500", b"local WORK = %d" % FEW).replace(name, b"windlass_slowed")
    built = (
        Library("windlass_slowed", slow),
        {function: called.replace(name, b"windlass_slowed") for function, called in names.items()},
    )
    monkeypatch.setattr(library, "build", lambda: built)


LIFE = (
    st.lists(DRAFTS, min_size=1, max_size=2), st.lists(DRAFTS, max_size=2), st.lists(STEPS, max_size=30),
    st.integers(0, 11),
)  # fmt: skip
CHOSEN = settings(
    max_examples=2_000 if SEARCH else played(30, 100), derandomize=not SEARCH, database=None, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it is the same for all examples
)  # fmt: skip


@CHOSEN
@pytest.mark.timeout(400)  # Hypothesis gives itself five minutes to find the smallest example of a difference
@given(*LIFE)
def test_a_graph_comes_to_what_the_rules_say(
    engine: Callable[[], AbstractContextManager[Make]],
    drafts: list[Draft],
    inner: list[Draft],
    steps: list[Step],
    how: int,
) -> None:
    with engine() as make:
        asyncio.run(live(make, drafts, inner, steps, how))


@CHOSEN
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("slowed")
@given(*LIFE)
def test_a_graph_comes_to_the_same_in_small_steps(
    engine: Callable[[], AbstractContextManager[Make]],
    drafts: list[Draft],
    inner: list[Draft],
    steps: list[Step],
    how: int,
) -> None:
    with engine() as make:
        asyncio.run(live(make, drafts, inner, steps, how, slow=True))
