"""A worker as a service: it starts and stops its parts in order, and reacts to what the store says about it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from windlass import __version__
from windlass.core.job import Claim, Finished
from windlass.errors import StoreError
from windlass.operate.orders import Given, Order
from windlass.store.jobs import BeatReply, Presence
from windlass.support.ids import new_id
from windlass.support.logs import Steady
from windlass.worker.children import Children
from windlass.worker.executor import Executor
from windlass.worker.graphs import Graphs
from windlass.worker.heartbeat import Heartbeat, Watched
from windlass.worker.joblog import JobLog
from windlass.worker.memory import Cpu, resident_bytes
from windlass.worker.note_buffer import NoteBuffer
from windlass.worker.order_listener import OrderListener
from windlass.worker.process_metrics import Measures
from windlass.worker.pump import Pump
from windlass.worker.queue_shares import Shares
from windlass.worker.scheduler import Scheduler
from windlass.worker.sheet_writer import SheetWriter
from windlass.worker.store_verdicts import Verdicts
from windlass.worker.worker_options import (
    check_worker_options,
    declarations,
    declare_limits,
    has_limits,
    modules_of_process_tasks,
)

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.worker.notifier import Notifier

log = Steady(logging.getLogger("windlass.worker"))

EXIT_OK, EXIT_CONFIG, EXIT_BROKEN, EXIT_REPLACE = 0, 2, 70, 75
SETTLE_SECONDS = 5.0
RETURN_SECONDS = 0.5
_MODES = {Order.RESUME: "running", Order.QUIET: "quiet", Order.STOP: "stopping"}
Report = Callable[[dict[str, Any]], None]


class Companion(Protocol):
    """Lives as long as a worker and observes it, without a part in its work. Must not raise."""

    measures: Measures

    async def start(self, worker: Worker) -> None:
        """Called when the worker is up."""

    async def stop(self) -> None:
        """Called when the worker has ended its jobs and its children."""


class Worker:
    """One worker process' worth of running jobs."""

    def __init__(
        self, app: Windlass, options: Mapping[str, Any], report: Report | None = None,
        companion: Companion | None = None,
    ) -> None:  # fmt: skip
        app.load()
        self.app, self.options, self._report, self._companion = (
            app,
            check_worker_options(app, options),
            report,
            companion,
        )
        self._declares = declarations(app)
        app.schedules.plans()  # a faulty schedule raises here, before anything starts
        self._queues, self._beats_to_ask = self.options.queues, 0
        self._started_at = int(time.time() * 1000)
        self._cpu = Cpu()
        self._given_up = ""
        self._mode = Order.RESUME
        self.exit_code = EXIT_OK
        self.stop_requested = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    # -- life

    async def start(self) -> None:
        """Make the parts and let them run, the heartbeat last: from then on the store counts on this worker."""
        client = await self.app.client()
        self._store = client.store
        self._make_runners()
        self._scheduler = Scheduler(self.app, self._store)
        self.pump.heed_schedules = self._scheduler.heed
        await self._run_hooks(self.app.declared.start_hooks)
        await self._scheduler.declare()
        self._notifier = await self._make_notifier()
        self._obeying = OrderListener(self._store, self._obey, self._serve)
        await self._be_born()
        self._charts = SheetWriter(self._store, self.executor.tracker, self.id) if self.app.settings.charts else None
        self._heartbeat = self._make_heartbeat()
        self.pump.paused = True
        await self._heartbeat.start()
        # The first settles jobs, the last two make some.
        parts = (self.pump, self._charts, self._scheduler, self._notifier)
        self._tasks = [asyncio.create_task(part.run()) for part in parts if part is not None]
        self._makers = self._tasks[1 + (self._charts is not None) :]
        others = (self._watch_limits(), self._obeying.run(), self._verdicts.run())
        self._tasks += [asyncio.create_task(other) for other in others]
        self._tasks[0].add_done_callback(self._on_pump_end)
        if self._companion is not None:
            await self._companion.start(self)
        self._tell({"ready": True})
        log.info(
            "worker %s is up: queues %s, %d slots", self.id, ", ".join(self.options.queues), self.options.concurrency
        )

    def _make_runners(self) -> None:
        """Make what takes claims and runs them: the pump, the executor, and its children."""
        measures = self._companion.measures if self._companion else None
        self._children = Children(
            self.options.children or os.cpu_count() or 1, self._on_child_message, measures, self.app.watchers,
            self.options.child_max_jobs, self.options.child_max_memory, modules_of_process_tasks(self.app),
        )  # fmt: skip
        self._notes = NoteBuffer(self._store, asyncio.get_running_loop(), self._children.call)
        self.executor = Executor(
            self.app, self.options.concurrency, self._notes, self._children, Graphs(self._store), self._nudge
        )
        self.executor.log = JobLog(self.options.log_success)
        self._verdicts = Verdicts(self._store, self.executor.log)
        shares = Shares(self.options.queues, self.options.weights)
        self.pump = Pump(
            self._store, shares, self.executor, self._notes, self._on_gone, lanes_ahead=not has_limits(self.app)
        )
        if self.options.max_jobs:
            self.pump.limit_claims(self.options.max_jobs, self._check_limits)

    def _make_heartbeat(self) -> Heartbeat:
        settings = self.app.settings
        watched = Watched(
            self._presence, lambda: self.pump.acked, lambda: list(self.executor.held), self._on_beat, self._on_silence,
            self._on_outdated, self._verdicts.heed,
        )  # fmt: skip
        return Heartbeat(
            self.app.connections.new_store, watched, beat=settings.beat, lease=settings.lease,
            stall_warning=self.options.stall_warning, stall_limit=self.options.stall_limit,
        )  # fmt: skip

    async def stop(self, grace: float | None = None) -> None:
        """Let running jobs finish within the grace, hand the rest back at once, and sign off."""
        log.info("worker %s is stopping, %d jobs running", self.id, self.executor.active)
        self.pump.stopping = self._notes.stopping = True
        self._children.tell_of_stop()
        self._mode = Order.STOP
        if self.executor.held:
            self.pump.stop_asking()
            self._heartbeat.poke()  # so that other processes see it at once
        for maker in self._makers:
            maker.cancel()  # the jobs it would make now are for other workers
        self.executor.stop_gathering()
        self.executor.hand_back_waiting()
        self.pump.nudge()
        await self._settle_for(self.options.grace if grace is None else grace)
        if self.executor.held:
            log.warning("handing back %d jobs that are still running", len(self.executor.held))
            self.executor.hand_back_running()
            self.pump.nudge()
            await self._settle_for(SETTLE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._heartbeat.stop()
        if self._notifier is not None:
            await self._notifier.stop()
        if self._charts is not None:
            await self._charts.write()
        await self._notes.flush()
        # A job it holds may have broken this worker. That counts as a crash, or the job would break the next one too.
        await self._sign_off(self.id, crashed=self.exit_code == EXIT_BROKEN)
        await self._children.stop()
        if self._companion is not None:
            await self._companion.stop()
        for part in (self.pump, self.executor, self._notes):
            part.close()
        await self._run_hooks(self.app.declared.stop_hooks)

    async def _make_notifier(self) -> Notifier | None:
        """The notifier. Most apps declare no notifications, and their workers never import its code."""
        if not self.app.notices:
            return None
        from windlass.worker.notifier import Notifier

        notifier = Notifier(self.app, self._store)
        await notifier.begin()
        return notifier

    async def _settle_for(self, seconds: float) -> None:
        """Wait until no claim is held, at most for so many seconds."""
        await asyncio.wait(self._tasks[:1], timeout=seconds)

    def _on_pump_end(self, pump: asyncio.Task[None]) -> None:
        """Stop the worker: without its pump it only looks alive, and its lease would keep its jobs from other
        workers.
        """
        if not pump.cancelled() and (error := pump.exception()) is not None:
            log.critical("worker %s is broken and stops", self.id, exc_info=error)
            self.exit_code = EXIT_BROKEN
            self.stop_requested.set()

    async def _run_hooks(self, hooks: list[Any]) -> None:
        for hook in hooks:
            result = hook(self.executor.state)
            if result is not None:
                await result

    # -- identity

    async def _be_born(self) -> None:
        """Take a new id: at every process start, and again if the store gave the old id up."""
        id = f"{socket.gethostname()}-{os.getpid()}-{new_id()}"
        await declare_limits(self._store, self.app)  # first, so that no job starts under outdated limits
        await self._store.listen(id, self._on_mail)
        await self._obeying.listen(id)
        self.id = self._notes.worker = self._scheduler.worker = self.executor.worker = id
        self._tell({"worker": self.id})

    def _presence(self) -> Presence:
        return Presence(
            id=self.id, queues=list(self._queues), declares=self._declares, lease=self.app.settings.lease,
            host=socket.gethostname(), pid=os.getpid(), started_at=self._started_at,
            concurrency=self.options.concurrency, load=self._load(),
        )  # fmt: skip

    @property
    def lag(self) -> float:
        """How late the loop recently was, in seconds."""
        return self._heartbeat.lag

    def _load(self) -> dict[str, Any]:
        executor = self.executor
        return {
            "running": executor.active, "held": len(executor.held), "done": executor.completed,
            "mode": _MODES[self._mode], "repaired": self._heartbeat.repaired, "schedules": self._scheduler.digest,
            "version": __version__, "memory": resident_bytes(), "cpu": self._cpu.percent(),
            "lag": round(self.lag * 1000, 1),
        }  # fmt: skip

    # -- what the store says

    def _on_mail(self, items: list[Finished]) -> None:
        self.pump.answer()

    def _obey(self, given: Given) -> None:
        """Do what an operator orders. A worker that goes quiet hands back what it claimed ahead; what runs goes on."""
        log.warning("worker %s is told to %s%s", self.id, given.order, given.reason and f": {given.reason}")
        if given.order is Order.STOP:
            self._tell({"dismissed": True})
            self.stop_requested.set()
            return
        self._mode = given.order
        self.pump.quiet = given.order is Order.QUIET
        if self.pump.quiet:
            self.executor.stop_gathering()
            self.executor.hand_back_waiting()
            self.pump.stop_asking()
        else:
            self.pump.poke()
        self._heartbeat.poke()  # so that other processes see it at once

    def _serve(self, told: dict[str, bool]) -> None:
        """Serve more or fewer queues than those it was started with, as an operator orders; what runs goes on."""
        weights = dict(zip(self.options.queues, self.options.weights, strict=False))
        began = [queue for queue in self.options.queues if told.get(queue, True)]
        self._queues = tuple(dict.fromkeys([*began, *(queue for queue, on in told.items() if on)]))
        log.warning("worker %s is told to serve: %s", self.id, ", ".join(self._queues) or "no queue")
        # The store wakes this worker for new queues once a beat has named them; a beat already under way does not yet.
        self._beats_to_ask = 2
        self._heartbeat.poke()
        self.pump.serve(Shares(self._queues, [weights.get(queue, 1) for queue in self._queues if weights]))

    def _nudge(self) -> None:
        self.pump.nudge()

    def _on_beat(self, worker: str, reply: BeatReply) -> None:
        if worker != self.id:
            return
        if reply.gone:
            self._on_gone()
            return
        if self.pump.worker != self.id:
            self.pump.enroll(self.id)
        self.executor.drop([id for id in reply.lost if id in self.executor.held])
        for id in reply.cancels:
            self.executor.cancel(id)
        self._scheduler.heed(reply.schedules)
        if reply.ready or self._beats_to_ask:
            self._beats_to_ask = max(0, self._beats_to_ask - 1)
            self.pump.poke()
        else:
            self.pump.sleep_until(reply.next_due)

    def _on_silence(self) -> None:
        """Stop everything: the lease is about to end, and other workers may start the same jobs."""
        self.executor.drop()

    def _on_outdated(self) -> None:
        """Stop: a newer version has changed the store, which takes nothing from this process any more. A new process
        may serve it.
        """
        if not self.stop_requested.is_set():
            log.critical("worker %s is too old for its store and ends; start it with the newer version", self.id)
            self.exit_code = EXIT_REPLACE
            self.executor.drop()
            self.stop_requested.set()

    def _on_gone(self) -> None:
        """React to the loss of this worker's id. The pump, the heartbeat or both report it; only the first report
        counts.
        """
        if self._given_up == self.id:
            return
        self._given_up = self.id
        self.pump.retire()
        log.error(
            "the store gave worker %s up%s; dropping its jobs and returning under a new id", self.id, self._why_gone()
        )
        self.executor.forget()
        self._tasks.append(asyncio.get_running_loop().create_task(self._return_from(self.id)))

    def _why_gone(self) -> str:
        """What is known of the silence that cost this worker its lease though it did not die."""
        lease, silent = self.app.settings.lease / 1000, max(self._heartbeat.gap, self._heartbeat.silence)
        if silent < lease:
            return ""
        ran = ", ".join(f"{run.claim.task} {id}" for id, run in list(self.executor.held.items())[:5]) or "nothing"
        return (
            f" after {silent:.1f} s without a beat, longer than its lease of {lease:g} s: the store was out of reach, "
            f"this process stood still, or code of a job held the interpreter (it ran {ran})"
        )

    async def _return_from(self, old: str) -> None:
        # After a refused exchange the store still counts the old id as alive, so its jobs go back at no cost.
        await self._sign_off(old)
        while self.id == old:
            try:
                await self._be_born()
            except StoreError as error:
                log.warning("cannot return to the store, will go on trying: %s", error)
                await asyncio.sleep(RETURN_SECONDS)
        self._heartbeat.poke()

    async def _sign_off(self, id: str, crashed: bool = False) -> None:
        """Tell the store that this worker leaves. If that fails, its lease ends by itself."""
        try:
            await self._store.leave(id, crashed)
            await self._store.unlisten(id)
            await self._obeying.leave()
        except StoreError as error:
            log.warning("could not sign worker %s off: %s", id, error)

    def _on_child_message(self, id: str, kind: str, data: Any) -> None:
        run = self.executor.held.get(id)
        claim: Claim | None = run.claim if run else None
        if claim is not None and kind == "progress":
            self._notes.progress(claim, data)
        elif claim is not None and kind == "log":
            self._notes.log(claim, *data)

    # -- limits

    async def _watch_limits(self) -> None:
        """Once a second: report the load, and stop when this process should be replaced."""
        while True:
            await asyncio.sleep(1.0)
            executor = self.executor
            busy = executor.active >= executor.concurrency
            load = {"running": executor.active, "slots": executor.concurrency, "waiting": busy and self.pump.hungry}
            self._tell({"load": load})
            self._check_limits()

    def _check_limits(self) -> None:
        why = self._why_replace()
        if why and not self.stop_requested.is_set():
            log.warning("worker %s is to be replaced: %s", self.id, why)
            self.exit_code = EXIT_REPLACE
            self.stop_requested.set()

    def _why_replace(self) -> str:
        executor, options = self.executor, self.options
        if self.pump.spent:
            return f"it has run {executor.completed} jobs"
        used = resident_bytes() // 1_048_576 if options.max_memory else 0
        if used > options.max_memory:
            return f"it uses {used} MB"
        if executor.stuck and executor.stuck * 4 >= executor.concurrency:
            return f"{executor.stuck} of its {executor.concurrency} slots are taken by threads that timed out"
        return ""

    def _tell(self, message: dict[str, Any]) -> None:
        if self._report is not None:
            self._report(message)
