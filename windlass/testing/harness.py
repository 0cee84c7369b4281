"""The harness: an app on a memory store under a virtual clock, for users' tests. No server, no waiting, no leftovers.

    async with Harness(app) as h:
        await send_email.enqueue("a@b.c")
        h.assert_enqueued(send_email, to="a@b.c")
        await h.drain()                  # runs what is due now, and what that enqueues
        await h.advance("10m")           # moves the clock, and runs what becomes due on the way
        h.assert_dead_lettered(send_email, error="ValueError")

Sync tests write ``with Harness(app) as h`` and call ``h.drain_sync()`` and ``h.advance_sync("10m")``.

Jobs run one after the other in the store's order, those of workflows too, each by the worker's own executor and runner.
Plain functions run in a thread as on a worker, or with ``inline=True`` in the thread that drains, where they see its
database transaction; ``runs_in="process"`` tasks run like plain functions and are not killable. Each drain is a
worker's short life: start hooks run before it, stop hooks after. Schedules fire when the clock is moved over their
slots. Timeouts count real time; only the store's clock is virtual. Finished jobs are kept however far the clock is
moved, unless their task, queue or call says ``keep=``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from windlass.connections.client import Client
from windlass.core.codec import decode_any
from windlass.core.duration import Duration, to_ms
from windlass.core.graph import NewGraph
from windlass.core.job import NewJob, State
from windlass.core.keep import Keep
from windlass.errors import ConfigError, StoreUnavailable
from windlass.handles.handle import JobInfo, job_info
from windlass.store.answers import Accept, Answer, GraphAnswer
from windlass.store.items import Commit, Committed
from windlass.store.jobs import WatchReply
from windlass.store.memory import MemoryStore
from windlass.testing import asserts
from windlass.testing.clock import VirtualClock
from windlass.testing.failing import FailingStore, Faults
from windlass.testing.shift import FOREVER, Shift

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.calls.task import Task

WithErrors = Literal["keep", "raise"]
_closing: set[asyncio.Task[None]] = set()


class Drained(msgspec.Struct, frozen=True):
    """What a drain did: how many attempts ran, and what became of them."""

    ran: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    cancelled: int = 0


class Harness:
    """``faults`` takes orders to fail; ``store`` is the memory store itself, which never fails; ``clock`` moves."""

    def __init__(self, app: Windlass, *, clock: VirtualClock | None = None, inline: bool = False) -> None:
        self.app, self.clock, self.inline = app, clock or VirtualClock(), inline
        self.faults = Faults()
        self.enqueued: list[asserts.Enqueued] = []
        self._shift: Shift | None = None
        self._shifts = 0
        self._awaited: set[str] = set()
        self._runner: asyncio.Runner | None = None
        self._clients: dict[int, Client] = {}

    # -- life

    def __enter__(self) -> Self:
        if self.app.connections.store_factory is not None:
            raise ConfigError(f"{self.app!r} is in a harness already")
        self.store = Recorder(f"memory://harness-{id(self)}", self)
        self._clients, self.app.connections.clients = self.app.connections.clients, {}
        self.app.connections.store_factory = self._new_store
        return self

    def __exit__(self, *exc: object) -> None:
        opened = self._leave()
        for client in opened:
            close_from_outside(client)
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *exc: object) -> None:
        loop = asyncio.get_running_loop()
        for client in self._leave():
            if client.loop is loop:
                await client.close()
            elif client.loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(client.close(), client.loop))

    def _leave(self) -> list[Client]:
        """Restore the app as it was before. Answers the clients it opened meanwhile."""
        opened = list(self.app.connections.clients.values())
        self.app.connections.clients, self.app.connections.store_factory = self._clients, None
        self.faults.clear()
        return opened

    def _new_store(self) -> FailingStore:
        return FailingStore(Recorder(self.store.url, self), self.faults)

    # -- running

    async def drain(self, *, with_errors: WithErrors = "keep", limit: int = 10_000) -> Drained:
        """Run everything that is due now, and what that enqueues.

        ``with_errors="raise"``: the first exception a task raises (but for Retry, Snooze, Reject and Cancel) comes out
        here, after its job was settled as usual. ``limit`` attempts are taken for an endless loop.
        """
        async with self._working(with_errors, limit) as shift:
            await shift.work_off()
        return summary(shift)

    async def advance(self, by: Duration, *, with_errors: WithErrors = "keep", limit: int = 10_000) -> Drained:
        """Let time pass: from one due time to the next, each with a sweep and a drain."""
        target = self.clock.ms + to_ms(by, "advance")
        async with self._working(with_errors, limit) as shift:
            await shift.work_off()
            while self.clock.ms < target:
                step = await shift.next_step()
                self.clock.ms = target if step < 0 else min(target, self.clock.ms + max(1, step))
                await shift.work_off()
        return summary(shift)

    def drain_sync(self, *, with_errors: WithErrors = "keep", limit: int = 10_000) -> Drained:
        """``drain`` for sync tests."""
        return self._loop_runner().run(self.drain(with_errors=with_errors, limit=limit))

    def advance_sync(self, by: Duration, *, with_errors: WithErrors = "keep", limit: int = 10_000) -> Drained:
        """``advance`` for sync tests."""
        return self._loop_runner().run(self.advance(by, with_errors=with_errors, limit=limit))

    def _loop_runner(self) -> asyncio.Runner:
        """A loop in the caller's thread, so that ``inline`` jobs run where the test does."""
        if asyncio._get_running_loop() is not None:
            raise ConfigError("drain_sync() and advance_sync() are for sync tests; await drain() or advance() here")
        self._runner = self._runner or asyncio.Runner()
        return self._runner

    @asynccontextmanager
    async def _working(self, with_errors: str, limit: int) -> AsyncIterator[Shift]:
        if with_errors not in ("keep", "raise"):
            raise ConfigError(f"with_errors is {with_errors!r}; give 'keep' or 'raise'")
        if self._shift is not None:
            raise ConfigError("this harness is draining already; a job cannot drain it")
        self._shifts += 1
        self._shift = shift = Shift(
            self.app, self._new_store(), f"harness-{self._shifts}", awaited=self._still_awaited, inline=self.inline,
            raise_errors=with_errors == "raise", limit=limit, clock=self.clock,
        )  # fmt: skip
        try:
            await shift.start()
            yield shift
        finally:
            self._shift = None
            await shift.stop()

    def wait_for(self, ids: Sequence[str]) -> None:
        """A caller waits for these results: let the worker run more than one job, as one of them may be the job that
        waits.
        """
        self._awaited.update(ids)
        if self._shift is not None:
            self._shift.nudge()

    def _still_awaited(self) -> int:
        with self.store.hub.lock:
            rows = [self.store.hub.known(id) for id in self._awaited]
        self._awaited = {row.id for row in rows if row is not None and not row.state.terminal}
        return len(self._awaited)

    # -- failing

    def fail_next(self, operation: str, error: Exception | None = None, times: int = 1) -> None:
        """The next calls of a store operation fail, nothing applied; StoreUnavailable unless told otherwise.

        Windlass sends an insert without an answer once more, and an exchange again and again: ``times=2`` makes an
        ``enqueue`` fail that way, and other errors do so at once.
        """
        self.faults.fail(operation, error or StoreUnavailable(f"the harness failed this {operation}"), times)

    def lose_reply(self, operation: str, error: Exception | None = None, times: int = 1) -> None:
        """The next calls of a store operation are applied, and the caller hears StoreUnavailable."""
        self.faults.lose_reply(operation, error, times)

    # -- looking

    def now(self) -> datetime:
        """The virtual time."""
        return self.clock.now()

    def jobs(self, task: Task[Any, Any] | str | None = None, state: State | str | None = None) -> list[JobInfo]:
        """The jobs in the store, oldest first."""
        with self.store.hub.lock:
            rows = [row.job() for row in self.store.hub.jobs.values()]
        name = asserts.name_of(task) if task is not None else None
        found = [row for row in rows if name in (None, row.task) and state in (None, row.state)]
        return [job_info(row, self._decoder(row.task)) for row in found]

    def _decoder(self, task: str) -> Callable[[bytes | None], Any]:
        declared = self.app.tasks.get(task)
        return declared.codec.decode_result if declared else decode_any

    def clear_enqueued(self) -> None:
        """Let ``assert_enqueued`` forget what was enqueued so far. The jobs stay."""
        self.enqueued.clear()

    def assert_enqueued(
        self, task: Task[Any, Any] | str, /, *, queue: str | None = None, count: int | None = None,
        delay: Duration | None = None, args: Mapping[str, Any] | None = None, **given: Any,
    ) -> list[asserts.Enqueued]:  # fmt: skip
        """See ``windlass.testing.assert_enqueued``."""
        return asserts.assert_enqueued(self, task, queue=queue, count=count, delay=delay, args=args, **given)

    def assert_not_enqueued(
        self, task: Task[Any, Any] | str, /, *, queue: str | None = None, delay: Duration | None = None,
        args: Mapping[str, Any] | None = None, **given: Any,
    ) -> None:  # fmt: skip
        """See ``windlass.testing.assert_not_enqueued``."""
        asserts.assert_not_enqueued(self, task, queue=queue, delay=delay, args=args, **given)

    def assert_succeeded(
        self, task: Task[Any, Any] | str, /, *, count: int | None = None, result: Any = asserts.ANYTHING
    ) -> list[JobInfo]:
        """See ``windlass.testing.assert_succeeded``."""
        return asserts.assert_succeeded(self, task, count=count, result=result)

    def assert_dead_lettered(
        self, task: Task[Any, Any] | str, /, *, count: int | None = None,
        error: str | type[BaseException] | None = None, match: str | None = None, reason: str | None = None,
    ) -> list[JobInfo]:  # fmt: skip
        """See ``windlass.testing.assert_dead_lettered``."""
        return asserts.assert_dead_lettered(self, task, count=count, error=error, match=match, reason=reason)

    def assert_cancelled(
        self, task: Task[Any, Any] | str, /, *, count: int | None = None, reason: str | None = None
    ) -> list[JobInfo]:
        """See ``windlass.testing.assert_cancelled``."""
        return asserts.assert_cancelled(self, task, count=count, reason=reason)


