"""Handles: what a caller holds of a job. They ask the store; they keep nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from windlass.connections.connections import Connected
from windlass.core import safe
from windlass.core.codec import decode_any
from windlass.core.duration import Duration, from_ms, instant_ms, show_ms, to_ms
from windlass.core.failure import read_error, shown
from windlass.core.ids import check_name
from windlass.core.job import ErrorInfo, Finished, Job, LogLine, Meta, Progress, State, read_meta
from windlass.core.lifecycle import EXPIRED
from windlass.core.options import parse_options
from windlass.errors import ConfigError, JobCancelled, JobExpired, JobFailed, JobLost, JobSkipped, ResultTimeout
from windlass.handles.results import read_value
from windlass.handles.why import Why, ask_why, why_late
from windlass.store.jobs import Action, Change

R = TypeVar("R")
_progress_decoder = msgspec.json.Decoder(Progress)


class JobInfo(msgspec.Struct, kw_only=True, frozen=True):
    """A job's record, decoded for people. ``attempts`` counts errors, apart from ``crashes`` and ``snoozes``.

    ``workflow`` is the id of the one it belongs to, if any.
    """

    id: str
    task: str
    version: int
    queue: str
    priority: int
    state: State
    args: Any
    result: Any
    error: ErrorInfo | None
    progress: Progress | None
    reason: str
    run: int
    attempts: int
    crashes: int
    snoozes: int
    cancel_requested: bool
    worker: str
    source: str
    correlation_id: str
    headers: dict[str, str]
    workflow: str
    enqueued_at: datetime | None
    due_at: datetime | None
    expires_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


def job_info(job: Job, decode_result: Callable[[bytes | None], Any] = decode_any) -> JobInfo:
    meta: Meta = shown(read_meta, job.meta, Meta())
    return JobInfo(
        id=job.id, task=job.task, version=job.version, queue=job.queue, priority=job.priority, state=job.state,
        args=shown(decode_any, job.payload), result=shown(decode_result, job.result), error=read_error(job.error),
        progress=_read_progress(job.progress), reason=job.reason, run=job.run,
        attempts=job.attempt, crashes=job.crashes, snoozes=job.snoozes, cancel_requested=job.cancel_requested,
        worker=job.worker, source=meta.source, correlation_id=meta.correlation_id or job.id, headers=meta.headers,
        workflow=job.graph,
        enqueued_at=from_ms(job.enqueued_at), due_at=from_ms(job.due_at), expires_at=from_ms(job.expires_at),
        started_at=from_ms(job.started_at), finished_at=from_ms(job.finished_at),
    )  # fmt: skip


def _read_progress(data: bytes | None) -> Progress | None:
    return shown(_progress_decoder.decode, data, Progress(message="<damaged>")) if data else None


class Handle(Generic[R]):
    """A job, for async code: ``await handle`` waits for its result.

    ``existing``: the call made no job of its own, as its unique key or its id was another's; this is that other job.
    """

    __slots__ = ("_connections", "_decode", "existing", "id")

    def __init__(
        self,
        connections: Connected,
        id: str,
        decode: Callable[[bytes | None], Any] = decode_any,
        existing: bool = False,
    ) -> None:
        self._connections, self.id, self._decode, self.existing = connections, id, decode, existing

    def __await__(self) -> Generator[Any, None, R]:
        return self.result().__await__()

    async def result(self, timeout: Duration | None = None) -> R:
        """The job's result once it is there, pushed by the store; a JobError if it did not succeed."""
        client = await self._connections.client()
        try:
            async with asyncio.timeout(None if timeout is None else to_ms(timeout, "timeout") / 1000):
                finished = await client.waiter.wait(self.id)
                if not finished.inline and finished.state is State.SUCCEEDED:
                    finished.result = await read_value(client.store, self.id)
        except TimeoutError:
            why = await why_late(client.store, self.id)
            raise ResultTimeout(
                f"job {self.id} gave no result within {show_ms(to_ms(timeout or 0, 'timeout'))}; it goes on{why}"
            ) from None
        result: R = outcome(finished, self._decode)
        return result

    def get(self, timeout: Duration | None = None) -> R:
        """The same for sync code."""
        return self.sync.get(timeout)

    @property
    def sync(self) -> SyncHandle[R]:
        """This handle for sync code."""
        return SyncHandle(self)

    async def record(self) -> Job | None:
        client = await self._connections.client()
        (job,) = await client.store.get([self.id])
        return job

    async def info(self) -> JobInfo | None:
        """The record as it is now, or None when the store has none."""
        job = await self.record()
        return job_info(job, self._decode) if job else None

    async def state(self) -> State | None:
        job = await self.record()
        return job.state if job else None

    async def ready(self) -> bool:
        """True once the job is over, however it ended."""
        state = await self.state()
        return state is not None and state.terminal

    async def successful(self) -> bool:
        return await self.state() is State.SUCCEEDED

    async def failed(self) -> bool:
        return await self.state() is State.FAILED

    async def error(self) -> ErrorInfo | None:
        """The last error, with its traceback as text and the earlier attempts."""
        job = await self.record()
        return read_error(job.error) if job else None

    async def progress(self) -> Progress | None:
        job = await self.record()
        return _read_progress(job.progress) if job else None

    async def logs(self, after: int = -1) -> list[LogLine]:
        client = await self._connections.client()
        return await client.store.lines(self.id, after)

    async def cancel(self, reason: str = "") -> bool:
        """Ask for the job to end, in whatever state it is; False when it is over already or unknown."""
        return await self._change(Change(action=Action.CANCEL, reason=safe.text(reason, safe.MAX_REASON)))

    async def retry(self) -> bool:
        """Run an ended job again, as a new run with fresh counters; a job waiting for its retry starts now."""
        return await self._change(Change(action=Action.RETRY)) or await self._change(Change(action=Action.PROMOTE))

    async def forget(self) -> bool:
        """Delete the record. A running job is left alone."""
        return await self._change(Change(action=Action.DELETE))

    async def promote(self) -> bool:
        """Start a scheduled job now; False when it is not one."""
        return await self._change(Change(action=Action.PROMOTE))

    async def move_to(self, queue: str) -> bool:
        """Move a job that does not run to another queue."""
        return await self._change(Change(action=Action.MOVE, queue=check_name("queue", queue)))

    async def reprioritise(self, priority: int) -> bool:
        """Give a job that has not started another priority, 0 to 9, 9 first."""
        level = parse_options({"priority": priority}, ("priority",), f"job {self.id}")["priority"]
        return await self._change(Change(action=Action.REPRIORITISE, priority=level))

    async def reschedule(self, *, delay: Duration | None = None, at: datetime | None = None) -> bool:
        """Give a job that has not started another time: so long from now, or an instant."""
        if (delay is None) == (at is None):
            raise ConfigError(f"job {self.id}: give delay or at, and not both")
        wait, when = (to_ms(delay, "delay"), 0) if at is None else (0, instant_ms(at))
        return await self._change(Change(action=Action.RESCHEDULE, delay=wait, at=when))

    async def why(self) -> Why:
        """Why the job is not running, or what it is doing: every reason there is, the main one first."""
        return await ask_why((await self._connections.client()).store, self.id)

    async def _change(self, change: Change) -> bool:
        client = await self._connections.client()
        reply = await client.store.change(change, [self.id])
        return bool(reply.changed)

    def __repr__(self) -> str:
        return f"<job {self.id}>"


