"""The result of one task that was sent, read from the store each time it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from windlass import JobLost, ResultTimeout, State, SyncHandle
from windlass.celery import _state, states
from windlass.celery.exceptions import ChordError, ImproperlyConfigured, TaskRevokedError, TimeoutError
from windlass.celery.json_values import unpack
from windlass.celery.reading import IGNORED, Reading
from windlass.celery.rebuild import chord_error, rebuild
from windlass.celery.result_base import ResultBase, check_may_wait
from windlass.errors import JobError

if TYPE_CHECKING:
    from datetime import datetime

    from windlass.celery.app import Celery

WAIT = 60.0
"""How long a value that is there may take to be read."""


class AsyncResult(ResultBase):
    """A task that was sent, by its id."""

    TimeoutError = TimeoutError
    app: Celery

    def __init__(
        self, id: str, backend: Any = None, task_name: str | None = None, app: Celery | None = None,
        parent: ResultBase | None = None, ignored: bool = False,
    ) -> None:  # fmt: skip
        if id is None:
            raise ValueError("AsyncResult needs an id")
        self.id: str = id
        self.app = _state.app_or_default(app)
        self.parent, self.ignored = parent, ignored
        self._ended: Reading | None = None
        self._value: list[Any] = []

    @property
    def task_id(self) -> str:
        return self.id

    @property
    def handle(self) -> SyncHandle[Any]:
        """The same job as Windlass's own handle."""
        return self.app.windlass.sync.job(self.id)

    def read(self) -> Reading:
        if self._ended is not None:
            return self._ended
        found = Reading(self.handle.info())
        if found.info is not None and found.info.state.terminal:
            self._ended = found
        return found

    # -- what it is at

    @property
    def state(self) -> str:
        return self.read().state

    status = state

    def ready(self) -> bool:
        found = self.read()
        return found.info is not None and found.info.state.terminal

    def successful(self) -> bool:
        return self.state == states.SUCCESS

    def failed(self) -> bool:
        return self.state == states.FAILURE

    def exists(self) -> bool:
        return self.read().info is not None

    @property
    def result(self) -> Any:
        """What the task returned or raised; before that, what it gave ``update_state``."""
        found = self.read()
        if found.state == states.SUCCESS:
            return self._returned(found)
        if found.state in states.EXCEPTION_STATES and (found.info is None or found.info.reason != IGNORED):
            return self._exception(found)
        return _raised_by(found.meta) if found.state == states.FAILURE else found.meta

    info = result

    def _returned(self, found: Reading) -> Any:
        if not self._value and found.info is not None:
            # A task replaced by other work has no value in its record: the value is put together.
            kept = found.info.result
            self._value.append(unpack(kept if kept is not None else self.handle.get(WAIT)))
        return self._value[0] if self._value else None

    def _exception(self, found: Reading) -> Exception:
        info = found.info
        if info is not None and info.state is State.SKIPPED:
            return self._skipped(found)
        if info is not None and info.error is not None and info.state is not State.CANCELLED:
            return rebuild(info.error.type, info.error.message, found.exc_args)
        return TaskRevokedError(info.reason if info is not None and info.reason == "expired" else "revoked")

    def _skipped(self, found: Reading) -> Exception:
        """What kept the task from running: the error of the task before it; for a chord's body, an error that
        says so.
        """
        culprit, reason = self._culprit(found), found.info.reason if found.info is not None else ""
        cause = culprit.result if culprit is not None else None
        if found.extra.chord:
            return chord_error(culprit.id, cause) if culprit is not None else ChordError(reason)
        return cause if isinstance(cause, Exception) else TaskRevokedError(reason)

    def _culprit(self, found: Reading) -> AsyncResult | None:
        if found.info is None:
            return None
        # The reason is kept with this job and names another: "task id failed" or "task id was cancelled".
        words = found.info.reason.split(" ")
        return AsyncResult(words[1], app=self.app) if len(words) >= 3 and words[1] != self.id else None

    @property
    def traceback(self) -> str | None:
        info = self.read().info
        return info.error.traceback or None if info is not None and info.error is not None else None

    @property
    def name(self) -> str | None:
        info = self.read().info
        return info.task if info is not None else None

    @property
    def args(self) -> Any:
        """The positional arguments. Windlass keeps arguments by name; these are the ones without a name."""
        info = self.read().info
        return unpack(info.args.get("*args", [])) if info is not None and isinstance(info.args, dict) else None

    @property
    def kwargs(self) -> Any:
        info = self.read().info
        if info is None or not isinstance(info.args, dict):
            return None
        return {name: unpack(value) for name, value in info.args.items() if name != "*args"}

    @property
    def queue(self) -> str | None:
        info = self.read().info
        return info.queue if info is not None else None

    @property
    def worker(self) -> str | None:
        info = self.read().info
        return info.worker or None if info is not None else None

    @property
    def retries(self) -> int | None:
        found = self.read()
        return found.extra.retries + found.info.attempts if found.info is not None else None

    @property
    def date_done(self) -> datetime | None:
        info = self.read().info
        return info.finished_at if info is not None else None

    @property
    def children(self) -> list[ResultBase]:
        """What this task started, and what follows it in its chain."""
        from windlass.celery.result import result_from_tuple

        found = self.read()
        tuples = [*found.extra.children, *(found.told.get("children") or [])]
        return [result_from_tuple(item, self.app) for item in tuples]

    # -- waiting

    def get(
        self, timeout: float | None = None, propagate: bool = True, interval: float = 0.5,
        callback: Callable[[str, Any], Any] | None = None, disable_sync_subtasks: bool = True, **other: Any,
    ) -> Any:  # fmt: skip
        """What the task returned. Waits for it; raises what it raised, unless ``propagate`` is False."""
        if self.ignored:
            return None
        if disable_sync_subtasks:
            check_may_wait()
        if not self._value and self._ended is None:
            self._wait(timeout)
        if self._value:
            if callback is not None:
                callback(self.id, self._value[0])
            return self._value[0]
        return self.maybe_throw(propagate, callback)

    wait = get

    def _wait(self, timeout: float | None) -> None:
        """Wait, blocking even an event loop's thread, as in Celery; ``await result.handle`` does not block."""
        app = self.app.windlass
        try:
            value = app.sync.run(app.job(self.id).result(None if timeout is None else max(0.0, timeout)))
            self._value.append(unpack(value))
        except ResultTimeout:
            raise TimeoutError("The operation timed out.") from None
        except JobLost:
            raise
        except JobError:
            pass  # the record, which is read next, says more than the error

    def maybe_throw(self, propagate: bool = True, callback: Callable[[str, Any], Any] | None = None) -> Any:
        value = self.result
        if propagate and isinstance(value, Exception) and self.state in states.PROPAGATE_STATES:
            raise value
        if callback is not None:
            callback(self.id, value)
        return value

    maybe_reraise = maybe_throw

    def then(self, callback: Any, on_error: Any = None, weak: bool = False) -> Any:
        raise ImproperlyConfigured("result.then() has no counterpart: use link=, or await result.handle")

    def collect(self, intermediate: bool = False, **options: Any) -> Iterator[tuple[ResultBase, Any]]:
        """This result and all that its task started, with their values."""
        for _, node in self.iterdeps(intermediate):
            yield node, node.get(**options)

    def get_leaf(self) -> Any:
        value = None
        for _, node in self.iterdeps():
            value = node.get()
        return value

    # -- changing

    def revoke(self, connection: Any = None, terminate: bool = False, **other: Any) -> None:
        """Keep the task from running. A running task goes on, unless ``terminate`` is given."""
        info = None if terminate else self.handle.info()
        if info is None or info.state is not State.RUNNING:
            self.handle.cancel("revoked")

    def forget(self) -> None:
        """Delete the records of the task and its parents."""
        self._ended = None
        self._value.clear()
        if self.parent is not None:
            self.parent.forget()
        self.handle.forget()

    # -- as a value

    def as_tuple(self) -> Any:
        return (self.id, self.parent.as_tuple() if self.parent is not None else None), None

    def as_list(self) -> list[str]:
        parents = self.parent.as_list() if isinstance(self.parent, AsyncResult) else []
        return [self.id, *parents]

    def __str__(self) -> str:
        return self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, AsyncResult):
            return self.id == other.id
        return self.id == other if isinstance(other, str) else NotImplemented

    def __reduce__(self) -> Any:
        return type(self), (self.id, None, None, None, self.parent)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.id}>"


def _raised_by(meta: Any) -> Any:
    """The exception in what a task gave ``update_state`` with FAILURE, in the form Celery's users write it."""
    if isinstance(meta, Mapping) and "exc_type" in meta:
        message = meta.get("exc_message", "")
        args = message if isinstance(message, list) else None
        return rebuild(str(meta["exc_type"]), str(message), args)
    return meta