def summary(shift: Shift) -> Drained:
    events = {name: shift.events[name] for name in Drained.__struct_fields__ if name != "ran"}
    return Drained(ran=sum(shift.events.values()), **events)


def close_from_outside(client: Client) -> None:
    """Close a client from sync code, on its own loop, whatever that loop is doing."""
    loop, here = client.loop, asyncio._get_running_loop()
    if loop.is_closed():
        return
    if loop is here:
        task = loop.create_task(client.close())
        _closing.add(task)
        task.add_done_callback(_closing.discard)
    elif loop.is_running():
        asyncio.run_coroutine_threadsafe(client.close(), loop).result()
    elif here is None:
        loop.run_until_complete(client.close())


class Recorder(MemoryStore):
    """The memory store of a harness: it remembers accepted jobs, and reports when a result is waited for."""

    def __init__(self, url: str, harness: Harness) -> None:
        plain = harness.app.settings.for_store(harness.app.name)
        # Audits look for damage that cannot happen here, and the clock would stop for each.
        settings = msgspec.structs.replace(plain, keep=Keep(), audit_every=FOREVER)
        super().__init__(url, settings, harness.clock)
        self._harness = harness

    async def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        answers = await super().insert(jobs)
        self._record(job for job, answer in zip(jobs, answers, strict=True) if answer.status is Accept.ACCEPTED)
        return answers

    async def insert_graph(self, graph: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> GraphAnswer:
        answer = await super().insert_graph(graph, first, nodes, commit)
        if answer.status is Accept.ACCEPTED:
            self._record(node for node in nodes if node.task)
        return answer

    async def commit(self, commits: Sequence[Commit]) -> list[Committed]:
        done = await super().commit(commits)
        for step, one in zip(commits, done, strict=True):
            if one.done:
                came = zip(step.jobs, one.answers, strict=True)
                self._record(job for job, answer in came if answer.status is Accept.ACCEPTED)
                self._record(node for node in step.nodes if node.task)
        return done

    def _record(self, jobs: Iterable[NewJob]) -> None:
        now = self.hub.clock.last
        self._harness.enqueued.extend(asserts.Enqueued(self._harness.app, job, now) for job in jobs)

    async def watch(self, client: str, ids: Sequence[str]) -> WatchReply:
        reply = await super().watch(client, ids)
        over = {item.id for item in reply.finished}.union(reply.missing)
        self._harness.wait_for([id for id in ids if id not in over])
        return reply
