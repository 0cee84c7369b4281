"""The tools of the rules: a clock moved by hand, a worker driven by hand, and a listener that counts.

Nothing here sleeps. Time passes only when a test moves the clock; messages of a store are awaited with a deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import msgspec

from windlass.core.event import Event, expand
from windlass.core.graph import GraphInfo
from windlass.core.job import Claim, Fence, Finished, Job, NewJob, State
from windlass.core.lifecycle import Outcome, Succeeded, Transition, decide
from windlass.core.limits import Limits
from windlass.store.answers import MAX_BATCH, Accept, Answer, GraphAnswer
from windlass.store.base import Clock, Store, StoreSettings
from windlass.store.flow import GateInfo, Hold, Tuning
from windlass.store.jobs import (
    Action,
    BeatReply,
    Change,
    ChangeReply,
    Declared,
    ExchangeReply,
    Note,
    Presence,
    Query,
    SweepReply,
    Want,
)
from windlass.store.reads import QueueInfo, WorkerInfo

if TYPE_CHECKING:
    from windlass.testing.conformance.graph_drafts import GraphDraft

START = 1_800_000_000_000
LEASE = 15_000
STEP = 5_000
HOUR = 3_600_000
PATIENCE = 5.0

Engine = Callable[[StoreSettings, Clock], Store]
"""Makes an unopened store. Every store that one of these makes shares the same data."""


class MakeStore(Protocol):
    """Opens one more connection to the data of the test; all of them are closed behind it."""

    def __call__(self, *, settings: StoreSettings = ..., clock: Clock) -> Awaitable[Store]: ...


class MakeBench(Protocol):
    """A bench whose store has these ``StoreSettings``."""

    def __call__(self, **settings: Any) -> Awaitable[Bench]: ...


class ManualClock:
    """A host clock that moves only when told to, in both directions."""

    def __init__(self, ms: int = START) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms

    def advance(self, ms: int) -> None:
        self.ms += ms


class Listener:
    """Receives what is sent to one name: ``messages`` in order; an empty one is a wake-up."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name
        self.messages: list[list[Finished]] = []
        self._came = asyncio.Event()

    def deliver(self, batch: list[Finished]) -> None:
        self.messages.append(batch)
        self._came.set()

    @property
    def wakes(self) -> int:
        return sum(1 for batch in self.messages if not batch)

    @property
    def news(self) -> list[Finished]:
        return [one for batch in self.messages for one in batch if not one.id.startswith("marker-")]

    async def until(self, done: Callable[[], bool], what: str) -> None:
        """Wait for messages that make ``done`` true; fail with ``what`` if they do not come."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not done():
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            raise AssertionError(f"{self.name} waited in vain for {what}; got {self.messages}") from None

    async def told(self, *ids: str) -> list[Finished]:
        """Wait until the ends of all these jobs were announced. Answers everything announced so far."""
        await self.until(lambda: set(ids) <= {one.id for one in self.news}, f"news of {ids}")
        return self.news

    async def woken(self, times: int = 1) -> None:
        await self.until(lambda: self.wakes >= times, f"{times} wake-up(s)")

    async def flush(self) -> None:
        """Wait until everything sent to this name before has arrived: a marker is sent after it."""
        marker = f"marker-{uuid4()}"
        await self.store.insert([new_job(marker, queue="markers", delay=HOUR)])
        await self.store.watch(self.name, [marker])
        await self.store.change(Change(action=Action.DELETE), [marker])
        await self.until(
            lambda: any(one.id == marker for batch in self.messages for one in batch), "a marker of its own"
        )


class Hand:
    """A worker driven by hand: it numbers its exchanges, and knows what it holds and what was answered."""

    def __init__(self, store: Store, presence: Presence) -> None:
        self.store = store
        self.presence = presence
        self.id = presence.id
        self.mail = Listener(store, presence.id)
        self.seq = 0
        self.acked = 0
        self.held: dict[str, Claim] = {}
        self.last: tuple[Sequence[Transition], Want] = ((), Want([], 0))

    async def start(self) -> None:
        await self.store.listen(self.id, self.mail.deliver)
        assert not (await self.beat()).gone

    async def beat(self, acked: int | None = None, held: Iterable[str] | None = None) -> BeatReply:
        """Beat. Arguments that are not given are what the worker knows itself."""
        acked = self.acked if acked is None else acked
        return await self.store.beat(self.presence, acked, list(self.held if held is None else held))

    async def exchange(self, moves: Sequence[Transition] = (), want: int | Want = 0) -> ExchangeReply:
        """Make the next exchange. A number wants that many jobs in all, from any of the worker's queues."""
        if isinstance(want, int):
            want = Want([(queue, want) for queue in self.presence.queues], want)
        self.seq += 1
        self.last = (moves, want)
        reply = await self.resend()
        for move in moves:
            self.held.pop(move.id, None)
        self.held |= {claim.id: claim for claim in reply.claims}
        self.acked = self.seq
        return reply

    async def lost_reply(self, moves: Sequence[Transition] = (), want: int = 0) -> ExchangeReply:
        """An exchange whose answer this worker never sees (the test does)."""
        held, acked = dict(self.held), self.acked
        reply = await self.exchange(moves, want)
        self.held, self.acked = held, acked
        return reply

    async def resend(self) -> ExchangeReply:
        """The last exchange once more, as after a lost reply."""
        return await self.store.exchange(self.id, self.seq, *self.last)

    async def claim(self, total: int = 10) -> list[Claim]:
        return (await self.exchange(want=total)).claims

    async def ids(self, total: int = 10) -> list[str]:
        """Claim jobs, and answer their ids in the order they came."""
        return [claim.id for claim in await self.claim(total)]

    async def take(self, id: str | None = None) -> Claim:
        """Claim one job, the given one if it is named."""
        [claim] = await self.claim(1)
        assert id is None or claim.id == id, f"expected {id} to be next, not {claim.id}"
        return claim

    async def settle(self, claim: Claim, outcome: Outcome, **changed: Any) -> ExchangeReply:
        """Write what became of a claim; ``changed`` fields of the transition are set on top."""
        return await self.exchange([move(claim, outcome, **changed)])

    async def finish(self, *claims: Claim) -> None:
        """Settle these claims as succeeded; the store must accept all."""
        reply = await self.exchange([move(claim, Succeeded(b'"done"')) for claim in claims])
        assert not reply.refused

    async def note(self, claim: Claim, *lines: str, progress: bytes | None = None, fence: Fence | None = None) -> bool:
        """Send log lines and progress of a claim. Answers whether they were accepted."""
        note = Note(claim.id, fence or claim.fence, progress, [("info", line) for line in lines])
        return not await self.store.note(self.id, [note])

    async def info(self) -> WorkerInfo:
        [one] = [info for info in await self.store.workers() if info.presence.id == self.id]
        return one


