"""A signature: a call that has not been made. The smallest work, and a part of larger ones."""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Self, TypeVar, Unpack, cast

from windlass.core.ids import check_name
from windlass.core.options import CALL_NAMES, CallOptions, parse_options
from windlass.errors import ConfigError
from windlass.handles.handle import Handle, SyncHandle
from windlass.handles.results import Read
from windlass.workflows.declarations import DeclaredTask
from windlass.workflows.work import PLAIN, App, Work, not_work, said_of

R = TypeVar("R")


class Signature(Work[R]):
    """What ``task.s(...)`` gives.

    ``task`` is None where only the name is known; its arguments are then by name, and checked by the worker. Of a job
    that makes many calls (``each``), ``args`` are the lists of their arguments.
    """

    kind = "call"
    app: App

    __slots__ = ("app", "args", "each", "extras", "immutable", "kwargs", "name", "options", "task")

    def __init__(
        self, app: App, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], options: Mapping[str, Any], *,
        task: DeclaredTask | None = None, immutable: bool = False, each: str = "",
    ) -> None:  # fmt: skip
        self.app, self.name, self.task = app, name, task
        self.args, self.kwargs, self.options = args, kwargs, options
        self.immutable, self.each, self.extras = immutable, each, PLAIN

    def set(self, **options: Unpack[CallOptions]) -> Self:
        """The same call with other options: queue, priority, delay, retries, timeout, id, headers and so on."""
        other = copy.copy(self)
        other.options = {**self.options, **parse_options(options, CALL_NAMES, f"task {self.name}")}
        return other

    def parts(self) -> Iterable[Work[Any]]:
        return ()

    def reader(self) -> Read:
        return self.app.declared.reader(self.name, bool(self.each))

    async def enqueue(self) -> Handle[R]:
        """Accept it as an ordinary job. With callbacks it is a workflow, and so is what this answers then."""
        submitting = self.app.submitting
        if self.has_callbacks:
            return cast(Handle[R], await submitting.submit_work(self))
        (handle,) = await submitting.submit([submitting.draft(self.alone())])
        return handle

    def delay(self) -> SyncHandle[R]:
        """The same for sync code, from any thread."""
        submitting = self.app.submitting
        if self.has_callbacks:
            return cast(SyncHandle[R], submitting.submit_work_here(self))
        (handle,) = submitting.submit_here([submitting.draft(self.alone())])
        return handle

    def __await__(self) -> Generator[Any, None, Handle[R]]:
        return self.enqueue().__await__()

    def alone(self) -> Self:
        """This call, which is to be a job of its own; what only a workflow has is an error."""
        if self.extras is not PLAIN:
            said = ", ".join(said_of(self.extras))
            hint = "; .set(id=...) gives a job its id" if self.extras.id else ""
            raise ConfigError(f"{self!r}: {said} is for workflows, and this is a job of its own{hint}")
        return self

    def __repr__(self) -> str:
        if self.each:
            return f"{self.name}.{self.each}({len(self.args)} items)"
        given = [*map(repr, self.args), *(f"{key}={value!r}" for key, value in self.kwargs.items())]
        return f"{self.name}({', '.join(given)})"


def by_name(
    app: App, task: object, args: Mapping[str, Any] | None, options: Mapping[str, object], immutable: bool
) -> Signature[Any]:
    """A call by name, checked as far as it can be here. A task that is declared by then is checked at submit."""
    if callable(task):
        raise not_work(task, "the first argument of app.sig()")
    if args is not None and not isinstance(args, Mapping):
        raise ConfigError(f"app.sig({task!r}): the arguments are {args!r}; give a mapping by name")
    name, layer = check_name("task", task), parse_options(options, CALL_NAMES, f"app.sig({task!r})")
    return Signature(app, name, (), dict(args or {}), layer, immutable=immutable)
