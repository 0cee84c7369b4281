"""The app: declared tasks and queues, and the way of every call to the store.

There is no global app. An app may be used from any number of event loops, threads and (after ``fork``) processes: each
loop gets a client of its own, made at its first call.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, ParamSpec, Self, TypeVar, Unpack, overload
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from windlass.calls.call import Draft, Given, Signature, by_name, new_id, set_tags, set_terms
from windlass.calls.client import Client, send_graph
from windlass.calls.context import current_or_none
from windlass.calls.handle import Handle
from windlass.calls.middleware import AroundEnqueue, AroundRun, Submit, around_enqueue
from windlass.calls.queue import Handler, Queue
from windlass.calls.sync import SyncApp
from windlass.calls.task import AsyncTask, BatchDecorator, SyncTask, Task, TaskDecorator
from windlass.calls.watch import Watcher
from windlass.core.duration import Duration
from windlass.core.event import Event
from windlass.core.ids import check_name
from windlass.core.job import Meta, State
from windlass.core.notice import KINDS, DeadLetter, Kind
from windlass.core.options import (
    QUEUE_NAMES,
    BatchOptions,
    CallOptions,
    QueueOptions,
    Resolved,
    TaskOptions,
    parse_options,
    resolve,
)
from windlass.core.schedule import Policies
from windlass.core.timing import Timing
from windlass.errors import ConfigError, WindlassError
from windlass.limits.breakers import Breaker, BreakerOptions
from windlass.limits.gates import LimitInfo, TaskGate, all_limits
from windlass.limits.locks import Lock, Wait
from windlass.limits.once import Once
from windlass.operate import orders
from windlass.operate.admin import (
    DeadLetters,
    Holder,
    JobPage,
    answer_to_handle,
    answers_to_handles,
    find_holder,
    jobs_page,
    parse_states,
    raise_refusal,
    stream_events,
)
from windlass.operate.notices import F, HandlerOptions, Notices, Target
from windlass.operate.schedules import ScheduleDecorator, Schedules
from windlass.settings import AppOptions, WorkerOptions, parse_settings
from windlass.store import make_store
from windlass.store.answers import Accept, Answer
from windlass.store.base import Direct, Store
from windlass.store.forks import lineage
from windlass.store.reads import QueueInfo, WorkerInfo
from windlass.support.portal import portal
from windlass.workflows.plan import Plan, make_plan
from windlass.workflows.work import Work
from windlass.workflows.workflow import Read, Workflow, WorkflowPage, workflows_page

P = ParamSpec("P")
R = TypeVar("R")
Hook = Callable[[SimpleNamespace], Awaitable[None] | None]

log = logging.getLogger("windlass")


class Windlass:
    """``Windlass("shop")`` keeps its jobs in ``./shop.windlass.db``; ``$WINDLASS_URL`` or ``url`` says otherwise."""

    def __init__(
        self, name: str, url: str | None = None, *, include: Sequence[str] = (), tz: str = "UTC",
        **options: Unpack[AppOptions],
    ) -> None:  # fmt: skip
        self.name = check_name("app", name)
        self.url = url or os.environ.get("WINDLASS_URL") or f"sqlite:///{name}.windlass.db"
        self.settings, self.defaults = parse_settings(options, f"app {name}")
        self.include = [include] if isinstance(include, str) else list(include)
        try:
            self.tz = ZoneInfo(tz)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ConfigError(f"app {name}: unknown time zone {tz!r}; give a name such as 'Europe/Berlin'") from error
        if self.url == "memory://":
            self.url = f"memory://{name}-{new_id()}"  # this app's own, shared by its loops and threads
        # Made here so that a wrong URL fails now and not at the first call.
        self._anchor = make_store(self.url, self.settings.for_store(name))
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.handlers: dict[str, Handler] = {}
        self.queue_layers: dict[str, dict[str, Any]] = {}
        self.run_layers: list[AroundRun] = []
        self.watchers: list[Watcher] = []
        self.start_hooks: list[Hook] = []
        self.stop_hooks: list[Hook] = []
        self.breakers: dict[str, Breaker] = {}
        # Breakers that hold no jobs back: when they are open, workers fail or drop what comes.
        self.loose_breakers: set[str] = set()
        self.lost_sends = 0
        self._sender_lineage = -1
        self.portal = portal
        self.sync = SyncApp(self)
        self.dead = DeadLetters(self)
        self.schedules = Schedules(self)
        self.notices = Notices(self)
        self._enqueue_layers: list[AroundEnqueue] = []
        self._submit: Submit = self._insert
        self._clients: dict[int, Client] = {}
        self._thread_client: Client | None = None
        self._resolved: dict[tuple[str, str], Resolved] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self.store_factory: Callable[[], Store] | None = None  # set by the test harness, and by nothing else

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
            return BatchDecorator(self, options) if "batch" in options else TaskDecorator(self, options)
        return self.add_task(fn, options)

    def add_task(self, fn: Callable[..., Any], options: Mapping[str, object]) -> Task[Any, Any]:
        if isinstance(fn, Task):
            raise ConfigError(f"{fn!r} is a task already")
        kind = AsyncTask if asyncio.iscoroutinefunction(fn) else SyncTask
        task: Task[Any, Any] = kind(self, fn, options)
        known = self.tasks.get(task.name)
        if known is not None and (known.fn.__module__, known.fn.__qualname__) != (fn.__module__, fn.__qualname__):
            raise ConfigError(
                f"two functions want the task name {task.name!r}: {known.fn!r} and {fn!r}; give one name="
            )
        self.tasks[task.name] = task
        self._resolved.clear()
        self.schedules.adopt(task)
        return task

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
            layer = parse_options(options, QUEUE_NAMES, f"queue {name}")
            self.queue_layers.setdefault(name, {}).update(layer)
            self._resolved.clear()
        return queue

    def breaker(self, name: str, **options: Unpack[BreakerOptions]) -> Breaker:
        """A circuit breaker, which tasks name by ``breaker=`` and code uses by ``async with``."""
        known = self.breakers.get(name) or self.breakers.setdefault(name, Breaker(self, name))
        if options:
            known.declare(options)
            (self.loose_breakers.discard if known.settings.when_open == "hold" else self.loose_breakers.add)(name)
            self._resolved.clear()
        return known

    def add_handler(self, queue: str, fn: Handler) -> None:
        if queue in self.handlers:
            raise ConfigError(f"queue {queue} has a handler already: {self.handlers[queue]!r}")
        self.handlers[queue] = fn

    def around_enqueue(self, layer: AroundEnqueue) -> AroundEnqueue:
        """Add middleware around enqueue: ``async def layer(drafts, call_next)``."""
        self._enqueue_layers.append(layer)
        self._submit = around_enqueue(self._enqueue_layers, self._insert)
        return layer

    def around_run(self, layer: AroundRun) -> AroundRun:
        """Add middleware around each run, on the worker's loop: ``async def layer(job, call_next)``."""
        self.run_layers.append(layer)
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
        self.start_hooks.append(hook)
        return hook

    def on_stop(self, hook: Hook) -> Hook:
        """Run when a worker has stopped."""
        self.stop_hooks.append(hook)
        return hook

    def load(self, extra: Iterable[str] = ()) -> None:
        """Import the modules that declare tasks."""
        for module in (*self.include, *extra):
            importlib.import_module(module)

    # -- calling

    async def enqueue_many(self, calls: Iterable[Signature[Any]]) -> list[Handle[Any]]:
        """Accept many calls: one round trip per thousand. One that is refused raises after all were sent."""
        return await self.submit([call.alone() for call in calls])

    def sig(
        self, task: str, args: Mapping[str, Any] | None = None, *, immutable: bool = False,
        **options: Unpack[CallOptions],
    ) -> Signature[Any]:  # fmt: skip
        """A call by name, for workflows; also of another service's task, whose arguments only its worker can check.

        In a workflow, the result of what comes before is its first argument, unless it is ``immutable``.
        """
        return by_name(self, task, args, options, immutable)

    async def submit_work(self, work: Work[R]) -> Workflow[R]:
        """Accept a workflow, all of it or nothing."""
        return await self.submit_plan(make_plan(self, work), work.reader())

    async def submit_plan(self, plan: Plan, read: Read) -> Workflow[Any]:
        """Enqueue middleware sees the calls of a workflow like those of any enqueue."""
        drafts = plan.drafts
        answers = await around_enqueue(self._enqueue_layers, partial(self._insert_graph, plan, drafts))(drafts)
        raise_refusal(plan.graph.id, answers)
        return Workflow(self, plan.graph.id, read)

    async def _insert_graph(self, plan: Plan, mine: list[Draft], drafts: list[Draft]) -> list[Answer]:
        check_same_calls(mine, drafts)
        client = self._open_client() or await self.client()
        answer = await send_graph(client.store, plan)
        return [Answer(answer.status, answer.reason)] * max(len(drafts), 1)

    async def show_plan(self, plan: Plan) -> None:
        """Let enqueue middleware see the calls of a workflow that a running job becomes; its worker will send them."""
        mine = plan.drafts

        async def accept(drafts: list[Draft]) -> list[Answer]:
            check_same_calls(mine, drafts)
            return [Answer(Accept.ACCEPTED)] * max(len(drafts), 1)

        raise_refusal(plan.graph.id, await around_enqueue(self._enqueue_layers, accept)(mine))

    async def submit(self, drafts: list[Draft]) -> list[Handle[Any]]:
        """The one way of a call to the store."""
        answers = await self._submit(drafts)
        return answers_to_handles(self, drafts, answers)

    async def submit_one(self, draft: Draft) -> Handle[Any]:
        """A single call, which needs no lists of one unless there is middleware."""
        if self._enqueue_layers:
            (handle,) = await self.submit([draft])
            return handle
        client = self._open_client() or await self.client()
        job = draft.to_job(client.source, client.plain_meta)
        answer = await client.sender.send_one(job)
        if answer.status is Accept.FULL and draft.resolved.full_wait:
            (answer,) = await client.sender.send_waiting([job], [draft.resolved.full_wait])
        return answer_to_handle(self, draft, answer)

    async def _insert(self, drafts: list[Draft]) -> list[Answer]:
        client = self._open_client() or await self.client()
        source, meta = client.source, client.plain_meta
        waits = [draft.resolved.full_wait for draft in drafts]
        return await client.sender.send_waiting([draft.to_job(source, meta) for draft in drafts], waits)

    def send(self, drafts: list[Draft]) -> None:
        """Hand drafts over without waiting for the store; failures are logged and counted."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            if self._sender_lineage != lineage.number:
                # Only the first call waits, for the connection: a script that ends now could not open it any more.
                self._sender_lineage = lineage.number
                with contextlib.suppress(WindlassError):  # the call below meets the same error and counts it
                    self.portal.call(self.client)
            self.portal.submit(lambda: self._send(drafts))
            return
        task = loop.create_task(self._send(drafts))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, drafts: list[Draft]) -> None:
        try:
            await self.submit(drafts)
        except Exception as error:
            self.lost_sends += len(drafts)
            log.error("lost %d fire-and-forget calls of %s: %r", len(drafts), drafts[0].task, error)

    def draft(
        self, task: Task[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any], options: Mapping[str, Any]
    ) -> Draft:
        payload = task.codec.encode(args, kwargs, self.settings.max_payload, stable="id" in options)
        return self._make_draft(task.name, task.version, payload, options, task, (args, kwargs, False))

    def make_draft(
        self, task: Task[Any, Any], payload: bytes, options: Mapping[str, Any], given: Given | None = None
    ) -> Draft:
        """A draft whose payload is encoded already. ``given``: the arguments it is of, where they are one call's."""
        return self._make_draft(task.name, task.version, payload, options, task, given)

    def draft_by_name(self, task: str, payload: bytes, options: Mapping[str, Any]) -> Draft:
        return self._make_draft(task, 1, payload, options, None)

    def _make_draft(
        self, name: str, version: int, payload: bytes, options: Mapping[str, Any], task: Task[Any, Any] | None,
        given: Given | None = None,
    ) -> Draft:  # fmt: skip
        running = current_or_none()
        correlation = running.correlation_id if running else ""
        if not options:
            queue = task.queue if task else "default"
            rules = self.resolve(name, queue)
            draft = Draft(
                id=new_id(), task=name, payload=payload, resolved=rules, version=version, correlation_id=correlation
            )
        else:
            queue = options.get("queue") or (task.queue if task else "default")
            if options.get("delay") and options.get("at"):
                raise ConfigError(f"task {name}: give delay or at, not both")
            rules = self.resolve(name, queue, options)
            draft = Draft(
                id=options.get("id") or new_id(), task=name, payload=payload, version=version, resolved=rules,
                delay=options.get("delay", 0), at=options.get("at", 0), headers=options.get("headers", {}),
                correlation_id=options.get("correlation_id", correlation), options=options,
            )  # fmt: skip
        if rules.flow is not None or rules.tags or rules.search:
            bind = partial(task.codec.bound, *given) if task is not None and given is not None else None
            set_tags(draft, bind)
            if rules.flow is not None:
                set_terms(draft, rules.flow, bind)
        return draft

    def resolve(self, task: str, queue: str, call: Mapping[str, Any] | None = None) -> Resolved:
        """What holds for a job of this task in this queue: call over task over queue over app."""
        if not call and (known := self._resolved.get((task, queue))):
            return known
        declared = self.tasks.get(task)
        layer = declared.layer if declared else {}
        rules = resolve(queue, call or {}, layer, self.queue_layers.get(queue, {}), self.defaults, task)
        if rules.flow is not None and rules.flow.breaker in self.loose_breakers:
            rules = msgspec.structs.replace(rules, flow=msgspec.structs.replace(rules.flow, breaker=""))
        if not call:
            self._resolved[(task, queue)] = rules
        return rules

    # -- for user code

    def lock(self, name: str, ttl: Duration = "30s", wait: Wait = None) -> Lock:
        """A lock over all processes: ``async with app.lock("invoice:42") as lock``, or ``with`` in plain code.

        It renews itself; a dead holder's ends after ``ttl``. ``wait``: so long for another holder, then ``Busy``.
        """
        return Lock(self, name, ttl, wait)

    def once(self, key: str, ttl: Duration = "24h", wait: Wait = True) -> Once:
        """``once`` for code outside of tasks, which has to say the key."""
        return Once(self, key, ttl, wait)

    # -- asking

    def job(self, id: str) -> Handle[Any]:
        """A handle for a job of any process; it need not exist."""
        return Handle(self, id)

    async def jobs(
        self, *, queue: str = "", state: State | str | Sequence[State | str] = (), task: str = "", limit: int = 100,
        after: str = "",
    ) -> JobPage:  # fmt: skip
        """A page of jobs, newest first; ``after=page.cursor`` gives the next."""
        client = await self.client()
        return await jobs_page(client.store, queue, state, task, limit, after)

    def workflow(self, id: str) -> Workflow[Any]:
        """A handle for a workflow of any process; it need not exist."""
        return Workflow(self, id)

    async def workflows(
        self, *, state: State | str | Sequence[State | str] = (), limit: int = 100, after: str = ""
    ) -> WorkflowPage:
        """A page of workflows, newest first; ``state="running"`` are those under way."""
        client = await self.client()
        return await workflows_page(client.store, parse_states(state), limit, after)

    def task_gate(self, name: str) -> TaskGate:
        """The gate of a task, also of another service's: pause, resume, tune, untune, info."""
        return TaskGate(self, name)

    async def limits(self) -> list[LimitInfo]:
        """Every gate there is, of queues, tasks and breakers, with what holds there now."""
        return await all_limits(self)

    async def holder(self, task: Task[Any, Any] | str, key: str | int | float | UUID) -> Holder | None:
        """Who has a unique key of a task, None where nobody has. ``key`` as ``unique=`` comes to for that call."""
        return await find_holder(self, task if isinstance(task, str) else task.name, key)

    async def queues(self) -> list[QueueInfo]:
        """Every queue with its jobs by state."""
        client = await self.client()
        return await client.store.queues()

    async def workers(self) -> list[WorkerInfo]:
        """Every worker that has not left."""
        client = await self.client()
        return await client.store.workers()

    async def order(self, order: Literal["quiet", "resume", "stop"], *workers: str, reason: str = "") -> list[str]:
        """Tell workers to claim no more jobs, to claim again, or to drain and end; answers their ids.

        Each is named by its id, the beginning of one, or HOST:PID. They obey within moments, and say so at a beat.
        """
        client = await self.client()
        return await orders.give(client.store, order, workers, reason)

    async def serve(self, queue: str, *workers: str) -> list[str]:
        """Tell workers to serve a queue beside their others, until they end; named as for ``order``."""
        client = await self.client()
        return await orders.serve(client.store, queue, workers)

    async def leave(self, queue: str, *workers: str) -> list[str]:
        """Tell workers to claim nothing more from a queue; what they run of it goes on."""
        client = await self.client()
        return await orders.serve(client.store, queue, workers, on=False)

    def events(
        self, *, queue: str = "", task: str = "", kinds: Sequence[str] = (), since: str = "", follow: bool = True
    ) -> AsyncIterator[Event]:
        """The event stream: live, or from a cursor on (``since="0"`` is the oldest kept)."""
        return stream_events(self, queue, task, kinds, since, follow)

    # -- connections

    @property
    def source(self) -> str:
        """This process, as the jobs it enqueues name it."""
        return f"{self.name}@{socket.gethostname()}:{os.getpid()}"

    @property
    def plain_meta(self) -> bytes:
        """The ready-made meta of calls with nothing special."""
        return Meta(self.source).encode()

    def _open_client(self) -> Client | None:
        client = self._clients.get(id(asyncio.get_running_loop()))
        return client if client is not None and client.opened and client.lineage == lineage.number else None

    async def client(self) -> Client:
        """This loop's client, opened. A client inherited over a fork is abandoned, not closed."""
        key = id(asyncio.get_running_loop())
        client = self._clients.get(key)
        if client is None or client.lineage != lineage.number or client.loop is not asyncio.get_running_loop():
            client = self._clients[key] = Client(self.new_store(), f"client-{new_id()}")
            client.source, client.plain_meta = self.source, self.plain_meta
        if not client.opened:
            await client.open()
            if self.portal.owns(client.loop) and isinstance(client.store, Direct):
                self._thread_client = client
        return client

    def client_for_threads(self) -> Client | None:
        """The portal's client, if threads may call its store directly: it is open, and there is no middleware."""
        client = self._thread_client
        if client is None or client.lineage != lineage.number or not client.opened or self._enqueue_layers:
            return None
        return client

    def new_store(self) -> Store:
        return self.store_factory() if self.store_factory else make_store(self.url, self.settings.for_store(self.name))

    async def __aenter__(self) -> Self:
        await self.client()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what is being sent on this loop and close its connection."""
        loop = asyncio.get_running_loop()
        sending = [task for task in self._sending if task.get_loop() is loop]
        await asyncio.gather(*sending, return_exceptions=True)
        for breaker in self.breakers.values():
            await breaker.settle()
        client = self._clients.pop(id(asyncio.get_running_loop()), None)
        if client is not None:
            await client.close()

    def worker(self, **options: Unpack[WorkerOptions]) -> AbstractAsyncContextManager[Any]:
        """A worker inside this program: ``async with app.worker(queues=["emails"]): ...``. Leaves signals alone."""
        from windlass.worker.running import embedded

        context: AbstractAsyncContextManager[Any] = embedded(self, options)
        return context

    def __repr__(self) -> str:
        return f"<app {self.name}>"


def check_same_calls(made: list[Draft], drafts: list[Draft]) -> None:
    if [draft.id for draft in drafts] != [draft.id for draft in made]:
        raise ConfigError("enqueue middleware may change the calls of a workflow, not leave out or add any")