def outcome(finished: Finished, decode: Callable[[bytes | None], Any]) -> Any:
    """A result, or the error that says what became of the job."""
    id, state = finished.id, finished.state
    if state is State.SUCCEEDED:
        return decode(finished.result)
    if state is State.FAILED:
        error = read_error(finished.error) or ErrorInfo("", finished.reason)
        reason = f" ({finished.reason})" if finished.reason else ""
        raise JobFailed(
            f"job {id} failed{reason}: {error.type}: {error.message}",
            error_type=error.type,
            error_message=error.message,
            traceback=error.traceback,
        )
    if state is State.CANCELLED and finished.reason == EXPIRED:
        raise JobExpired(f"job {id} was not started before it expired")
    if state is State.CANCELLED:
        raise JobCancelled(f"job {id} was cancelled" + (f": {finished.reason}" if finished.reason else ""))
    if state is State.SKIPPED:
        raise JobSkipped(f"job {id} was skipped" + (f": {finished.reason}" if finished.reason else ""))
    raise JobLost(
        f"the store has no record of job {id}: it was never accepted, was deleted, or its retention has passed "
        "(see keep=)"
    )


class SyncHandle(Generic[R]):
    """A job, for sync code. Every call goes through the process's portal thread; ``await`` works as well."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle[R]) -> None:
        self._handle = handle

    @property
    def id(self) -> str:
        return self._handle.id

    @property
    def existing(self) -> bool:
        return self._handle.existing

    def __await__(self) -> Generator[Any, None, R]:
        return self._handle.__await__()

    def get(self, timeout: Duration | None = None) -> R:
        """Wait for the result; ResultTimeout when it does not come in time."""
        if asyncio._get_running_loop() is not None:
            raise ConfigError("handle.get() would block the running event loop; write `await handle` there")
        return self._handle._connections.portal.call(lambda: self._handle.result(timeout))

    def info(self) -> JobInfo | None:
        return self._handle._connections.portal.call(self._handle.info)

    @property
    def state(self) -> State | None:
        return self._handle._connections.portal.call(self._handle.state)

    def ready(self) -> bool:
        return self._handle._connections.portal.call(self._handle.ready)

    def successful(self) -> bool:
        return self._handle._connections.portal.call(self._handle.successful)

    def failed(self) -> bool:
        return self._handle._connections.portal.call(self._handle.failed)

    def error(self) -> ErrorInfo | None:
        return self._handle._connections.portal.call(self._handle.error)

    def progress(self) -> Progress | None:
        return self._handle._connections.portal.call(self._handle.progress)

    def logs(self, after: int = -1) -> list[LogLine]:
        return self._handle._connections.portal.call(lambda: self._handle.logs(after))

    def cancel(self, reason: str = "") -> bool:
        return self._handle._connections.portal.call(lambda: self._handle.cancel(reason))

    def retry(self) -> bool:
        return self._handle._connections.portal.call(self._handle.retry)

    def forget(self) -> bool:
        return self._handle._connections.portal.call(self._handle.forget)

    def promote(self) -> bool:
        return self._handle._connections.portal.call(self._handle.promote)

    def move_to(self, queue: str) -> bool:
        return self._handle._connections.portal.call(lambda: self._handle.move_to(queue))

    def reprioritise(self, priority: int) -> bool:
        return self._handle._connections.portal.call(lambda: self._handle.reprioritise(priority))

    def reschedule(self, *, delay: Duration | None = None, at: datetime | None = None) -> bool:
        return self._handle._connections.portal.call(lambda: self._handle.reschedule(delay=delay, at=at))

    def why(self) -> Why:
        return self._handle._connections.portal.call(self._handle.why)

    def __repr__(self) -> str:
        return repr(self._handle)
