"""Random jobs, lanes and gates on one engine, held against the model of them at every step."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.conformance.graph_sketches import SETTINGS
from windlass.core.job import State
from windlass.core.lifecycle import Outcome
from windlass.core.limits import Limits, Rate
from windlass.core.terms import Terms
from windlass.store.base import Store, StoreSettings
from windlass.store.jobs import Action, Declared, ExchangeReply, Want
from windlass.testing.conformance import Bench, Hand, ManualClock
from windlass.testing.conformance.bench import HOUR, START, move, presence
from windlass.testing.conformance.flow_model import NEVER, Card, FlowWorld, Gate, Sight
from windlass.testing.conformance.outcomes import BACK, DEAD, DONE, RETRY_LATER, RETRY_NOW, SNOOZE, STOPPED

GATES = ("queue:q", "queue:x", "task:t", "task:u", "breaker:b")

QUEUES = ("q", "x")

TASKS = ("t", "u")

SIGHTS = (
    Sight(("q", "x"), frozenset({"t", "u"})),
    Sight(("x", "q"), frozenset({"t", "u"})),
    Sight(("q",), frozenset({"t"})),
)
"""What the workers look at. The last one is of an older release."""


def ms(every: int, burst: int = 1) -> Rate:
    return Rate(every * 1000, burst)


TERMS: tuple[Terms | None, ...] = (
    None,
    None,
    Terms(breaker="b"),
    Terms(batch=True),
    Terms(key="a"),
    Terms(key="b", key_limit=1),
    Terms(key="c", key_limit=2, breaker="b"),
    Terms(key="r", key_rate=ms(700)),
    Terms(key="o", ordered=True),
    Terms(key="p", ordered=True, key_rate=ms(400, 2)),
    Terms(key="b", ordered=True, key_limit=1),
    Terms(key="s", seq=1, gap=1_500),
    Terms(key="z", seq=1, gap=900, key_limit=1),
)
"""What jobs are like. Numbers are given to those that have one as they come."""

LIMITS: tuple[Limits, ...] = (
    Limits(),
    Limits(limit=1),
    Limits(limit=2),
    Limits(limit=3, rate=ms(300, 2)),
    Limits(rate=ms(500)),
    Limits(rate=ms(1_000, 3)),
    Limits(paused=True),
    Limits(limit=0, rate=Rate(0, 0)),
    Limits(key_limit=1),
    Limits(key_rate=ms(600), limit=4),
    Limits(key_limit=0, key_rate=Rate(0, 0)),
)

STEPS_OF_TIME = (1, 100, 300, 500, 1_000, 2_000, 4_000)

OUTCOMES: tuple[Outcome, ...] = (DONE, RETRY_NOW, DEAD, BACK, DONE, RETRY_LATER, STOPPED, SNOOZE, DONE)


class Step(NamedTuple):
    """``what`` happens, to which of those there are (``which``), and how (``how``)."""

    what: str
    which: int
    how: int


WEIGHTS = {
    "add": 12, "claim": 8, "settle": 6, "swap": 5, "tune": 4, "resume": 3, "close": 1, "advance": 6, "again": 1,
    "drop": 1, "leave": 1, "crash": 2, "cancel": 2, "delete": 1, "move": 1, "promote": 1, "reprioritise": 1,
    "replay": 1, "reschedule": 1,
}  # fmt: skip

STEPS = st.builds(
    Step,
    what=st.sampled_from([what for what, weight in WEIGHTS.items() for _ in range(weight)]),
    which=st.integers(0, 59),
    how=st.integers(0, 59),
)


class Life:
    """Workers, jobs and gates on one engine, driven step by step; the model goes along.

    ``units``: what jobs weigh, one after the other. Where they differ, a heavy one may keep lighter ones of other lanes
    from a gate, so that there it is not asked whether something was left.
    """

    def __init__(self, store: Store, clock: ManualClock, units: list[int]) -> None:
        self.store, self.clock, self.units = store, clock, units
        self.bench = Bench(self.again_opened, store, clock, SETTINGS)
        self.world = FlowWorld(START, frozenset({"t"}))
        self.hands: dict[int, Hand] = {}
        self.idle: dict[int, int] = {}
        self.heard = NEVER
        self.born = self.added = 0
        self.numbers = {"s": 0, "z": 0}

    async def again_opened(self, *, settings: StoreSettings = SETTINGS, clock: Any) -> Store:
        raise NotImplementedError("one connection per life")

    # -- what there is

    async def hand(self, n: int) -> Hand:
        n %= len(SIGHTS)
        if n not in self.hands:
            self.born += 1
            sight = SIGHTS[n]
            declares = {task: Declared() for task in sight.tasks}
            hand = Hand(self.store, presence(f"w{n}.{self.born}", list(sight.queues), declares, lease=24 * HOUR))
            await hand.start()
            self.hands[n] = hand
        return self.hands[n]

    def some(self, which: int, *states: State) -> Card | None:
        found = [card for card in self.world.jobs.values() if card.state in states]
        return found[which % len(found)] if found else None

    # -- steps: jobs

    async def do_add(self, step: Step) -> None:
        self.added += 1
        terms = TERMS[step.which % len(TERMS)]
        if terms is not None and terms.seq:
            self.numbers[terms.key] += 1 + (step.how % 5 == 4)
            late = step.how % 7 == 6
            seq = max(1, self.numbers[terms.key] - (2 if late else 0))
            terms = Terms(key=terms.key, seq=seq, gap=terms.gap, key_limit=terms.key_limit)
        units = self.units[self.added % len(self.units)]
        if units > 1:
            fields = {name: getattr(terms or Terms(), name) for name in Terms.__struct_fields__}
            terms = Terms(**{**fields, "units": units})
        # The model does not know who was set aside, which in a strict lane matters to others.
        strict = terms is not None and (terms.ordered or terms.seq)
        id, task, queue = f"j{self.added}", TASKS[step.how % 3 == 2 and not strict], QUEUES[step.how % 4 == 3]
        priority, delay = (5, 5, 5, 9, 2)[step.which % 5], (0, 0, 0, 700)[step.how // 4 % 4]
        await self.bench.add(
            id, task=task, queue=queue, priority=priority, delay=delay, terms=terms, max_crashes=99, crash_delay=0
        )
        due = self.world.now + delay if delay else 0
        self.world.insert(Card(id, task, queue, priority, terms, self.added, due=due))

    async def do_cancel(self, step: Step) -> None:
        card = self.some(step.which, State.READY, State.SCHEDULED, State.RUNNING)
        if card is not None:
            await self.changed(Action.CANCEL, card)
            if card.state is State.RUNNING:
                card.asked = True
            else:
                self.world.end(card, State.CANCELLED)

    async def do_delete(self, step: Step) -> None:
        card = self.some(step.which, *set(State) - {State.RUNNING})
        if card is not None:
            await self.changed(Action.DELETE, card)
            self.world.end(card, None)

    async def do_move(self, step: Step) -> None:
        card = self.some(step.which, State.READY, State.SCHEDULED)
        if card is not None:
            queue = QUEUES[card.queue == "q"]
            await self.changed(Action.MOVE, card, queue=queue)
            self.world.move(card, queue)

    async def do_promote(self, step: Step) -> None:
        card = self.some(step.which, State.SCHEDULED)
        if card is not None:
            await self.changed(Action.PROMOTE, card)
            self.world.ready(card)
            self.world.look()

    async def do_reprioritise(self, step: Step) -> None:
        card = self.some(step.which, State.READY, State.SCHEDULED)
        priority = (9, 2, 5)[step.how % 3]
        if card is not None and card.priority != priority:
            await self.changed(Action.REPRIORITISE, card, priority=priority)
            card.priority = priority
            if card.state is State.READY:
                self.world.ready(card)

    async def do_reschedule(self, step: Step) -> None:
        card = self.some(step.which, State.READY, State.SCHEDULED)
        if card is not None:
            await self.changed(Action.RESCHEDULE, card, delay=800)
            self.world.later(card, 800)

    async def do_replay(self, step: Step) -> None:
        card = self.some(step.which, State.SUCCEEDED, State.FAILED, State.CANCELLED)
        if card is not None:
            await self.changed(Action.RETRY, card)
            self.world.replay(card)

    async def changed(self, action: Action, card: Card, **fields: Any) -> None:
        reply = await self.bench.change(action, card.id, **fields)
        assert reply.changed == [card.id], f"{action} of {card}: {reply.skipped}"

    # -- steps: workers

    async def do_claim(self, step: Step) -> None:
        """Who was idle has room; others may have none, or little."""
        room = 9 if step.which % len(SIGHTS) in self.idle else step.how // 4 % 12
        await self.exchange(step.which, [], 1 + step.how % 4, now=room)

    async def do_settle(self, step: Step) -> None:
        """Settle without asking for more, as a worker does that is full; not one that was told to ask."""
        hand = await self.hand(step.which)
        want = 1 if step.which % len(SIGHTS) in self.idle else 0
        await self.exchange(step.which, list(hand.held)[: 1 + step.how % 3], want, step.how)

    async def do_swap(self, step: Step) -> None:
        hand = await self.hand(step.which)
        await self.exchange(step.which, list(hand.held)[: 1 + step.how % 2], 1 + step.how % 3, step.how)

    async def exchange(self, which: int, ids: list[str], total: int, how: int = 0, now: int = 9) -> None:
        """``now``: how many from lanes; 3 and more stand for all."""
        hand, sight = await self.hand(which), SIGHTS[which % len(SIGHTS)]
        outcomes = [(hand.held[id], OUTCOMES[(how + 4 * n) % len(OUTCOMES)]) for n, id in enumerate(ids)]
        now = now if now < 3 else -1
        want = Want([(queue, total) for queue in sight.queues], total, now=now)
        reply = await hand.exchange([move(claim, outcome) for claim, outcome in outcomes], want)
        assert (reply.refused, reply.gone, reply.drain) == ([], False, False)
        for claim, outcome in outcomes:
            self.settled(self.world.jobs[claim.id], outcome)
        self.world.promote()
        for claim in reply.claims:
            self.world.grant(claim.id, hand.id, sight)
        assert len(reply.claims) <= total
        if len(reply.claims) < (total if now < 0 else min(total, now)):
            self.nothing_left(sight, reply)
            self.idle[which % len(SIGHTS)] = self.world.now + reply.next_due if reply.next_due >= 0 else NEVER
        else:
            self.idle.pop(which % len(SIGHTS), None)
        if total:
            self.hears(reply.next_due)

    def hears(self, next_due: int) -> None:
        self.heard = self.world.now + next_due if next_due >= 0 else NEVER

    def settled(self, card: Card, outcome: Outcome) -> None:
        back = outcome in (RETRY_NOW, RETRY_LATER, SNOOZE, BACK)
        if back and card.asked:
            self.world.end(card, State.CANCELLED)
        elif outcome in (RETRY_LATER, SNOOZE):
            self.world.later(card, 2_000 if outcome is RETRY_LATER else 3_000)
        elif back:
            self.world.ready(card, in_place=outcome is BACK)
        else:
            ends = {id(DONE): State.SUCCEEDED, id(DEAD): State.FAILED, id(STOPPED): State.CANCELLED}
            self.world.end(card, ends[id(outcome)])
        self.world.look()

    def nothing_left(self, sight: Sight, reply: ExchangeReply) -> None:
        """A worker with room got less than it asked for."""
        if self.mixed:
            return
        left = self.world.startable(sight)
        assert not left, f"{sorted(left)} could start, and a worker with room was not given them"
        start = self.world.next_start(sight)
        if start < NEVER:
            due = reply.next_due
            assert 0 <= due <= start - self.world.now, f"next_due is {due}, but in {start - self.world.now} one starts"

    @property
    def mixed(self) -> bool:
        return len(set(self.units)) > 1

    async def do_again(self, step: Step) -> None:
        hand = await self.hand(step.which)
        if hand.seq:
            reply = await hand.resend()
            assert {claim.id for claim in reply.claims} <= set(hand.held)

    async def do_drop(self, step: Step) -> None:
        """A worker beats and has lost what it held."""
        hand = await self.hand(step.which)
        lost, hand.held = list(hand.held), {}
        self.hears((await hand.beat()).next_due)
        self.back(lost)

    async def do_leave(self, step: Step, crashed: bool = False) -> None:
        hand = await self.hand(step.which)
        await self.store.leave(hand.id, crashed=crashed)
        del self.hands[step.which % len(SIGHTS)]
        self.back(list(hand.held))
        if self.idle.pop(step.which % len(SIGHTS), None) is not None:
            await self.backstop()

    async def do_crash(self, step: Step) -> None:
        await self.do_leave(step, crashed=True)

    def back(self, ids: list[str]) -> None:
        for card in [self.world.jobs[id] for id in ids]:
            if card.asked:
                self.world.end(card, State.CANCELLED)
            else:
                self.world.ready(card, in_place=True)
        self.world.look()

    async def backstop(self) -> None:
        """Whoever went may have been told to ask and has not: the others find out by their beats."""
        for n in list(self.idle):
            reply = await self.hands[n].beat()
            if self.world.startable(SIGHTS[n]) and not self.mixed:
                assert reply.ready, f"{self.world.startable(SIGHTS[n])} could start, and a beat does not say so"
            await self.exchange(n, [], 1)

    # -- steps: gates and time

    async def do_tune(self, step: Step) -> None:
        limits = LIMITS[step.how % len(LIMITS)]
        await self.tune(GATES[step.which % len(GATES)], **{("declared", "tuned")[step.which // 5 % 2]: limits})

    async def do_resume(self, step: Step) -> None:
        """Life is short: what is paused or closed is soon let go again."""
        for name, gate in self.world.gates.items():
            if gate.limits.paused:
                await self.tune(name, tuned=Limits(), declared=Limits())
                return

    async def do_close(self, step: Step) -> None:
        closed_for = (0, 400, 1_300)[step.how % 3]
        await self.bench.tune(name := GATES[step.which % len(GATES)], closed_for=closed_for)
        self.world.gates.setdefault(name, Gate()).closed_until = self.world.now + closed_for if closed_for else 0

    async def tune(self, name: str, **limits: Limits) -> None:
        await self.bench.tune(name, **limits)
        self.world.tune(name, **limits)

    async def do_advance(self, step: Step) -> None:
        """Time passes; then somebody asks, or a sweep comes."""
        self.pass_time(STEPS_OF_TIME[step.how % len(STEPS_OF_TIME)])
        if step.which % 2:
            await self.exchange(step.which // 2, [], 1 + step.how % 3)
        else:
            await self.store.sweep()
            self.world.promote()

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.world.now += ms

    # -- checks

    async def check(self) -> None:
        ids = list(self.world.jobs)
        found = {id: job.state if job else None for id, job in zip(ids, await self.store.get(ids), strict=True)}
        wrong = {id: (state, self.world.jobs[id].state) for id, state in found.items()}
        wrong = {id: pair for id, pair in wrong.items() if pair[0] is not pair[1]}
        assert not wrong, f"found, and by the rules: {wrong}"
        for info in await self.store.gates(GATES):
            if info.limits.limit:
                assert info.held == self.world.held(info.name), f"{info.name} holds {info.held}"
        if not self.mixed:
            await self.check_sleepers()

    async def check_sleepers(self) -> None:
        """If a job may start on a worker that sleeps, somebody was woken who looks there, or will wake in time.

        Whoever looks and does not declare it sets it aside, and so wakes who does. Alarms are set when the next time of
        the store comes nearer; where the last to ask was told of it and got all it wanted, others hear of it by a beat.
        """
        marks = {info.presence.id: info.idle for info in await self.store.workers()}
        awake = [n for n in self.idle if not marks[self.hands[n].id] or self.idle[n] <= self.world.now]
        seen = {n: self.world.starts(Sight(SIGHTS[n].queues, frozenset(TASKS))) for n in self.idle}
        coming = set().union(*(seen[n] for n in awake))
        everything = self.world.starts(Sight(QUEUES, frozenset(TASKS)))
        due = [card.due for card in self.world.jobs.values() if card.state is State.SCHEDULED]
        for n in set(self.idle) - set(awake):
            for id, at in self.world.starts(SIGHTS[n]).items():
                others = [time for other, time in everything.items() if other != id and time > self.world.now]
                if id in coming or self.world.now < min([*others, *due], default=NEVER) <= at:
                    continue
                if at <= self.world.now:
                    raise AssertionError(f"{id} could start, and nobody was woken for it")
                alarms = [self.heard, *(self.idle[m] for m in self.idle if id in seen[m])]
                late = f"{id} could start in {at - self.world.now} ms, and nobody will wake for it"
                assert min(alarms) <= at, late

    async def finish(self) -> None:
        """Open everything and run whatever there is: nothing may be left."""
        for name in list(self.world.gates):
            await self.tune(name, tuned=Limits(), declared=Limits())
            await self.check()
        await self.drain()
        assert [info for info in await self.store.gates(GATES) if info.held] == []
        assert all(info.lanes == 0 for info in await self.store.queues())
        assert sum(info.waiting for info in await self.store.gates()) == 0

    async def drain(self) -> None:
        for n in range(400):
            hand = await self.hand(n)
            await self.exchange(n, list(hand.held), 5)
            await self.check()
            if not self.some(0, State.READY, State.SCHEDULED, State.RUNNING):
                return
            self.pass_time(500)
        left = [card for card in self.world.jobs.values() if not card.state.terminal]
        raise AssertionError(f"these never ran: {left}")
