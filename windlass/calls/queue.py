"""A queue of an app: its defaults, calls by name, a handler for names nobody declared, and what operators do to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import msgspec

from windlass.core.duration import Duration, to_ms
from windlass.core.ids import check_name
from windlass.core.job import State
from windlass.core.option_parsers import parse_states
from windlass.core.options import CALL_NAMES, CallOptions, parse_options
from windlass.core.terms import queue_gate
from windlass.errors import ConfigError
from windlass.handles.gates import (
    QUEUE_TUNING,
    UNTUNED,
    LimitInfo,
    QueueTuning,
    check_tuning,
    limit_info,
    read_gate,
    retune,
)
from windlass.handles.handle import Handle
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Action, Change, Query
from windlass.store.reads import QueueInfo
from windlass.workflows.declarations import Handler
from windlass.workflows.signature import Signature
from windlass.workflows.work import App

NOT_STARTED = (State.READY, State.SCHEDULED, State.WAITING)
UNDER_WAY = (State.READY, State.SCHEDULED, State.RUNNING)
DRAIN_PAUSES = (0.02, 1.0)
"""The first and the longest pause, in seconds, between two looks at a queue that is being drained."""


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A queue now: its jobs by state, how long the oldest ready one waits (ms, -1: none does), and what holds for it.

    ``lanes``: how many lanes have ready jobs.
    """

    name: str
    counts: dict[str, int] = {}
    oldest_ready: int = -1
    lanes: int = 0
    paused: bool = False
    draining: bool = False
    held: int = 0
    opens_in: int = 0
    limits: LimitInfo


class Queue:
    """What ``app.queue(name)`` gives."""

    def __init__(self, app: App, name: str) -> None:
        self._app, self.name = app, check_name("queue", name)
        self._gate = queue_gate(self.name)

    async def add(
        self, task: str, args: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> Handle[Any]:
        """Call a task by name, also one of another service. Its arguments are checked by the worker that runs it."""
        submitting = self._app.submitting
        (handle,) = await submitting.submit([submitting.draft(self.call(task, args or {}, options))])
        return handle

    async def add_bulk(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], **options: Unpack[CallOptions]
    ) -> list[Handle[Any]]:
        """Many calls by name in one round trip."""
        submitting = self._app.submitting
        return await submitting.submit([submitting.draft(self.call(task, args, options)) for task, args in calls])

    def call(self, task: str, args: Mapping[str, Any], options: Mapping[str, object]) -> Signature[Any]:
        """A call by name that goes to this queue, as a value."""
        if not isinstance(args, Mapping):
            raise ConfigError(f"queue {self.name}: the arguments of {task!r} are {args!r}; give a mapping by name")
        layer = parse_options(options, CALL_NAMES, f"queue {self.name}, task {task!r}")
        layer["queue"] = self.name
        return Signature(self._app, check_name("task", task), (), dict(args), layer)

    async def counts(self) -> dict[str, int]:
        """Jobs by state; states with none are left out."""
        client = await self._app.connections.client()
        found = [queue for queue in await client.store.queues() if queue.name == self.name]
        return found[0].counts if found else {}

    async def info(self) -> QueueStatus:
        """The queue with its counts, its limits and whether it is paused."""
        client = await self._app.connections.client()
        found = [queue for queue in await client.store.queues() if queue.name == self.name]
        queue = found[0] if found else QueueInfo(name=self.name)
        limits = limit_info(await read_gate(self._app.connections, self._gate))
        return QueueStatus(
            name=self.name, counts=queue.counts, oldest_ready=queue.oldest_ready, lanes=queue.lanes, limits=limits,
            paused=limits.paused, draining=limits.draining, held=limits.held, opens_in=limits.opens_in,
        )  # fmt: skip

    async def pause(self) -> None:
        """Start no more jobs of this queue, on no worker. Those that run go on, and new ones are taken in."""
        await retune(self._app.connections, self._gate, paused=True)

    async def resume(self) -> None:
        """Take a pause back, and the end of intake by ``drain``."""
        await retune(self._app.connections, self._gate, paused=None, draining=None)

    async def tune(self, **limits: Unpack[QueueTuning]) -> None:
        """Say other limits than the code does, for all workers and at once; None is no limit."""
        await retune(self._app.connections, self._gate, **check_tuning({**limits}, QUEUE_TUNING, f"queue {self.name}"))

    async def untune(self) -> None:
        """Let what the code says hold again. A pause stays."""
        await retune(self._app.connections, self._gate, **UNTUNED)

    async def drain(self, timeout: Duration | None = None) -> None:
        """Take no new jobs in, and wait until none is ready, scheduled or running. Only ``resume`` lets jobs in again.

        TimeoutError when that takes too long; the queue goes on draining then.
        """
        seconds = None if timeout is None else to_ms(timeout, "timeout") / 1000
        await retune(self._app.connections, self._gate, draining=True)
        pause, longest = DRAIN_PAUSES
        left: dict[str, int] = {}
        try:
            async with asyncio.timeout(seconds):
                while left := {state: n for state, n in (await self.counts()).items() if n and state in UNDER_WAY}:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, longest)
        except TimeoutError:
            rest = ", ".join(f"{n} {state}" for state, n in left.items()) or "its counts are not known"
            raise TimeoutError(
                f"queue {self.name} was not empty after {timeout}; it goes on draining: {rest}"
            ) from None

    async def purge(self, state: State | str | Sequence[State | str] = NOT_STARTED) -> int:
        """Delete its jobs, by default all that have not started; how many were. Running ones are left alone."""
        return await self._change_all(Change(action=Action.DELETE), state)

    async def move_to(self, queue: str, state: State | str | Sequence[State | str] = NOT_STARTED) -> int:
        """Move its jobs to another queue, by default all that have not started; how many were."""
        if check_name("queue", queue) == self.name:
            raise ConfigError(f"queue {self.name}: its jobs are in {queue} already")
        return await self._change_all(Change(action=Action.MOVE, queue=queue), state)

    async def _change_all(self, change: Change, state: State | str | Sequence[State | str]) -> int:
        client = await self._app.connections.client()
        states = parse_states(state)
        if not states or State.RUNNING in states:
            raise ConfigError(f"queue {self.name}: running jobs cannot be {change.action}d; give other states")
        changed, cursor = 0, ""
        while True:
            query = Query(queue=self.name, states=states, limit=MAX_BATCH, after=cursor, oldest_first=True)
            reply = await client.store.change(change, query=query)
            changed, cursor = changed + len(reply.changed), reply.cursor
            if not cursor:
                return changed

    def handler(self, fn: Handler) -> Handler:
        """Run ``fn(task_name, args)`` for every job of this queue whose task is not declared."""
        self._app.declared.add_handler(self.name, fn)
        return fn

    def __repr__(self) -> str:
        return f"<queue {self.name}>"
