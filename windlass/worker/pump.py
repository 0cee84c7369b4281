"""The pump: everything that finished, and a request for as many jobs as there is room for, go into one exchange with
the store.

Under load batches grow by themselves, because jobs finish while an exchange is under way; an idle worker pays one
wake-up and one round trip per job. There is one exchange at a time; a request whose reply was lost is sent again
unchanged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from time import time_ns

from windlass.core import safe
from windlass.core.lifecycle import UNWRITABLE, Transition, unwritable
from windlass.errors import StoreError, StoreOutdated, StoreUnavailable
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Serial, Store
from windlass.store.jobs import ExchangeReply, Want
from windlass.support.failpoints import failpoint
from windlass.support.logs import Steady
from windlass.worker.executor import Executor
from windlass.worker.note_buffer import NoteBuffer
from windlass.worker.queue_shares import Shares

log = Steady(logging.getLogger("windlass.worker"))

LOOK_AHEAD_SECONDS = 0.03
LOOK_AHEAD_MAX = 2_000
RETRY_MAX = 2.0
FIRST_PAUSE = 0.05

BATCH_FIRST = 100
BATCH_LEAST = 50
QUICK, SLOW = 0.005, 0.010
"""With a serial store a batch grows while an exchange is quick, and shrinks when it is slow, since everyone else waits
meanwhile. A job of a workflow costs it several times what another does."""


class Pump:
    """``acked`` is the last exchange whose claims the executor has; the heartbeat reports it."""

    def __init__(
        self, store: Store, shares: Shares, executor: Executor, notes: NoteBuffer, on_gone: Callable[[], None],
        lanes_ahead: bool = False,
    ) -> None:  # fmt: skip
        self._store, self._shares, self._executor, self._notes = store, shares, executor, notes
        self._on_gone, self._lanes_ahead = on_gone, lanes_ahead
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._due: asyncio.TimerHandle | None = None
        self._counted = (self._loop.time(), 0)
        self._rate, self._ahead = 0.0, 0
        self._paced = isinstance(store, Serial)
        self._batch = BATCH_FIRST if self._paced else MAX_BATCH
        self.worker = ""
        self.heed_schedules: Callable[[int], None] = lambda stamp: None
        self._left: int | None = None
        self._on_spent: Callable[[], None] = lambda: None
        self.seq = self.acked = self.store_errors = 0
        self.hungry = self.drain = self.stopping = self.paused = self.quiet = self._owed = False

    def retire(self) -> None:
        """Stop all exchanges under the current id, also the one under way: the store gave this worker up."""
        self.paused = True
        self.acked = 0

    def enroll(self, worker: str) -> None:
        """Start again under a new id that the store knows."""
        self.worker, self.seq, self.acked = worker, 0, 0
        self.paused = self.drain = False
        self.poke()

    def limit_claims(self, most: int, on_spent: Callable[[], None]) -> None:
        """Claim exactly so many jobs; ``on_spent`` is called when the last of them is settled."""
        self._left, self._on_spent = most, on_spent

    @property
    def spent(self) -> bool:
        """Whether all jobs it may claim were claimed and are settled."""
        return self._left == 0 and not self._executor.held

    def poke(self) -> None:
        """Look for jobs: a wake-up, a due time or the heartbeat says that there may be some."""
        self.hungry = True
        self._event.set()

    def answer(self) -> None:
        """Answer a call of the store: for jobs, or to cancel one. A worker without room must also hear of a cancel."""
        self._owed = True
        self.poke()

    def serve(self, shares: Shares) -> None:
        """Ask for jobs of other queues from now on."""
        self._shares = shares
        self.poke()
        if shares.empty:
            self.stop_asking()

    def stop_asking(self) -> None:
        """Claim nothing more. The store is told, or it would wake this worker instead of others."""
        self._owed = True
        self._event.set()

    def nudge(self) -> None:
        """Look at the state again: something finished, or may have changed."""
        self._event.set()

    async def run(self) -> None:
        """Exchange until stopped and everything held is settled."""
        while True:
            self._event.clear()
            if self.paused:
                await self._event.wait()
            elif self._executor.finished or self._owed or (self.hungry and self._room(0) > 0):
                await self._round()
            elif self.stopping and not self._executor.held:
                return
            else:
                if self.spent:
                    self._on_spent()
                await self._event.wait()

    async def _round(self) -> None:
        """One exchange: settle, claim, start."""
        executor = self._executor
        moves = executor.finished[: self._batch]
        del executor.finished[: len(moves)]
        room = self._room(len(moves))
        self._measure(len(moves))
        if self._notes.pending:
            await self._notes.flush()
        self.seq += 1
        self._owed = False
        if room:
            # Cleared before the exchange: a wake-up that arrives together with the reply must not be overwritten.
            self.hungry = False
        now = -1 if self._lanes_ahead else min(room, max(0, executor.room(len(moves), 0)))
        began = time_ns()
        reply = await self._exchange(moves, Want(self._shares.ask(room), room, not executor.active, now))
        if reply is None:
            executor.gave_up(moves)
            return
        executor.settled(moves, reply.refused, began)
        if self._left is not None:  # claims that are handed back have not run here
            self._left += sum(move.event == "released" for move in moves) - len(reply.claims)
        for id in reply.refused:
            log.warning("late settle of job %s refused: it had been given to another worker", id)
        if reply.claims:
            failpoint("after_claim")
        executor.take(reply.claims, self._ahead)
        self._note(reply, room)
        for id in reply.cancels:
            executor.cancel(id)
        self.heed_schedules(reply.schedules)
        self.sleep_until(reply.next_due)

    def _note(self, reply: ExchangeReply, room: int) -> None:
        """Note what was granted, once it is in the executor's hands. A worker that got all it wanted asks again."""
        if self._shares.weighted:
            self._shares.took(room, Counter(claim.queue for claim in reply.claims))
        self.acked = self.seq
        self.hungry = self.hungry or (room > 0 and len(reply.claims) >= room)
        self.drain = reply.drain
        if reply.drain:
            self._executor.start_gathered()  # a job that runs alone waits for this worker to be empty

    async def _exchange(self, moves: list[Transition], want: Want) -> ExchangeReply | None:
        """The reply, repeated until it comes; None if this worker is gone from the store."""
        worker, seq, pause, failures = self.worker, self.seq, FIRST_PAUSE, 0
        while not self._is_retired(worker):
            try:
                failpoint("before_settle")
                started = self._loop.time()
                reply = await self._store.exchange(worker, seq, moves, want)
                self._pace(len(moves) + len(reply.claims), self._loop.time() - started)
                failpoint("after_settle")
            except StoreUnavailable as error:
                failures += 1
                self.store_errors += 1
                if failures == 1:
                    log.warning("the store cannot be reached, will go on trying: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, RETRY_MAX)
                continue
            except StoreOutdated as error:
                log.error("%s", error)
                self._gone()
                return None
            except Exception as error:
                self.store_errors += 1
                return await self._after_refusal(moves, error)
            if self._is_retired(worker):
                return None  # the heartbeat gave this id up while the exchange was under way
            if failures:
                log.warning("the store answers again after %d failed tries", failures)
            if reply.gone:
                self._gone()
                return None
            return reply
        return None

    async def _after_refusal(self, moves: list[Transition], error: Exception) -> ExchangeReply | None:
        """The store failed an exchange and would fail it again: find the job at fault, or leave and come back under a
        new id.
        """
        if len(moves) > 1:
            return await self._exchange_singly(moves, error)
        if moves and moves[0].reason != UNWRITABLE:
            return await self._exchange_unwritable(moves[0], error)
        if not isinstance(error, StoreError):
            raise error
        log.error("the store refused an exchange: %s", error)
        await asyncio.sleep(FIRST_PAUSE)
        self._gone()
        return None

    async def _exchange_singly(self, moves: list[Transition], error: Exception) -> ExchangeReply | None:
        """Settle one by one what cannot be settled together, so that the job at fault does not cost the others their
        outcomes.
        """
        log.error("the store failed an exchange, its %d jobs are settled one by one: %r", len(moves), error)
        whole = ExchangeReply()
        for move in moves:
            reply = await self._exchange_next([move])
            if reply is None:
                return None
            reply.refused, reply.cancels = whole.refused + reply.refused, whole.cancels + reply.cancels
            whole = reply
        return whole

    async def _exchange_unwritable(self, move: Transition, error: Exception) -> ExchangeReply | None:
        """Settle a job whose outcome the store cannot keep as a dead letter that says so."""
        log.error("what became of job %s cannot be written: %r", move.id, error)
        return await self._exchange_next([unwritable(move, safe.text(error, safe.MAX_REASON))])

    async def _exchange_next(self, moves: list[Transition]) -> ExchangeReply | None:
        """Exchange under a new number, as the store may have counted the failed one. It settles and asks for
        nothing.
        """
        self.seq += 1
        self.hungry = True
        return await self._exchange(moves, Want([], 0))

    def _is_retired(self, worker: str) -> bool:
        return self.paused or worker != self.worker

    def _gone(self) -> None:
        self.retire()
        self._on_gone()

    def _closed_for_claims(self) -> bool:
        return (
            self.stopping
            or self.quiet
            or self._shares.empty
            or (self.drain and bool(self._executor.active or self._executor.waiting))
        )

    def _room(self, leaving: int) -> int:
        """How many claims there is room for once so many have left: free slots, and more while jobs are quick."""
        if self._closed_for_claims():
            return 0
        self._ahead = 0 if self.drain else min(int(self._rate * LOOK_AHEAD_SECONDS), LOOK_AHEAD_MAX)
        room = max(0, min(self._executor.room(leaving, self._ahead), self._batch))
        return room if self._left is None else min(room, self._left)

    def _pace(self, jobs: int, seconds: float) -> None:
        """Ask for larger batches while they are quick and for smaller ones when they are slow; small exchanges tell
        nothing.
        """
        if not self._paced or jobs < BATCH_LEAST:
            return
        if seconds > SLOW:
            self._batch = max(BATCH_LEAST, min(self._batch, jobs) // 2)
        elif seconds < QUICK and jobs >= self._batch:
            self._batch = min(MAX_BATCH, self._batch * 2)

    def _measure(self, done: int) -> None:
        """Update the recent jobs per second, which determine how far to claim ahead."""
        now, (since, before) = self._loop.time(), self._counted
        total = before + done
        if now - since > 0.05:
            self._rate = 0.5 * self._rate + 0.5 * total / (now - since)
            self._counted = (now, 0)
        else:
            self._counted = (since, total)

    def sleep_until(self, next_due: int) -> None:
        """Set the alarm for the next scheduled job."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if next_due >= 0:
            # One millisecond more: instants are whole milliseconds, and the timer may fire within one.
            self._due = self._loop.call_later((next_due + 1) / 1000, self.poke)

    def close(self) -> None:
        self.sleep_until(-1)
