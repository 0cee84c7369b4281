"""Tasks: declared functions, typed from declaration to result."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from windlass.core.batch import one_of, the_list
from windlass.core.codec import Codec
from windlass.core.duration import Duration
from windlass.core.flow_rules import check_rules
from windlass.core.options import CALL_NAMES, TASK_NAMES, CallOptions, parse_options
from windlass.errors import ConfigError
from windlass.handles.gates import TaskGate, TaskTuning
from windlass.handles.handle import Handle, SyncHandle
from windlass.workflows.signature import Signature
from windlass.workflows.work import App, Group

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Caller(Generic[P, R]):
    """The ways to call a task, with options or without."""

    _app: App
    _task: Task[P, R]
    _options: Mapping[str, Any]

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Accept the call: when this returns, the job is in the store."""
        submitting, task = self._app.submitting, self._task
        draft = submitting.draft(Signature(self._app, task.name, args, kwargs, self._options, task=task))
        (handle,) = await submitting.submit([draft])
        return handle

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> SyncHandle[R]:
        """The same for sync code, from any thread."""
        submitting, task = self._app.submitting, self._task
        draft = submitting.draft(Signature(self._app, task.name, args, kwargs, self._options, task=task))
        (handle,) = submitting.submit_here([draft])
        return handle

    def send(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Fire and forget: does not wait for the store. What is lost so is counted in ``app.lost_sends``."""
        submitting, task = self._app.submitting, self._task
        draft = submitting.draft(Signature(self._app, task.name, args, kwargs, self._options, task=task))
        submitting.send([draft])

    def s(self, *args: Any, **kwargs: Any) -> Signature[R]:
        """The call as a value. In a workflow, the result of what comes before is put in front of its arguments."""
        return Signature(self._app, self._task.name, args, kwargs, self._options, task=self._task)

    def si(self, *args: P.args, **kwargs: P.kwargs) -> Signature[R]:
        """The call as a value, with all its arguments: it takes nothing from what comes before."""
        return Signature(self._app, self._task.name, args, kwargs, self._options, task=self._task, immutable=True)

    def map(self, items: Iterable[Any]) -> Signature[list[R]]:
        """One job that calls the task for each item in turn. Its result is the list of theirs."""
        return self._each("map", ((item,) for item in items))

    def starmap(self, items: Iterable[Iterable[Any]]) -> Signature[list[R]]:
        """The same, with each item the arguments of one call."""
        return self._each("starmap", map(tuple, items))

    def chunks(self, items: Iterable[Iterable[Any]], n: int) -> Group[list[R]]:
        """A group of ``starmap`` jobs of ``n`` items each. Its result is a list of lists."""
        if type(n) is not int or n < 1:
            raise ConfigError(f"chunks(..., {n!r}): give a whole number of 1 or more")
        calls = list(items)
        return Group(self.starmap(calls[start : start + n]) for start in range(0, len(calls), n))

    def _each(self, how: str, calls: Iterable[tuple[Any, ...]]) -> Signature[list[R]]:
        """One job for many calls. It takes nothing from what comes before: its items are its arguments."""
        task = self._task
        if task.batch:
            raise ConfigError(f"task {task.name} takes batches: call it for each item, and workers gather the calls")
        return Signature(self._app, task.name, tuple(calls), {}, self._options, task=task, immutable=True, each=how)


class Task(Caller[P, R]):
    """A declared function. Calling it runs it here and now; ``enqueue`` and ``delay`` run it on a worker."""

    def __init__(self, app: App, fn: Callable[P, Any], options: Mapping[str, object]) -> None:
        where = f"task {getattr(fn, '__qualname__', fn)!s}"
        if inspect.isclass(fn) or inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
            raise ConfigError(f"{where}: only plain and async functions can be tasks, not {fn!r}")
        self._app, self._task, self._options, self.fn = app, self, {}, fn
        self.layer = parse_options(options, TASK_NAMES, where)
        self.name: str = self.layer.pop("name", None) or task_name(fn)
        self.is_async = inspect.iscoroutinefunction(fn)
        self.runs_in: str = self.layer.pop("runs_in", "loop" if self.is_async else "thread")
        self.version: int = self.layer.pop("version", 1)
        self.upcast: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = self.layer.pop("upcast", {})
        self.queue: str = self.layer.pop("queue", "default")
        self.batch: int = self.layer.get("batch", 0)
        self.batch_wait: int = self.layer.pop("batch_wait", 1_000)
        self._check(where)
        check_rules(self.layer, inspect.signature(fn), where)
        self.__name__, self.__doc__, self.__wrapped__ = fn.__name__, fn.__doc__, fn
        # Built now so that a type JSON cannot carry fails at the declaration; an annotation that names something
        # defined further down is looked at again at the first call.
        with contextlib.suppress(NameError):
            _ = self.codec

    def _check(self, where: str) -> None:
        if (self.is_async and self.runs_in == "thread") or (not self.is_async and self.runs_in == "loop"):
            kind = "an async function runs on the loop" if self.is_async else "a plain function would block the loop"
            raise ConfigError(f"{where}: runs_in={self.runs_in!r}, but {kind}")
        if self.batch:
            the_list(self.fn, where)
            if self.runs_in == "process":
                raise ConfigError(f"{where}: a batch runs on the loop or in a thread; take runs_in or batch away")
        missing = [old for old in range(min(self.upcast, default=1), self.version) if old not in self.upcast]
        beyond = [old for old in self.upcast if old >= self.version]
        if (self.upcast and missing) or beyond:
            raise ConfigError(
                f"{where}: version={self.version} needs upcast functions for an unbroken run of older versions; got "
                f"{sorted(self.upcast)}"
            )

    @cached_property
    def codec(self) -> Codec:
        return Codec(one_of(self.fn, f"task {self.name}") if self.batch else self.fn, self.name)

    def of_one(self, *args: Any, **kwargs: Any) -> Any:
        """Call a batch task for one."""
        fn = cast(Callable[[list[Any]], Any], self.fn)
        return fn([self.codec.signature.bind(*args, **kwargs).args[0]])

    @property
    def versions(self) -> tuple[int, ...]:
        """The payload versions this code can read."""
        return (*sorted(self.upcast), self.version)

    def options(self, **options: Unpack[CallOptions]) -> Call[P, R]:
        """The same task with options for one call: ``task.options(delay="10m", id="welcome:42").enqueue(...)``."""
        return Call(self, parse_options(options, CALL_NAMES, f"task {self.name}"))

    @property
    def _gate(self) -> TaskGate:
        return TaskGate(self._app.connections, self.name)

    async def pause(self) -> None:
        """Start no more of its jobs, on no worker and in no queue. Those that run go on."""
        await self._gate.pause()

    async def resume(self) -> None:
        """Take a pause back."""
        await self._gate.resume()

    async def tune(self, **limits: Unpack[TaskTuning]) -> None:
        """Say other limits than the code does, for all workers and at once; None is no limit."""
        await self._gate.tune(**limits)

    async def untune(self) -> None:
        """Let what the code says hold again. A pause stays."""
        await self._gate.untune()

    def apply_async(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        countdown: Duration | None = None,
        eta: datetime | None = None,
        expires: Duration | datetime | None = None,
        queue: str | None = None,
        priority: int | None = None,
        task_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        correlation_id: str | None = None,
    ) -> SyncHandle[R]:
        """Celery's way to write ``options(...).delay(...)``."""
        given = {
            "delay": countdown, "at": eta, "expires": expires, "queue": queue, "priority": priority, "id": task_id,
            "headers": headers, "correlation_id": correlation_id,
        }  # fmt: skip
        chosen = {name: value for name, value in given.items() if value is not None}
        options = parse_options(chosen, CALL_NAMES, f"task {self.name}")
        call: Signature[R] = Signature(self._app, self.name, tuple(args), dict(kwargs or {}), options, task=self)
        (handle,) = self._app.submitting.submit_here([self._app.submitting.draft(call)])
        return handle

    def __repr__(self) -> str:
        return f"<task {self.name}>"


class AsyncTask(Task[P, R]):
    """A task made of an ``async def``."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        if self.batch:
            return self._alone(*args, **kwargs)
        result: Coroutine[Any, Any, R] = self.fn(*args, **kwargs)
        return result

    async def _alone(self, *args: Any, **kwargs: Any) -> Any:
        return the_only(await self.of_one(*args, **kwargs))


class SyncTask(Task[P, R]):
    """A task made of a plain ``def``."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.batch:
            alone: R = the_only(self.of_one(*args, **kwargs))
            return alone
        result: R = self.fn(*args, **kwargs)
        return result


def the_only(results: Any) -> Any:
    """What a batch of one came to."""
    if results is None:
        return None
    (result,) = results
    if isinstance(result, Exception):
        raise result
    return result


class Call(Caller[P, R]):
    """A task together with options for one call."""

    def __init__(self, task: Task[P, R], options: Mapping[str, Any]) -> None:
        self._app, self._task, self._options = task._app, task, options
        if options.get("delay") and options.get("at"):
            raise ConfigError(f"task {task.name}: give delay or at, not both")


Declare = Callable[[Callable[..., Any], Mapping[str, object]], Task[Any, Any]]


class TaskDecorator:
    """``@app.task(...)`` with its options, waiting for the function."""

    def __init__(self, declare: Declare, options: Mapping[str, object]) -> None:
        self._declare, self._options = declare, options

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncTask[P, R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Any:
        return self._declare(fn, self._options)


class BatchDecorator:
    """``@app.task(batch=..., ...)``, waiting for the function: it takes a list, and calls are one by one."""

    def __init__(self, declare: Declare, options: Mapping[str, object]) -> None:
        self._declare, self._options = declare, options

    @overload
    def __call__(self, fn: Callable[[list[T]], Coroutine[Any, Any, list[R | Exception]]], /) -> AsyncTask[[T], R]: ...
    @overload
    def __call__(self, fn: Callable[[list[T]], Coroutine[Any, Any, list[R]]], /) -> AsyncTask[[T], R]: ...
    @overload
    def __call__(self, fn: Callable[[list[T]], Coroutine[Any, Any, None]], /) -> AsyncTask[[T], None]: ...
    @overload
    def __call__(self, fn: Callable[[list[T]], list[R | Exception]], /) -> SyncTask[[T], R]: ...
    @overload
    def __call__(self, fn: Callable[[list[T]], list[R]], /) -> SyncTask[[T], R]: ...
    @overload
    def __call__(self, fn: Callable[[list[T]], None], /) -> SyncTask[[T], None]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Any:
        return self._declare(fn, self._options)


def task_name(fn: Callable[..., Any]) -> str:
    """``module.function``; functions of a script get their file's name, as ``__main__`` differs between processes."""
    module = fn.__module__
    if module == "__main__":
        spec = inspect.getmodule(fn)
        path = getattr(spec, "__file__", None) or "main"
        module = path.rpartition("/")[2].removesuffix(".py")
    return f"{module}.{fn.__qualname__}".replace("<locals>.", "")
