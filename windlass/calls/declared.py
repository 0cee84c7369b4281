"""What an app declares: tasks, queues, handlers, middleware and hooks, and the options that follow from all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec

from windlass.calls.middleware import AroundEnqueue, AroundRun
from windlass.calls.task import AsyncTask, SyncTask, Task
from windlass.calls.watch import Watcher
from windlass.core.options import QUEUE_NAMES, Resolved, parse_options, resolve
from windlass.errors import ConfigError
from windlass.handles.results import Read, decode
from windlass.workflows.declarations import Handler
from windlass.workflows.work import App

Hook = Callable[[SimpleNamespace], Awaitable[None] | None]


class Declared:
    """``defaults``: the app's own options for every job."""

    def __init__(self, app: App, defaults: Mapping[str, Any]) -> None:
        self._app, self.defaults = app, defaults
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.handlers: dict[str, Handler] = {}
        self.queue_layers: dict[str, dict[str, Any]] = {}
        self.enqueue_layers: list[AroundEnqueue] = []
        self.run_layers: list[AroundRun] = []
        self.watchers: list[Watcher] = []
        self.start_hooks: list[Hook] = []
        self.stop_hooks: list[Hook] = []
        self.on_task: list[Callable[[Task[Any, Any]], None]] = []
        """Called with every new task."""
        self.loose_breakers: set[str] = set()
        """Breakers that hold no jobs back: when they are open, workers fail or drop what comes."""
        self._resolved: dict[tuple[str, str], Resolved] = {}

    def add_task(self, fn: Callable[..., Any], options: Mapping[str, object]) -> Task[Any, Any]:
        """Make a task of a function. One of the same name must be the same function, loaded again."""
        if isinstance(fn, Task):
            raise ConfigError(f"{fn!r} is a task already")
        kind = AsyncTask if asyncio.iscoroutinefunction(fn) else SyncTask
        task: Task[Any, Any] = kind(self._app, fn, options)
        known = self.tasks.get(task.name)
        if known is not None and (known.fn.__module__, known.fn.__qualname__) != (fn.__module__, fn.__qualname__):
            raise ConfigError(
                f"two functions want the task name {task.name!r}: {known.fn!r} and {fn!r}; give one name="
            )
        self.tasks[task.name] = task
        self.forget_resolved()
        for tell in self.on_task:
            tell(task)
        return task

    def add_handler(self, queue: str, fn: Handler) -> None:
        """Let a function run the jobs of a queue whose tasks are not declared."""
        if queue in self.handlers:
            raise ConfigError(f"queue {queue} has a handler already: {self.handlers[queue]!r}")
        self.handlers[queue] = fn

    def set_defaults(self, queue: str, options: Mapping[str, object]) -> None:
        """Declare the defaults of a queue's jobs, on this side and on the workers."""
        self.queue_layers.setdefault(queue, {}).update(parse_options(options, QUEUE_NAMES, f"queue {queue}"))
        self.forget_resolved()

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

    def forget_resolved(self) -> None:
        """Work options out anew: something that they follow from was declared."""
        self._resolved.clear()

    def reader(self, task: str, each: bool = False) -> Read:
        """How a task's result is read, or the list of results of one job that makes many calls."""
        declared = self.tasks.get(task)
        if declared is None:
            return decode
        return declared.codec.decode_results if each else declared.codec.decode_result
