"""A model of gates and lanes: which jobs may start at a moment, and when time alone lets another start.

It is pure and slow: it keeps no waiting lanes and no openings, and judges every ready job anew from the rules. It does
not say which job an engine grants first, but whether a grant was allowed, and whether a job was left that had to be
granted. So an engine can be compared with it in any life. Jobs that age, are unique or must run alone are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from windlass.core.job import State
from windlass.core.limits import NO_LIMITS, Limits, Rate, arrive, fits, in_force
from windlass.core.terms import Terms, breaker_gate, is_strict, lane_of, queue_gate, task_gate

NEVER = 1 << 60


@dataclass
class Card:
    """A job. ``place``: its rank among jobs of its priority; ``kept``: its place in a strict lane, 0 if it has none
    yet.
    """

    id: str
    task: str
    queue: str
    priority: int
    terms: Terms | None
    number: int
    state: State = State.READY
    due: int = 0
    place: int = 0
    kept: int = 0
    worker: str = ""
    asked: bool = False

    @property
    def lane(self) -> str:
        """Its own lane; empty for one that is in the plain order or in its task's lane."""
        return lane_of(self.terms, self.task, gated=False) if self.terms and self.terms.key else ""

    @property
    def units(self) -> int:
        return self.terms.units if self.terms else 1

    @property
    def seq(self) -> int:
        return self.terms.seq if self.terms else 0


@dataclass
class Gate:
    """A gate that was tuned."""

    declared: Limits = NO_LIMITS
    tuned: Limits = NO_LIMITS
    closed_until: int = 0

    @property
    def limits(self) -> Limits:
        return in_force(self.tuned, self.declared)


@dataclass
class Strict:
    """A strict lane: the job that has it, the number it expects, and since when its head has stood there."""

    holder: str = ""
    expected: int = 1
    head: str = ""
    since: int = 0


@dataclass
class Sight:
    """What a worker looks at: its queues, and the tasks it declares."""

    queues: Iterable[str]
    tasks: frozenset[str]