class Bench:
    """An open store with a clock moved by hand, and short words for what every rule needs."""

    def __init__(self, make_store: MakeStore, store: Store, clock: ManualClock, settings: StoreSettings) -> None:
        self.make_store = make_store
        self.store = store
        self.clock = clock
        self.settings = settings

    async def connect(self) -> Store:
        """A second connection to the same data."""
        return await self.make_store(settings=self.settings, clock=self.clock)

    async def worker(self, id: str = "w1", *, store: Store | None = None, **fields: Any) -> Hand:
        """A worker that has just presented itself: queue ``q``, task ``t``, lease 15 s unless said otherwise."""
        hand = Hand(store or self.store, presence(id, **fields))
        await hand.start()
        return hand

    async def client(self, name: str = "client", *, store: Store | None = None) -> Listener:
        """A listening client."""
        listener = Listener(store or self.store, name)
        await listener.store.listen(name, listener.deliver)
        return listener

    async def add(self, *ids: str, **fields: Any) -> list[Answer]:
        """Insert jobs of task ``t`` into queue ``q`` unless said otherwise, in one batch."""
        return await self.store.insert([new_job(id, **fields) for id in ids])

    async def job(self, id: str) -> Job:
        [job] = await self.store.get([id])
        assert job is not None, f"no record of {id}"
        return job

    async def states(self, *ids: str) -> list[State | None]:
        return [job.state if job else None for job in await self.store.get(ids)]

    async def state(self, id: str) -> State | None:
        [state] = await self.states(id)
        return state

    async def change(self, action: Action, *ids: str, **fields: Any) -> ChangeReply:
        return await self.store.change(Change(action=action, **fields), ids)

    async def tune(self, gate: str, **fields: Any) -> GateInfo:
        """Change one gate. Answers the gate after that."""
        [info] = await self.store.tune([Tuning(name=gate, **fields)])
        return info

    async def limit(self, gate: str, **limits: Any) -> GateInfo:
        """Set the operator's limits of a gate, in place of all earlier ones."""
        info = await self.tune(gate, tuned=Limits(**limits))
        assert info.changed
        return info

    async def gate(self, name: str) -> GateInfo:
        [info] = await self.store.gates([name])
        return info

    async def hold(self, id: str) -> Hold | None:
        [hold] = await self.store.holds([id])
        return hold

    async def queue(self, name: str = "q") -> QueueInfo:
        [info] = [info for info in await self.store.queues() if info.name == name]
        return info

    async def counts(self, name: str = "q") -> dict[str, int]:
        """A queue's jobs by state, without the empty states."""
        return {state: n for state, n in (await self.queue(name)).counts.items() if n}

    async def ended(self, id: str, outcome: Outcome | None = None, **fields: Any) -> Job:
        """A job inserted, run by a passing worker and settled (as succeeded unless said otherwise)."""
        await self.add(id, **fields)
        job = new_job(id, **fields)
        hand = await self.worker(f"passing-{id}", queues=[job.queue], declares={job.task: Declared((job.version,))})
        await hand.settle(await hand.take(id), outcome or Succeeded(b'"done"'))
        await self.store.leave(hand.id)
        [found] = await self.store.get([id])
        return found or Job(
            id=id, task=job.task, version=1, queue=job.queue, priority=5, state=State.SKIPPED, payload=b"", meta=b""
        )

    async def crash(self, id: str, *, worker: str = "", **fields: Any) -> None:
        """A worker takes this job, which must be the next, and dies under it."""
        hand = await self.worker(worker or f"crashing-{uuid4()}", **fields)
        await hand.take(id)
        await self.store.leave(hand.id, crashed=True)

    async def stage(
        self, plan: GraphDraft, first: int = 0, last: int | None = None, commit: bool = False
    ) -> GraphAnswer:
        """Hand in the nodes from number ``first`` to before ``last``, all the rest unless said otherwise."""
        return await self.store.insert_graph(plan.graph, first, plan.nodes[first:last], commit)

    async def submit(self, plan: GraphDraft) -> GraphAnswer:
        """Hand in a whole graph, in as many parts as it takes; it must be accepted. Answers what the commit did."""
        graph, nodes, first = plan.graph, plan.nodes, 0
        while True:
            part, last = nodes[first : first + MAX_BATCH], first + MAX_BATCH >= len(nodes)
            answer = await self.store.insert_graph(graph, first, part, commit=last)
            assert answer.status is Accept.ACCEPTED, f"part from {first} of {graph.id}: {answer}"
            if last:
                return answer
            first += MAX_BATCH

    async def graph(self, id: str = "g") -> GraphInfo:
        info = await self.store.graph(id)
        assert info is not None, f"no graph {id}"
        return info

    async def drain(self) -> None:
        """Sweep until every todo is worked off."""
        for _ in range(1_000):
            reply = await self.store.sweep()
            if not reply.more and reply.next_check != 0:
                return
        raise AssertionError("after 1,000 sweeps there is still something to do")

    async def play(self, hand: Hand, outcomes: Mapping[str, Outcome] | None = None, total: int = 10) -> list[str]:
        """Run jobs until there are no more. Answers which ran, in order.

        A job's value is its own id, unless an outcome is given for it, which is used once.
        """
        ran: list[str] = []
        left = dict(outcomes or {})
        for _ in range(10_000):
            claims = await hand.claim(total)
            if not claims:
                await self.drain()
                claims = await hand.claim(total)
            if not claims:
                return ran
            ran += [claim.id for claim in claims]
            moves = [move(claim, left.pop(claim.id, value(claim.id))) for claim in claims]
            reply = await hand.exchange(moves)
            assert not reply.refused, f"refused {reply.refused} of {[claim.id for claim in claims]}"
        raise AssertionError(f"it never ends; the last to run were {ran[-10:]}")

    async def passes(self, ms: int, *alive: Hand) -> list[SweepReply]:
        """Let time pass as in service: in steps that are no jump, each with a beat of the live workers and a sweep."""
        replies = []
        while ms > 0:
            self.clock.advance(min(ms, STEP))
            ms -= STEP
            for hand in alive:
                await hand.beat()
            replies.append(await self.store.sweep())
        return replies

    async def now(self) -> int:
        """The store's time, read from a job that is accepted now."""
        id = f"probe-{uuid4()}"
        await self.add(id, queue="probes")
        return (await self.job(id)).enqueued_at

    async def events(self, after: int = 0) -> list[Event]:
        """Every single event kept behind an entry, without those of probes and markers."""
        found: list[Event] = []
        while entries := await self.store.events(after):
            found += [event for entry in entries for event in expand(entry)]
            after = entries[-1].seq
        return [event for event in found if event.queue not in ("probes", "markers")]

    async def newest(self) -> int:
        """The seq of the newest entry, 0 if there is none."""
        return max((entry.seq for entry in await self.store.events(-1)), default=0)

    async def kinds(self, job: str = "", after: int = 0) -> list[str]:
        return [event.kind for event in await self.events(after) if not job or event.job == job]

    async def everything(self, **filters: Any) -> list[Job]:
        """All records a query finds, page by page."""
        jobs: list[Job] = []
        cursor = ""
        for _ in range(10_000):
            page = await self.store.find(Query(after=cursor, **filters))
            jobs += page.jobs
            cursor = page.cursor
            if not cursor:
                return jobs
        raise AssertionError("the listing never ends")


def new_job(id: str, *, task: str = "t", queue: str = "q", payload: bytes = b'{"x":1}', **fields: Any) -> NewJob:
    """A job as a caller hands it in."""
    return NewJob(id=id, task=task, queue=queue, payload=payload, **fields)


def value(id: str) -> Succeeded:
    """The outcome of a job whose value is its own id."""
    return Succeeded(msgspec.json.encode(id))


def presence(
    id: str,
    queues: Sequence[str] = ("q",),
    declares: dict[str, Declared] | None = None,
    lease: int = LEASE,
    **fields: Any,
) -> Presence:
    """A worker of queue ``q`` that knows task ``t``, unless said otherwise."""
    known = {"t": Declared()} if declares is None else declares
    return Presence(id=id, queues=list(queues), declares=known, lease=lease, **fields)


def move(claim: Claim, outcome: Outcome, **changed: Any) -> Transition:
    """The transition an outcome makes, with some of its fields changed."""
    made = decide(claim, outcome)
    for name, value in changed.items():
        setattr(made, name, value)
    return made
