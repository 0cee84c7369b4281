"""What is declared, as far as calls are concerned: rooms left of the app know it by these Protocols."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from windlass.core.codec import Codec
from windlass.handles.results import Read

Handler = Callable[[str, dict[str, Any]], Awaitable[Any] | Any]
"""Runs the jobs of a queue whose tasks nobody declared: ``handler(task_name, args)``."""


class DeclaredTask(Protocol):
    """A declared task, as far as calls of it are concerned."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def queue(self) -> str: ...

    @property
    def fn(self) -> Callable[..., Any]: ...

    @property
    def codec(self) -> Codec: ...


class OneCall(Protocol):
    """One call of a task; ``signature.py`` has it. ``task`` is None where only its name is known."""

    @property
    def name(self) -> str: ...

    @property
    def task(self) -> DeclaredTask | None: ...

    @property
    def args(self) -> tuple[Any, ...]: ...

    @property
    def kwargs(self) -> dict[str, Any]: ...

    @property
    def options(self) -> Mapping[str, Any]: ...

    @property
    def each(self) -> str: ...


class Declarations(Protocol):
    """The part of an app that knows what is declared, as far as calls are concerned."""

    @property
    def tasks(self) -> Mapping[str, DeclaredTask]: ...

    def add_handler(self, queue: str, fn: Handler) -> None: ...

    def reader(self, task: str, each: bool = False) -> Read:
        """How a task's result is read, or the list of results of one job that makes many calls."""
        ...
