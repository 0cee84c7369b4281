"""Random graphs, driven step by step on one engine beside the model that says what becomes of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.conformance.graph_sketches import LATE, SETTINGS, TIME, Draft, drawn, is_spared
from windlass.core.graph import because
from windlass.core.job import Claim, State
from windlass.core.lifecycle import Adopted, Outcome
from windlass.core.links import On, Shape
from windlass.store.answers import Accept
from windlass.store.base import Store, StoreSettings
from windlass.store.jobs import Action
from windlass.testing.conformance import Bench, Hand, ManualClock
from windlass.testing.conformance.bench import LEASE, move, value
from windlass.testing.conformance.graph_drafts import GraphDraft
from windlass.testing.conformance.model import Deed, GraphModel, Kind
from windlass.testing.conformance.outcomes import BACK, DEAD, RETRY_NOW, STOPPED

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
