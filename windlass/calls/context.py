"""``current()``: the running job, alike in coroutines, threads and process children."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from windlass.core import safe
from windlass.core.codec import encode
from windlass.core.job import Claim, Meta, Progress, read_meta
from windlass.core.lifecycle import Adopting
from windlass.core.links import Inject
from windlass.errors import ConfigError, WindlassError
from windlass.handles.results import decode
from windlass.workflows.plan import Plan, make_plan
from windlass.workflows.work import Work, group
from windlass.workflows.workflow import Workflow

if TYPE_CHECKING:
    from windlass.app import Windlass

_var: ContextVar[Current | None] = ContextVar("windlass_current", default=None)


class Notes(Protocol):
    """A running job's worker, as the job reaches it: the worker's buffer, or a child's pipe to it."""

    @property
    def stopping(self) -> bool: ...

    def progress(self, claim: Claim, data: bytes) -> None: ...

    def log(self, claim: Claim, level: str, text: str) -> None: ...

    def in_process(self, claim: Claim, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any: ...


class HandOver(BaseException):
    """Ends a run whose job goes on as a workflow: it was replaced by one, or waits for one.

    Not an error, and not an ``Exception``: neither a task that catches those nor middleware that reports them is to
    take it for one.
    """

    def __init__(self, outcome: Adopting) -> None:
        super().__init__(f"the job goes on as workflow {outcome.graph.id}")
        self.outcome = outcome


class Current:
    """The running job, as its own code sees it."""

    __slots__ = ("_app", "_cancelled", "_meta", "_notes", "_once", "claim", "state")

    is_in_child = False
    """Whether this is a child process of the worker."""

    def __init__(self, claim: Claim, notes: Notes, state: SimpleNamespace, app: Windlass) -> None:
        self.claim = claim
        self.state = state
        self._app = app
        self._notes = notes
        self._meta: Meta | None = None
        self._cancelled = False

    @property
    def id(self) -> str:
        return self.claim.id

    @property
    def task(self) -> str:
        return self.claim.task

    @property
    def queue(self) -> str:
        return self.claim.queue

    @property
    def app(self) -> Windlass:
        """The app whose job this is."""
        return self._app

    @property
    def batch(self) -> list[str]:
        """In a batch task, the ids of the jobs whose arguments it got, in order; else empty."""
        return []

    @property
    def members(self) -> Sequence[Current]:
        """In a batch task, the jobs that run as one, each as a job of its own; else empty."""
        return ()

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self.claim.attempt + 1

    @property
    def crashes(self) -> int:
        return self.claim.crashes

    @property
    def snoozes(self) -> int:
        return self.claim.snoozes

    @property
    def fence(self) -> str:
        """Grows with every claim of this job: pass it to systems that can refuse a late write."""
        return f"{self.claim.run}.{self.claim.epoch}.{self.claim.seq}"

    @property
    def meta(self) -> Meta:
        if self._meta is None:
            self._meta = read_meta(self.claim.meta)
        return self._meta

    @property
    def headers(self) -> dict[str, str]:
        return self.meta.headers

    @property
    def correlation_id(self) -> str:
        return self.meta.correlation_id or self.claim.id

    @property
    def cancelled(self) -> bool:
        """True once a cancel was requested: finish up and return, or raise Cancel."""
        return self._cancelled

    @property
    def stopping(self) -> bool:
        """True once this worker was asked to stop: the job has the worker's grace to finish, then it is handed back."""
        return self._notes.stopping

    @property
    def has_done_once(self) -> bool:
        """Whether this run has used up the one ``once()`` without a key that a job may have."""
        return getattr(self, "_once", False)

    @has_done_once.setter
    def has_done_once(self, value: bool) -> None:
        self._once = value

    def ask_to_stop(self) -> None:
        """Called by the worker."""
        self._cancelled = True

    def progress(self, percent: float, message: str = "", **data: Any) -> None:
        """Report how far the job is; only the last report is kept. PayloadError where JSON cannot carry it."""
        report = Progress(float(percent), safe.text(message, safe.MAX_LINE), data)
        cap = self._app.settings.max_payload
        self._notes.progress(self.claim, encode(report, f"the progress of task {self.task}", cap))

    def log(self, text: object, level: str = "info") -> None:
        """Keep a line with the job."""
        self._notes.log(self.claim, safe.text(level, safe.MAX_LEVEL), safe.text(text, safe.MAX_LINE))

    def in_process(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Run a module-level function in a child process of this worker.

        In a coroutine, ``await`` the result; in a thread there is nothing to await, and this waits for it.
        """
        return self._notes.in_process(self.claim, fn, args)

    # -- workflows

    @property
    def workflow(self) -> Workflow[Any] | None:
        """The workflow this job belongs to, or None."""
        return Workflow(self._app.connections, self.claim.graph) if self.claim.graph else None

    @property
    def results(self) -> Any:
        """The value of the work this job waited for, or the list of what its flow needed first; None if neither.

        Plain JSON values, with a ``Failure`` in place of what failed. Decoded at each call.
        """
        if self.claim.awaits:
            return decode(self.claim.awaited)
        return decode(self.claim.given) if self.claim.inject is Inject.ASIDE else None

    def replace(self, work: Work[Any]) -> Any:
        """Let a workflow do this job: its value becomes the job's own, its failure too.

        Does not return. Write ``return await current().replace(work)`` in a coroutine, and the same without ``await``
        in a plain function.
        """
        return self._hand_over(work, replaced=True)

    def wait_for(self, *works: Work[Any]) -> Any:
        """Wait for a workflow without taking a slot meanwhile. Several works are a group.

        The run ends here. When the work is over the job runs again from its start, with ``results``; what is called
        then answers them at once. If the work fails, so does the job, without running again. Without ``await`` in a
        plain function, as ``replace``.
        """
        if self.claim.awaits:
            return _answer(self.results) if self._is_awaiting() else self.results
        if not works:
            raise ConfigError("wait_for() got nothing to wait for")
        return self._hand_over(works[0] if len(works) == 1 else group(*works), replaced=False)

    def _hand_over(self, work: Work[Any], *, replaced: bool) -> Any:
        plan = make_plan(self._app, work, parent=self.id, replaced=replaced)
        if self._is_awaiting():
            return self._leave(plan, replaced)
        self._app.submitting.show_here(plan)
        raise HandOver(Adopting(plan.graph, plan.nodes, replaced))

    async def _leave(self, plan: Plan, replaced: bool) -> None:
        await self._app.submitting.show(plan)
        raise HandOver(Adopting(plan.graph, plan.nodes, replaced))

    def _is_awaiting(self) -> bool:
        """Whether this is called by a coroutine, which can await the answer; a plain function may run on a loop too."""
        task = self._app.tasks.get(self.task)
        function = task.fn if task else self._app.handlers.get(self.queue)
        return asyncio._get_running_loop() is not None and asyncio.iscoroutinefunction(function)


async def _answer(value: Any) -> Any:
    return value


def current() -> Current:
    """The job this code runs for; an error outside of one."""
    running = _var.get()
    if running is None:
        raise WindlassError("current() was called outside of a running job")
    return running


def current_or_none() -> Current | None:
    return _var.get()


def set_current(running: Current | None) -> None:
    """Called by the runner, in the job's own context."""
    _var.set(running)


Tagger = Callable[[logging.LogRecord], bool]
"""Says more of a log record, and whether it is to be kept."""

taggers: list[Tagger] = []
"""What ``JobIdFilter`` asks besides, in every handler of this process; tracing is one."""


class JobIdFilter(logging.Filter):
    """Tags standard log records with the running job: ``job_id``, ``task``, ``queue`` and ``attempt``."""

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "job_id", ""):  # it is about a job, whichever runs here
            return True
        running = _var.get()
        record.job_id = running.id if running else ""
        record.task = running.task if running else ""
        record.queue = running.queue if running else ""
        record.attempt = running.attempt if running else 0
        return all(tag(record) for tag in taggers)


def module_level_name(fn: Callable[..., Any]) -> str:
    """``module:qualname`` of a function another process can import; an error for lambdas and closures."""
    module, name = getattr(fn, "__module__", ""), getattr(fn, "__qualname__", "")
    if not module or not name or "<" in name or module == "__main__":
        raise ConfigError(f"{fn!r} cannot run in another process: give a function defined at the top of a module")
    return f"{module}:{name}"
