"""Those who talk to the store: a party on the network, and a worker process as the contract wants it.

The worker is a small state machine with the real one's rules: one exchange in flight and resent until answered, a
heartbeat beside it on its own connection, everything dropped when the store is silent for too long or says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from windlass.core.job import Claim, Finished
from windlass.core.lifecycle import Outcome, Stopped, Transition, decide
from windlass.errors import StoreError
from windlass.store.jobs import BeatReply, Declared, ExchangeReply, Presence, SweepReply, Want

if TYPE_CHECKING:
    from windlass.testing.simulation.world import World

T = TypeVar("T")

LEASE, BEAT, BEAT_TIMEOUT = 15_000, 5_000, 2_000
DECLARES = {"t": Declared()}


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of the memory store, which never waits: it ends at its first step, and no event loop is
    needed.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("a call of the memory store waited")


class Party:
    """A program on the network, which can be cut off, paused for a while, and dead."""

    def __init__(self, world: World) -> None:
        self.world, self.rng = world, world.rng
        self.alive = True
        self.paused_until = self.cut_until = 0

    @property
    def is_cut(self) -> bool:
        return self.cut_until > self.world.t

    def later(self, delay: int, action: Callable[[], None]) -> None:
        """Do something after a while; if the party is paused then, when it wakes up; never if it is dead."""
        self.world.at(delay, lambda: self._when_able(action))

    def _when_able(self, action: Callable[[], None]) -> None:
        if not self.alive:
            return
        wait = self.paused_until - self.world.t
        if wait > 0:
            self.world.at(wait, lambda: self._when_able(action))
        else:
            action()


class Running:
    """A claim that a worker holds."""

    __slots__ = ("claim", "settled", "stopping")

    def __init__(self, claim: Claim) -> None:
        self.claim, self.settled, self.stopping = claim, False, False


class Request:
    """The exchange in flight."""

    __slots__ = ("moves", "room", "seq", "want")

    def __init__(self, seq: int, moves: list[Transition], room: int, queues: Sequence[str]) -> None:
        self.seq, self.moves, self.room = seq, moves, room
        self.want = Want([(queue, room) for queue in queues], room)


class Process(Party):
    """A worker process from its start to its end; it may have several ids in its life."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.store, self.history = world.store, world.history
        self.slots = self.rng.randint(1, 4)
        self.queues = ["a", "b"] if self.rng.random() < 0.5 else ["b", "a"]
        self.answered = world.t
        self.awaiting = self.beats = 0
        self.sweep_set = False
        self._be_born()
        self.beat()

    def _be_born(self) -> None:
        self.id = self.world.new_worker_id()
        self.presence = Presence(id=self.id, queues=self.queues, declares=DECLARES, lease=LEASE)
        self.enrolled = self.hungry = self.drain = False
        self.seq = self.acked = 0
        self.request: Request | None = None
        self.held: dict[str, Running] = {}
        self.finished: list[Transition] = []
        # The store sends mail through a loop; here the world takes its place.
        self.world.hub.mail[self.id] = (cast(asyncio.AbstractEventLoop, Post(self, self.id)), self._never)

    @staticmethod
    def _never(items: list[Finished]) -> None:
        raise AssertionError("mail is delivered by the world")

    def on_mail(self, worker: str) -> None:
        if worker == self.id:
            self.poke()

    def poke(self) -> None:
        self.hungry = True
        self.pump()

    # -- the heartbeat

    def beat(self) -> None:
        # Two reads with a moment between them, in the real heartbeat's order: what was acknowledged, then what is held.
        me, acked = self.id, self.acked
        self.later(self.rng.randint(0, 3), lambda: self._send_beat(me, acked))

    def _send_beat(self, me: str, acked: int) -> None:
        if me != self.id:
            return
        held, presence = list(self.held), self.presence
        self.beats += 1
        number = self.awaiting = self.beats
        self.world.send(
            self, lambda: self._apply_beat(presence, acked, held), lambda reply: self.on_beat(number, reply)
        )
        self.later(BEAT_TIMEOUT, lambda: self._overdue(number))

    def _apply_beat(self, presence: Presence, acked: int, held: list[str]) -> BeatReply:
        row = self.world.hub.workers.get(presence.id)
        before = list(row.running) if row is not None else []
        reply = drive(self.store.beat(presence, acked, held))
        if not reply.gone:
            self.history.beaten[presence.id] = self.world.t
        if row is not None and presence.id in self.history.ended:
            # A buried worker counts as new when it beats again, and its late messages are taken as new ones.
            self.history.let_go.update(id for id in before if id not in row.running)
        return reply

    def on_beat(self, number: int, reply: BeatReply) -> None:
        if number != self.awaiting:
            return
        self.awaiting = 0
        self.answered = self.world.t
        if reply.gone:
            self.gone()
            return
        self.later(BEAT, self.beat)
        self._sweep()
        for id in reply.lost:
            self.drop(id)
        for id in reply.cancels:
            self.cancel(id)
        if not self.enrolled:
            self.enrolled = True
            self.poke()
        elif reply.ready and self.world.profile.backstop:
            self.poke()
        else:
            self._set_alarm(reply.next_due)

    def _overdue(self, number: int) -> None:
        if number != self.awaiting:
            return
        self.awaiting = 0
        if self.world.t - self.answered > LEASE - 2_000:
            for id in list(self.held):
                self.drop(id)
        self.later(1_000, self.beat)

    def _sweep(self) -> None:
        self.world.send(self, self._apply_sweep, self._on_sweep)

    def _apply_sweep(self) -> SweepReply:
        reply = drive(self.store.sweep(self.world.sweep_limit))
        for worker in reply.dead_workers:
            self._judge_death(worker)
        self.history.wrong += [f"{graph} had to be repaired" for graph in reply.repaired]
        return reply

    def _judge_death(self, worker: str) -> None:
        """Check that only a worker that is dead, or was silent for a lease, is taken for dead."""
        history, now = self.history, self.world.t
        if worker not in history.ended:
            history.ended.add(worker)
            since = history.beaten[worker]
            silent = now - since + sum(cost for at, cost in history.jumps if at >= since)
            if silent < LEASE:
                history.wrong.append(f"{worker} was taken for dead {silent} ms after its last beat")

    def _on_sweep(self, reply: SweepReply) -> None:
        if reply.more:
            self._sweep()
        elif 0 <= reply.next_check < BEAT and not self.sweep_set:
            self.sweep_set = True
            self.later(max(100, reply.next_check + 1), self._sweep_once)

    def _sweep_once(self) -> None:
        self.sweep_set = False
        self._sweep()

    # -- the pump

    def _room(self) -> int:
        if self.drain and any(not running.settled for running in self.held.values()):
            return 0
        return self.slots - len(self.held)

    def pump(self) -> None:
        room = self._room()
        if not self.enrolled or self.request or not (self.finished or (self.hungry and room > 0)):
            return
        moves, self.finished = self.finished, []
        closed = self.drain and any(not running.settled for running in self.held.values())
        room = 0 if closed else max(0, room + len(moves))
        if room:
            self.hungry = False
        self.seq += 1
        self.request = Request(self.seq, moves, room, self.queues)
        self._transmit(self.id, self.request)

    def _transmit(self, me: str, request: Request) -> None:
        """Send a request, and the same again until it is answered."""
        if self.id != me or self.request is not request:
            return
        self.world.send(
            self, lambda: self._apply_exchange(me, request), lambda reply: self.on_exchange(me, request, reply)
        )
        self.later(self.rng.randint(200, 1_500), lambda: self._transmit(me, request))

    def _apply_exchange(self, me: str, request: Request) -> ExchangeReply:
        reply = drive(self.store.exchange(me, request.seq, request.moves, request.want))
        row = self.world.hub.workers.get(me)
        if row is not None and len(row.running) > 1:
            for job in row.running.values():
                if job.crashes and job.crashes == job.max_crashes - 1:
                    self.history.wrong.append(f"{job.id} shares {me}, though it may kill it once more")
        return reply

    def on_exchange(self, me: str, request: Request, reply: ExchangeReply | StoreError) -> None:
        if self.id != me or self.request is not request:
            return
        self.request = None
        if isinstance(reply, StoreError) or reply.gone:
            self.history.late += len(request.moves)
            self.gone()
            return
        for move in request.moves:
            running = self.held.pop(move.id, None)
            if running is not None and not running.settled:
                # It was given up, came back under the same id and got the job again before it heard of the old claim.
                self.history.let_go[move.id] += 1
            if move.id in reply.refused:
                # The store may have forgotten its earlier yes to a worker that was given up and came back.
                self.history.refused[move.id] += me not in self.history.ended
            else:
                self.history.settled.append((move.id, move.fence.run, move.to, move.event, move.result))
        for claim in reply.claims:
            self.take(claim)
        self.acked = request.seq
        self.hungry = self.hungry or 0 < request.room <= len(reply.claims)
        self.drain = reply.drain
        for id in reply.cancels:
            self.cancel(id)
        self._set_alarm(reply.next_due)
        self.pump()

    def _set_alarm(self, next_due: int) -> None:
        if next_due >= 0:
            self.later(next_due + 1, self.poke)

    # -- jobs

    def take(self, claim: Claim) -> None:
        running = self.held[claim.id] = Running(claim)
        self.history.executed.append((claim.id, claim.epoch, self.id))
        spec = self.world.specs[claim.id]
        self.later(spec.duration, self.die if spec.poison else lambda: self._end(running))

    def _end(self, running: Running) -> None:
        spec, claim = self.world.specs[running.claim.id], running.claim
        self._settle(running, spec.outcome(claim, self.id, self.rng.choice((0, self.rng.randint(1, 5_000)))))

    def _settle(self, running: Running, outcome: Outcome) -> None:
        if running.settled or self.held.get(running.claim.id) is not running:
            return
        running.settled = True
        self.finished.append(decide(running.claim, outcome))
        self.pump()

    def cancel(self, id: str) -> None:
        running = self.held.get(id)
        if running is not None and not running.stopping:
            running.stopping = True
            self.later(self.rng.randint(1, 2_000), lambda: self._settle(running, Stopped()))

    def drop(self, id: str) -> None:
        """Stop a job that may belong to another worker by now. A finished one is kept, to be settled."""
        running = self.held.get(id)
        if running is not None and not running.settled:
            del self.held[id]
            self.history.let_go[id] += 1

    # -- ends

    def gone(self) -> None:
        """The store gave this worker up: it comes back under a new id."""
        self._lay_down()
        self._be_born()
        self.beat()

    def die(self) -> None:
        self._lay_down()
        self.alive = False
        if self.rng.random() < 0.3:
            # A supervisor saw it die and reports it.
            self._sign_off(crashed=True)
        self.world.at(self.rng.randint(500, 10_000), self.world.spawn)

    def stop(self) -> None:
        """A deploy: the running jobs are handed back, and another process follows."""
        self._lay_down()
        self.alive = False
        self._sign_off(crashed=False)
        self.world.at(self.rng.randint(500, 10_000), self.world.spawn)

    def _sign_off(self, crashed: bool) -> None:
        me = self.id
        self.world.send(self, lambda: self._apply_leave(me, crashed))

    def _apply_leave(self, me: str, crashed: bool) -> None:
        row = self.world.hub.workers.get(me)
        if row is not None and not crashed:
            self.history.let_go.update(list(row.running))
        drive(self.store.leave(me, crashed))

    def _lay_down(self) -> None:
        for id in list(self.held):
            self.drop(id)
        self.world.hub.mail.pop(self.id, None)
        self.history.ended.add(self.id)


class Post:
    """Takes the store's mail for a worker, in place of the one call of an event loop that the store makes."""

    def __init__(self, process: Process, worker: str) -> None:
        self._process, self._worker = process, worker

    def call_soon_threadsafe(self, deliver: Callable[..., None], *args: Any) -> None:
        self._process.world.deliver_mail(self._process, self._worker)