@dataclass
class FlowWorld:
    """All jobs and gates of a store. ``common``: tasks that every worker declares."""

    now: int
    common: frozenset[str]
    jobs: dict[str, Card] = field(default_factory=dict)
    gates: dict[str, Gate] = field(default_factory=dict)
    tats: dict[str, int] = field(default_factory=dict)
    stricts: dict[tuple[str, str], Strict] = field(default_factory=dict)
    places: int = 0

    # -- what happens to jobs

    def insert(self, card: Card) -> None:
        self.jobs[card.id] = card
        if card.due > self.now:
            card.state = State.SCHEDULED
        else:
            self.ready(card)
        self.look()

    def ready(self, card: Card, in_place: bool = False) -> None:
        card.state, card.worker, card.due = State.READY, "", 0
        if not in_place:
            self.places += 1
            card.place = self.places
        card.kept = card.kept or card.place

    def promote(self) -> None:
        """Due jobs become ready, and numbers that were waited for long enough are no longer expected."""
        due = [card for card in self.jobs.values() if card.state is State.SCHEDULED and card.due <= self.now]
        for card in sorted(due, key=lambda card: (card.due, card.number)):
            self.ready(card)
        self.look()
        for (queue, lane), strict in self.stricts.items():
            head = self.jobs.get(strict.head)
            if head is not None and head.seq > strict.expected and self.stood(queue, lane) <= self.now:
                strict.expected = head.seq

    def later(self, card: Card, delay: int) -> None:
        card.state, card.worker, card.due = State.SCHEDULED, "", self.now + delay
        self.look()

    def end(self, card: Card, state: State | None) -> None:
        """The job is over, or deleted (None)."""
        self.leave_lane(card)
        card.worker, card.due, card.asked = "", 0, False
        if state is None:
            del self.jobs[card.id]
        else:
            card.state = state
        self.look()

    def move(self, card: Card, queue: str) -> None:
        self.leave_lane(card)
        card.queue, card.kept = queue, 0
        if card.state is State.READY:
            self.ready(card)
        self.look()

    def replay(self, card: Card) -> None:
        card.kept, card.asked = 0, False
        self.ready(card)
        self.look()

    def leave_lane(self, card: Card) -> None:
        if is_strict(card.lane):
            strict = self.strict(card)
            strict.expected = max(strict.expected, card.seq + 1)
            if strict.holder == card.id:
                strict.holder = ""

    # -- strict lanes

    def strict(self, card: Card) -> Strict:
        return self.stricts.setdefault((card.queue, card.lane), Strict())

    def look(self) -> None:
        """Note which job stands at the head of each strict lane, and since when."""
        for card in self.jobs.values():
            if is_strict(card.lane):
                self.strict(card)
        for (queue, lane), strict in self.stricts.items():
            cards = [] if strict.holder else self.in_lane(queue, lane)
            head = cards[0].id if cards else ""
            if head != strict.head:
                strict.head, strict.since = head, self.now

    def stood(self, queue: str, lane: str) -> int:
        """When the number missing before a head will have been waited for long enough."""
        strict = self.stricts[queue, lane]
        terms = self.jobs[strict.head].terms
        return strict.since + (terms.gap if terms else 0)

    def in_lane(self, queue: str, lane: str) -> list[Card]:
        """The ready jobs of a lane, in their order."""
        found = [card for card in self.ready_of(queue) if card.lane == lane]
        if is_strict(lane):
            return sorted(found, key=lambda card: (card.seq, card.kept))
        return sorted(found, key=lambda card: (-card.priority, card.place))

    def ready_of(self, queue: str) -> Iterator[Card]:
        return (card for card in self.jobs.values() if card.queue == queue and card.state is State.READY)

    # -- gates

    def names(self, card: Card) -> list[str]:
        """The gates that concern a job."""
        names = [queue_gate(card.queue), task_gate(card.task)]
        if card.terms and card.terms.breaker:
            names.append(breaker_gate(card.terms.breaker))
        if card.terms and card.terms.key:
            names.append(f"key:{card.queue}:{card.terms.key}")
        return names

    def limits(self, name: str, card: Card) -> Limits:
        """The limits in effect at a gate for a job."""
        if not name.startswith("key:") or card.terms is None:
            return self.gates[name].limits if name in self.gates else NO_LIMITS
        said = self.gates.get(queue_gate(card.queue), Gate()).limits
        limit = card.terms.key_limit if said.key_limit is None else said.key_limit
        return Limits(limit=limit, rate=card.terms.key_rate if said.key_rate is None else said.key_rate)

    def tune(self, name: str, **said: Limits) -> None:
        """Set what the code (``declared``) or an operator (``tuned``) says of a gate."""
        gate = self.gates.setdefault(name, Gate())
        before = gate.limits.rate
        gate.declared, gate.tuned = said.get("declared", gate.declared), said.get("tuned", gate.tuned)
        rate = gate.limits.rate
        if rate is not None and rate != before and name in self.tats:
            self.tats[name] = min(self.tats[name], self.now * 1000 + rate.burst * rate.every)

    def held(self, name: str) -> int:
        running = (card for card in self.jobs.values() if card.state is State.RUNNING)
        return sum(card.units for card in running if name in self.names(card))

    def opens_at(self, name: str, card: Card) -> int:
        """The first instant (ms) at which time alone opens a gate for a job: now, if it is open."""
        limits, gate = self.limits(name, card), self.gates.get(name)
        if limits.paused or not fits(self.held(name), limits.limit, card.units):
            return NEVER
        opens = max(self.now, gate.closed_until if gate else 0)
        if limits.rate and limits.rate.every:
            _, late = arrive(self.tats.get(name, 0), self.now * 1000, limits.rate, card.units)
            opens = max(opens, -(-late // 1000))
        return opens

    def closed(self, card: Card) -> list[str]:
        return [name for name in self.names(card) if self.opens_at(name, card) > self.now]

    # -- grants

    def grant(self, id: str, worker: str, sight: Sight) -> None:
        """Note a grant. Fails if the rules do not allow it."""
        card = self.jobs[id]
        assert card.state is State.READY, f"{id} was granted and is {card.state}"
        assert card.queue in sight.queues, f"{id} of {card.queue} was granted to a worker of {sight.queues}"
        assert card.task in sight.tasks, f"{id} was granted to a worker that does not declare {card.task}"
        assert not (closed := self.closed(card)), f"{id} was granted through {closed}: {self.told(closed, card)}"
        self.check_place(card, sight)
        for name in self.names(card):
            rate: Rate | None = self.limits(name, card).rate
            if rate and rate.every:
                self.tats[name], _ = arrive(self.tats.get(name, 0), self.now * 1000, rate, card.units)
        card.state, card.worker = State.RUNNING, worker
        if is_strict(card.lane):
            self.strict(card).holder = id
        self.look()

    def check_place(self, card: Card, sight: Sight) -> None:
        lane = self.in_lane(card.queue, card.lane) if card.lane else []
        if not is_strict(card.lane):
            # A job that a worker does not declare may have been set aside, and then has no lane.
            before = lane[: lane.index(card)] if lane and card.task in self.common else []
            passed = [one.id for one in before if one.task in self.common]
            assert not passed, f"{card.id} was granted before {passed}, which stand before it in {card.lane}"
            return
        strict = self.strict(card)
        assert strict.holder in ("", card.id), f"{card.id} was granted while {strict.holder} has {card.lane}"
        if not strict.holder:
            assert lane[0] is card, f"{card.id} was granted before {lane[0].id}, the head of {card.lane}"
            assert card.seq <= strict.expected, f"{card.id} was granted, but {card.lane} expects {strict.expected}"

    def told(self, names: list[str], card: Card) -> str:
        return ", ".join(f"{name} holds {self.held(name)} of {self.limits(name, card)}" for name in names)

    # -- what must be granted

    def heads(self, queue: str, sight: Sight) -> list[tuple[Card, int]]:
        """The jobs that an engine surely looks at, each with the instant at which its lane gives it."""
        found: list[tuple[Card, int]] = []
        for lane in {card.lane for card in self.ready_of(queue)} - {""}:
            cards = self.in_lane(queue, lane)
            if not is_strict(lane):
                found.append((cards[0], self.now))
                continue
            strict = self.stricts[queue, lane]
            if strict.holder:
                found += [(card, self.now) for card in cards if card.id == strict.holder]
            else:
                late = cards[0].seq > strict.expected
                found.append((cards[0], max(self.now, self.stood(queue, lane)) if late else self.now))
        found += self.unkeyed(queue)
        return [(card, at) for card, at in found if card.task in sight.tasks]

    def unkeyed(self, queue: str) -> Iterator[tuple[Card, int]]:
        """The first job of each task in the plain order or its task's lane, where a head that may not start blocks the
        rest.
        """
        plain = [card for card in self.ready_of(queue) if not card.lane]
        for task in {card.task for card in plain}:
            cards = sorted((card for card in plain if card.task == task), key=by_place)
            yield cards[0], max(self.gates_open(card) for card in cards)

    def gates_open(self, card: Card) -> int:
        """The instant at which all gates of a job but its queue's are open."""
        return max(self.now, *(self.opens_at(name, card) for name in self.names(card)[1:]))

    def starts(self, sight: Sight) -> dict[str, int]:
        """When each of the heads may start, as far as time alone decides; those at NEVER are left out.

        If the queue's own gate is closed for a job that could start, the engine may leave the whole queue.
        """
        found: dict[str, int] = {}
        for queue in sight.queues:
            heads = self.heads(queue, sight)
            gate = [self.opens_at(queue_gate(queue), card) for card, _ in heads]
            free = {card.id: max(at, self.gates_open(card)) for card, at in heads}
            found |= {id: max(at, *gate) for id, at in free.items() if max(at, *gate) < NEVER}
        return found

    def startable(self, sight: Sight) -> set[str]:
        """Jobs of which a worker with room must be granted at least one."""
        return {id for id, at in self.starts(sight).items() if at <= self.now}

    def next_start(self, sight: Sight) -> int:
        """The next instant at which time alone makes a job ready or lets one start; NEVER if there is none."""
        due = [card.due for card in self.jobs.values() if card.state is State.SCHEDULED and card.queue in sight.queues]
        later = [at for at in self.starts(sight).values() if at > self.now]
        return min([*due, *later], default=NEVER)


def by_place(card: Card) -> tuple[int, int]:
    return -card.priority, card.place
