"""The app: one name for its parts. What is declared, what is submitted and what is connected are modules of their own.

There is no global app. An app may be used from any number of event loops, threads and (after ``fork``) processes: each
loop gets a client of its own, made at its first call.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ParamSpec, Self, TypeVar, Unpack, overload
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from windlass.calls.declared import Declared, Hook
from windlass.calls.middleware import AroundEnqueue, AroundRun
from windlass.calls.queue import Queue
from windlass.calls.submitting import Submitting
from windlass.calls.task import AsyncTask, BatchDecorator, SyncTask, Task, TaskDecorator
from windlass.connections.client import Client
from windlass.connections.connections import Connections
from windlass.core.duration import Duration
from windlass.core.ids import check_name
from windlass.core.notice import KINDS, DeadLetter, Kind
from windlass.core.options import BatchOptions, CallOptions, QueueOptions, TaskOptions
from windlass.core.schedule import Policies
from windlass.core.timing import Timing
from windlass.errors import ConfigError
from windlass.handles.handle import Handle
from windlass.limits.breakers import Breaker, BreakerOptions, Breakers
from windlass.limits.locks import Lock, Wait
from windlass.limits.once import Once
from windlass.operate.admin import DeadLetters
from windlass.operate.asking import Asking
from windlass.operate.notices import F, HandlerOptions, Notices, Target
from windlass.operate.schedules import ScheduleDecorator, Schedules
from windlass.operate.sync import SyncApp
from windlass.settings import AppOptions, WorkerOptions, parse_settings
from windlass.workflows.signature import Signature, by_name

P = ParamSpec("P")
R = TypeVar("R")


class Windlass(Asking):
    """``Windlass("shop")`` keeps its jobs in ``./shop.windlass.db``; ``$WINDLASS_URL`` or ``url`` says otherwise."""

    def __init__(
        self, name: str, url: str | None = None, *, include: Sequence[str] = (), tz: str = "UTC",
        **options: Unpack[AppOptions],
    ) -> None:  # fmt: skip
        self.name = check_name("app", name)
        self.settings, defaults = parse_settings(options, f"app {name}")
        self.include = [include] if isinstance(include, str) else list(include)
        self.tz = _zone(tz, name)
        url = url or os.environ.get("WINDLASS_URL") or f"sqlite:///{name}.windlass.db"
        self.connections = Connections(name, url, self.settings)
        self.declared = Declared(self, defaults)
        self.submitting = Submitting(self, self.connections, self.declared)
        self.breakers = Breakers(self.connections, self.declared)
        self.schedules = Schedules(self, self.declared, self.tz.key)
        self.notices = Notices(self, self.declared)
        self.dead = DeadLetters(self.connections, self.declared)
        self.sync = SyncApp(self, self.close)
        self.url, self.portal = self.connections.url, self.connections.portal
        self.tasks, self.handlers = self.declared.tasks, self.declared.handlers
        self.watchers = self.declared.watchers

    # -- declaring

    @overload
    def task(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, fn: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(self, fn: None = None, /, **options: Unpack[TaskOptions]) -> TaskDecorator: ...
    @overload
    def task(self, fn: None = None, /, **options: Unpack[BatchOptions]) -> BatchDecorator: ...
    def task(self, fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Declare a task: ``@app.task`` or ``@app.task(queue=..., retries=..., ...)``."""
        if fn is None:
            decorator = BatchDecorator if "batch" in options else TaskDecorator
            return decorator(self.declared.add_task, options)
        return self.declared.add_task(fn, options)

    def schedule(
        self, timing: Timing, *, name: str = "", args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[Policies],
    ) -> ScheduleDecorator:  # fmt: skip
        """Run a task by the clock: ``@app.schedule(every("day at 03:00"))`` above or below ``@app.task``.

        ``name``: the task's unless given. ``args``, ``kwargs``: what the task is called with.
        """
        return ScheduleDecorator(self.schedules, timing, name, args, kwargs or {}, options)

    def queue(self, name: str, **options: Unpack[QueueOptions]) -> Queue:
        """A queue; options given here are the defaults of its jobs, on this side and on the workers."""
        queue = Queue(self, name)
        if options:
            self.declared.set_defaults(name, options)
        return queue

    def breaker(self, name: str, **options: Unpack[BreakerOptions]) -> Breaker:
        """A circuit breaker, which tasks name by ``breaker=`` and code uses by ``async with``."""
        return self.breakers.get(name, options)

    def around_enqueue(self, layer: AroundEnqueue) -> AroundEnqueue:
        """Add middleware around enqueue: ``async def layer(drafts, call_next)``."""
        self.declared.enqueue_layers.append(layer)
        return layer

    def around_run(self, layer: AroundRun) -> AroundRun:
        """Add middleware around each run, on the worker's loop: ``async def layer(job, call_next)``."""
        self.declared.run_layers.append(layer)
        return layer

    def on_dead(
        self, *, queue: str = "*", task: str = "*", **options: Unpack[HandlerOptions]
    ) -> Callable[[F], Task[[DeadLetter], Any]]:
        """Let a function have each dead letter, as a job with its own retries: ``@app.on_dead(queue="payments*")``.

        ``queue``, ``task``: whose, with ``*`` for any. The other options are those of the task that is made of it.
        """
        return self.notices.on_dead(queue, task, options)

    def notify(
        self, target: Target, *, on: Sequence[Kind] = KINDS, queue: str = "*", every: Duration = "5m", burst: int = 1,
        stuck_after: Duration = "5m",
    ) -> None:  # fmt: skip
        """Tell a function, a ``Webhook`` or an ``Email`` of dead letters, stuck queues and schedules that fail.

        At most ``burst`` at once and one per ``every`` after that, over all workers; what is held back is counted and
        told with the next.
        """
        self.notices.notify(target, on, queue, every, burst, stuck_after)

    def on_start(self, hook: Hook) -> Hook:
        """Run when a worker starts; what it puts on the given namespace is ``current().state`` in tasks."""
        self.declared.start_hooks.append(hook)
        return hook

    def on_stop(self, hook: Hook) -> Hook:
        """Run when a worker has stopped."""
        self.declared.stop_hooks.append(hook)
        return hook

    def load(self, extra: Iterable[str] = ()) -> None:
        """Import the modules that declare tasks."""
        for module in (*self.include, *extra):
            importlib.import_module(module)

    # -- calling

    async def enqueue_many(self, calls: Iterable[Signature[Any]]) -> list[Handle[Any]]:
        """Accept many calls: one round trip per thousand. One that is refused raises after all were sent."""
        return await self.submitting.submit([self.submitting.draft(call.alone()) for call in calls])

    def sig(
        self, task: str, args: Mapping[str, Any] | None = None, *, immutable: bool = False,
        **options: Unpack[CallOptions],
    ) -> Signature[Any]:  # fmt: skip
        """A call by name, for workflows; also of another service's task, whose arguments only its worker can check.

        In a workflow, the result of what comes before is its first argument, unless it is ``immutable``.
        """
        return by_name(self, task, args, options, immutable)

    @property
    def lost_sends(self) -> int:
        """How many fire-and-forget calls (``task.send``) did not arrive."""
        return self.submitting.lost

    # -- for user code

    def lock(self, name: str, ttl: Duration = "30s", wait: Wait = None) -> Lock:
        """A lock over all processes: ``async with app.lock("invoice:42") as lock``, or ``with`` in plain code.

        It renews itself; a dead holder's ends after ``ttl``. ``wait``: so long for another holder, then ``Busy``.
        """
        return Lock(self.connections, name, ttl, wait)

    def once(self, key: str, ttl: Duration = "24h", wait: Wait = True) -> Once:
        """``once`` for code outside of tasks, which has to say the key."""
        return Once(self.connections, key, ttl, wait)

    # -- connections

    @property
    def source(self) -> str:
        """This process, as the jobs it enqueues name it."""
        return self.connections.source

    async def client(self) -> Client:
        """This loop's client, opened."""
        return await self.connections.client()

    async def __aenter__(self) -> Self:
        await self.client()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what is being sent on this loop and close its connection."""
        await self.submitting.finish()
        await self.breakers.settle()
        await self.connections.close()

    def worker(self, **options: Unpack[WorkerOptions]) -> AbstractAsyncContextManager[Any]:
        """A worker inside this program: ``async with app.worker(queues=["emails"]): ...``. Leaves signals alone."""
        from windlass.worker.running import embedded

        context: AbstractAsyncContextManager[Any] = embedded(self, options)
        return context

    def __repr__(self) -> str:
        return f"<app {self.name}>"


def _zone(tz: str, name: str) -> ZoneInfo:
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ConfigError(f"app {name}: unknown time zone {tz!r}; give a name such as 'Europe/Berlin'") from error
