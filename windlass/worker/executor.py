"""Runs claims in their place (loop, thread, process), a bounded number at a time, and collects their outcomes.

The executor owns the slots. The pump takes outcomes from it and brings new claims. What a workflow's job needs from the
store besides is done by ``graphs``.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
from collections import deque
from collections.abc import Callable, Collection, Sequence
from time import monotonic, time_ns
from types import SimpleNamespace
from typing import TYPE_CHECKING

from windlass.core.failure import describe
from windlass.core.job import Claim
from windlass.core.lifecycle import Adopting, Failed, HandedBack, Outcome, Transition, decide
from windlass.errors import Cancel, SoftTimeout
from windlass.store.answers import MAX_BATCH
from windlass.support.failpoints import failpoint
from windlass.support.logs import Steady
from windlass.worker import runner
from windlass.worker.batches import BATCH, Batch, Batches
from windlass.worker.breaker_guards import BreakerGuards
from windlass.worker.children import Children
from windlass.worker.graphs import Graphs
from windlass.worker.joblog import JobLog
from windlass.worker.note_buffer import NoteBuffer
from windlass.worker.runner import LOST, SHUT_DOWN, TIMED_OUT, Run, SoftTask, run_elsewhere, run_on_loop, soften
from windlass.worker.threads import Threads
from windlass.worker.timers import Timers
from windlass.worker.tracker import Tracker

if TYPE_CHECKING:
    from windlass.app import Windlass

log = Steady(logging.getLogger("windlass.worker"))

WAIT_LIMIT = 0.5


class Executor:
    """``held`` has every claim of this worker: waiting, running, or finished and not settled yet."""

    def __init__(
        self, app: Windlass, concurrency: int, notes: NoteBuffer, children: Children, graphs: Graphs,
        wake: Callable[[], None],
    ) -> None:  # fmt: skip
        self._app, self.concurrency, self._notes, self._children, self._wake = app, concurrency, notes, children, wake
        self._graphs = graphs
        self._staging: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._threads = Threads(concurrency, self._loop)
        self.timers = Timers(self._loop)
        self.state = SimpleNamespace()
        self.held: dict[str, Run] = {}
        self.waiting: deque[Run] = deque()
        self.finished: list[Transition] = []
        self.active = self.started = self.stuck = self.completed = 0
        self.tracker = Tracker(concurrency)
        self.worker = ""
        self.log = JobLog()
        self._start_is_due = False
        self._context = contextvars.copy_context()
        self._batches = Batches(app, notes, self.state, self.timers)
        guards = BreakerGuards(app)
        self._guards, self._asked = (guards or None), guards.asked
        self._layers, self._watchers = app.declared.run_layers, app.watchers

    def room(self, leaving: int, ahead: int) -> int:
        """How many more claims to take once ``leaving`` are settled; none while process jobs wait for children."""
        if self._children.behind:
            return 0
        return self.concurrency + ahead + leaving + self._batches.extra - self.stuck - len(self.held)

    # -- claims in, outcomes out

    def take(self, claims: Sequence[Claim], ahead: int = MAX_BATCH) -> None:
        """Start claims, as many as there are slots for; at most ``ahead`` of the others wait for their turn."""
        batched = self._batches.tasks
        for claim in claims:
            try:
                run = self.held[claim.id] = Run(self._app, claim, self._notes, self.state)
            except Exception as error:  # its record makes no sense; the claims that came with it go on
                self._refuse(claim, error)
                continue
            if batched and claim.task in batched:
                self._take_for_batch(run)
            else:
                self.waiting.append(run)
        self._start_waiting()
        if batched:
            self._hand_back_excess(ahead)
        if self.waiting:
            self._look_again(self.started)

    def _refuse(self, claim: Claim, error: Exception) -> None:
        """Settle a claim that cannot be begun as a dead letter, or it would end one worker after another."""
        log.error("job %s (%s) cannot be begun", claim.id, claim.task, exc_info=error)
        self.finished.append(decide(claim, Failed(describe(error), None, "the job cannot be begun")))
        self._wake()

    def _look_again(self, started: int) -> None:
        self.timers.after(WAIT_LIMIT, lambda: self._give_up_waiting(started), lambda: bool(self.waiting))

    def _give_up_waiting(self, started_before: int) -> None:
        """Hand back claims taken ahead that cannot start soon: another worker may start them sooner."""
        if self.started == started_before:
            self.hand_back_waiting()
        elif self.waiting:
            self._look_again(self.started)

    def _start_waiting(self) -> None:
        self._start_is_due = False
        while self.waiting and self.active < self.concurrency:
            run = self.waiting.popleft()
            try:
                self._start(run)
            except Exception as error:  # for example no thread can be had; the claims behind this one must not suffer
                self._done(run, run.judge(error))

    def _arm(self, run: Run) -> None:
        """Start the timeouts of a job whose code starts now."""
        run.began = monotonic()
        rules = run.rules
        if rules.timeout:
            self.timers.after(rules.timeout / 1000, lambda: self._time_out(run), lambda: not run.settled)
        if rules.soft_timeout:
            self.timers.after(rules.soft_timeout / 1000, lambda: self._soft_time_out(run), lambda: not run.settled)

    def _start(self, run: Run) -> None:
        self.active += 1
        self.started += 1
        claim = run.claim
        if claim.awaits or (claim.source and claim.given is None) or (self._asked and self._must_ask(run)):
            # Until its values are there the job is a coroutine on the loop, and is stopped as one.
            place, run.place = run.place, "loop"
            run.handle = self._loop.create_task(self._prepare(run, place))
        else:
            self._launch(run)

    def _must_ask(self, run: Run) -> bool:
        return run.claim.task in self._asked and not isinstance(run, Batch)  # the members of a batch have asked already

    async def _prepare(self, run: Run, place: str) -> None:
        """Get what a job needs before its code starts: its workflow's values, and its breaker's permission."""
        try:
            refused = await self._guards.admit(run) if self._guards and self._must_ask(run) else None
            if refused is None:
                await self._graphs.fetch(run.claim)
        except BaseException as error:
            self._done(run, runner.judge(run, error))
            return
        run.place, run.handle = place, None
        if refused is not None:
            self._done(run, refused)
        elif place == BATCH:
            self.active -= 1  # the batch takes the slot, not its members
            self._join(run)
        else:
            self._launch(run)

    # -- batches

    def _take_for_batch(self, run: Run) -> None:
        claim, run.place = run.claim, BATCH
        if claim.awaits or (claim.source and claim.given is None) or self._must_ask(run):
            self.waiting.append(run)
        else:
            self._join(run)

    def _join(self, run: Run) -> None:
        if self._batches.closed:
            self._settle(run, HandedBack())
        else:
            self._batches.join(run, self._batch_is_ready)

    @property
    def gathering(self) -> int:
        """How many claims wait for others, to run as one batch."""
        return self._batches.gathering

    def start_gathered(self) -> None:
        """Run the gathered batches as they are: no more claims will come."""
        for batch in self._batches.gathered():
            self._batch_is_ready(batch)

    def _batch_is_ready(self, batch: Batch) -> None:
        self.waiting.append(batch)
        self._start_soon()
        self._look_again(self.started)

    def _hand_back_excess(self, ahead: int) -> None:
        """Hand back claims that were asked for to fill a batch and belong to none: no slot is free for them."""
        excess = [run for run in self.waiting if not isinstance(run, Batch)][ahead:]
        for run in excess:
            self.waiting.remove(run)
            self._settle(run, HandedBack())
        if excess:
            self._batches.be_modest(self._wake)

    def _settle_batch(self, batch: Batch, outcome: Outcome) -> None:
        for run in batch.members:
            if not run.settled:
                run.began = batch.began
                self._settle(run, batch.outcome_of(run, outcome))
        self._batches.over(batch)

    def _launch(self, run: Run) -> None:
        """Start the code of a job, in its place."""
        if run.place != "process":
            self._arm(run)
        if run.place == "thread" and not self._layers:
            self._threads.submit(run, self._done)
        elif run.place != "loop":
            run.handle = self._loop.create_task(self._start_elsewhere(run))
        elif run.rules.soft_timeout:
            run.handle = self._loop.create_task(SoftTask(run_on_loop(run, self._done), run))
        elif sys.version_info >= (3, 12):
            run.handle = asyncio.Task(run_on_loop(run, self._done), loop=self._loop, eager_start=True)
        else:
            run.handle = self._loop.create_task(run_on_loop(run, self._done))

    async def _start_elsewhere(self, run: Run) -> None:
        if self._layers:
            await run_elsewhere(run, lambda: self._elsewhere(run), self._done)
        else:
            self._done(run, await self._elsewhere(run))

    async def _elsewhere(self, run: Run) -> Outcome:
        if run.place == "process":
            return await self._children.run(run, lambda: self._arm(run))
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._threads.submit(run, lambda _, outcome: None if future.done() else future.set_result(outcome))
        return await future

    def _done(self, run: Run, outcome: Outcome) -> None:
        """Note that a run is over. Called on the loop, once per run, also for a thread that ends after it was
        given up.
        """
        failpoint("after_run")
        self.active -= 1
        if run.settled:
            self.stuck -= 1
        else:
            self._settle(run, outcome)
        if self.waiting:
            self._start_soon()

    def _start_soon(self) -> None:
        """Start waiting claims once for all runs that end in this turn of the loop, outside the context of the job that
        just ended.
        """
        if not self._start_is_due:
            self._start_is_due = True
            self._loop.call_soon(self._start_waiting, context=self._context)

    def _settle(self, run: Run, outcome: Outcome) -> None:
        run.settled = True
        if run.stop == LOST or self.held.get(run.claim.id) is not run:
            self._dismiss(run, outcome)
            return
        if type(outcome) is Adopting:
            task = self._loop.create_task(self._stage(run, outcome))
            self._staging.add(task)
            task.add_done_callback(self._staging.discard)
            return
        self.completed += type(outcome) is not HandedBack
        move = runner.transition(run, outcome, self.worker)
        self.finished.append(move)
        if len(self.finished) == 1:
            self._wake()
        try:  # log, breakers, charts and watchers only observe: none may change the outcome
            if move.event != "succeeded" or self.log.success:
                self.log.tell(run, outcome, move, self.worker)
                run.raised = None  # the traceback would keep the run and all the task's objects in memory
            if self._guards is not None:
                self._guards.left(run, outcome)
            self.tracker.settled(run.claim, move.event, run.began)
            if self._watchers:
                self._tell(run, move)
        except Exception:
            log.exception("what became of job %s (%s) could not be reported", run.claim.id, run.claim.task)

    def _dismiss(self, run: Run, outcome: Outcome) -> None:
        """Note the end of a run about which nothing is written: a batch, whose members are settled, or a claim no
        longer ours.
        """
        if isinstance(run, Batch):
            self._settle_batch(run, outcome)
        elif self._guards is not None:
            self._guards.left(run, HandedBack())
        self._tell(run, None)

    def _tell(self, run: Run, move: Transition | None) -> None:
        for watcher in self._watchers:
            watcher.decided(run.current, move)

    async def _stage(self, run: Run, outcome: Adopting) -> None:
        """Stage the job's new graph. The task's code has ended and its slot is free, so the store may be waited for."""
        try:
            self._settle(run, await self._graphs.stage(outcome))
        except Exception as error:
            self._settle(run, runner.judge(run, error))

    def settled(self, moves: Sequence[Transition], refused: Collection[str] = (), began: int = 0) -> None:
        """The store has these transitions; their claims are no longer held."""
        for move in moves:
            self.held.pop(move.id, None)
        for watcher in self._watchers:
            watcher.answered(moves, refused, began)

    def gave_up(self, moves: Sequence[Transition]) -> None:
        """The store takes these transitions from this worker no more."""
        for watcher in self._watchers:
            watcher.answered(moves, {move.id for move in moves}, time_ns())

    # -- telling running jobs to stop

    def _time_out(self, run: Run) -> None:
        run.stop = run.stop or TIMED_OUT
        if run.place == "thread":
            # A thread cannot be killed: the job is over, but its slot stays taken until the thread ends.
            self.stuck += 1
            exc = runner.timed_out(run)
            self._settle(run, run.judge(exc))
            self._threads.inject(run, SoftTimeout)
        elif run.place == "process":
            self._children.kill(run, "timed out")
        elif run.handle is not None:
            run.handle.cancel()

    def _soft_time_out(self, run: Run) -> None:
        if run.place == "loop":
            soften(run)
        elif run.place == "thread":
            self._threads.inject(run, SoftTimeout)
        else:
            self._children.soft_timeout(run)

    def cancel(self, id: str) -> None:
        """Stop a job because a cancel was requested: first cooperatively, and by force after the job's grace."""
        run = self.held.get(id)
        if run is None or run.settled or run.current.cancelled:
            return
        run.current.ask_to_stop()
        run.stop = run.stop or runner.CANCELLED
        if run in self.waiting:
            self.waiting.remove(run)
            self._settle(run, HandedBack())
        elif run.place == BATCH:
            self._cancel_member(run)
        else:
            self._ask_to_stop(run)

    def _ask_to_stop(self, run: Run) -> None:
        if run.place == "loop" and run.handle is not None:
            run.handle.cancel()
        else:
            self._children.cancel(run)
            self.timers.after(run.rules.cancel_grace / 1000, lambda: self._force(run), lambda: not run.settled)

    def _cancel_member(self, run: Run) -> None:
        """Cancel one member of a batch. The others go on; the batch is stopped when no member is wanted any more."""
        batch = self._batches.leave(run, self.waiting)
        if batch is not None:
            batch.current.ask_to_stop()
            batch.stop = batch.stop or runner.CANCELLED
            self._ask_to_stop(batch)
        elif self._batches.unit(run) is run:
            self._settle(run, HandedBack())

    def _force(self, run: Run) -> None:
        if run.place == "process":
            self._children.kill(run, "cancelled")
        else:
            self._threads.inject(run, Cancel)

    def drop(self, ids: Sequence[str] | None = None) -> None:
        """Stop jobs that the store no longer counts as ours; nothing is written about them.

        Finished ones are kept: the store is told of them as soon as possible, and refuses those that come too late.
        """
        for id in list(self.held if ids is None else ids):
            run = self.held.get(id)
            if run is None or run.settled:
                continue
            log.warning("lost job %s (%s): another worker may run it", id, run.claim.task)
            self._stop(run, LOST)
            self.held.pop(id, None)
            self.tracker.lost += 1

    def forget(self) -> None:
        """Forget all claims: the store gave this worker up, and what it held is no longer its own, finished or not."""
        self.drop()
        self.held.clear()
        self.gave_up(self.finished)
        self.finished.clear()
        self._stop_staging()

    def stop_gathering(self) -> None:
        """End the gathering of batches: their claims are handed back with the others that wait."""
        self._batches.closed = True
        self.waiting.extend(self._batches.gathered())

    def hand_back_waiting(self) -> None:
        """Hand back the claims that have not started, at no cost to the jobs."""
        while self.waiting:
            self._settle(self.waiting.popleft(), HandedBack())

    def hand_back_running(self) -> None:
        """Hand back everything at the end of the grace; no attempt is lost."""
        for run in dict.fromkeys(self._batches.unit(run) for run in self.held.values() if not run.settled):
            self._stop(run, SHUT_DOWN)
            if run.place == "thread":
                self.stuck += 1
                self._settle(run, HandedBack())

    def _stop(self, run: Run, why: str) -> None:
        run.stop = why
        if run in self.waiting:
            self.waiting.remove(run)
        elif run.place == BATCH:
            batch = self._batches.leave(run, self.waiting)
            if batch is not None:
                self._stop(batch, why)
        elif run.place == "process":
            self._children.kill(run, why)
        elif run.place == "thread":
            run.current.ask_to_stop()
            self._threads.inject(run, Cancel)
        elif run.handle is not None:
            run.handle.cancel()

    def _stop_staging(self) -> None:
        for task in self._staging:
            task.cancel()

    def close(self) -> None:
        self._stop_staging()
        self.timers.close()
        self._threads.stop()
