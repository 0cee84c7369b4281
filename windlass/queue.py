"""A queue of an app: its defaults, calls by name, and a handler for names nobody declared."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from windlass.call import Draft, needs_stable
from windlass.core import codec
from windlass.core.ids import check_name
from windlass.core.options import CALL_NAMES, CallOptions, parse_options
from windlass.errors import ConfigError
from windlass.handle import Handle

if TYPE_CHECKING:
    from windlass.app import Windlass

Handler = Callable[[str, dict[str, Any]], Awaitable[Any] | Any]


class Queue:
    """What ``app.queue(name)`` gives."""

    def __init__(self, app: Windlass, name: str) -> None:
        self._app, self.name = app, check_name("queue", name)

    async def add(
        self, task: str, args: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> Handle[Any]:
        """Call a task by name, also one of another service. Its arguments are checked by the worker that runs it."""
        return await self._app.submit_one(self._draft(task, args or {}, options))

    async def add_bulk(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], **options: Unpack[CallOptions]
    ) -> list[Handle[Any]]:
        """Many calls by name in one round trip."""
        return await self._app.submit([self._draft(task, args, options) for task, args in calls])

    def _draft(self, task: str, args: Mapping[str, Any], options: Mapping[str, object]) -> Draft:
        if not isinstance(args, Mapping):
            raise ConfigError(f"queue {self.name}: the arguments of {task!r} are {args!r}; give a mapping by name")
        layer = parse_options(options, CALL_NAMES, f"queue {self.name}, task {task!r}")
        layer["queue"] = self.name
        declared = self._app.tasks.get(check_name("task", task))
        if declared is not None:
            return declared.draft((), dict(args), layer)
        cap = self._app.settings.max_payload
        payload = codec.encode(dict(args), f"task {task}: the arguments", cap, stable=needs_stable(layer))
        return self._app.draft_by_name(task, payload, layer)

    async def counts(self) -> dict[str, int]:
        """Jobs by state; states with none are left out."""
        client = await self._app.client()
        found = [queue for queue in await client.store.queues() if queue.name == self.name]
        return found[0].counts if found else {}

    def handler(self, fn: Handler) -> Handler:
        """Run ``fn(task_name, args)`` for every job of this queue whose task is not declared."""
        self._app.add_handler(self.name, fn)
        return fn

    def __repr__(self) -> str:
        return f"<queue {self.name}>"
