"""The results of several tasks: a set, and that of a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from windlass.celery import _state
from windlass.celery.result_base import ResultBase, check_may_wait

if TYPE_CHECKING:
    from windlass.celery.app import Celery


class ResultSet(ResultBase):
    """Several results, in order."""

    def __init__(self, results: Iterable[Any], app: Celery | None = None, **options: Any) -> None:
        self.results: list[Any] = list(results or ())
        self._app = app

    @property
    def app(self) -> Celery:
        return self._app or (self.results[0].app if self.results else _state.get_current_app())

    def add(self, result: Any) -> None:
        if result not in self.results:
            self.results.append(result)

    def update(self, results: Iterable[Any]) -> None:
        for result in results:
            self.add(result)

    def remove(self, result: Any) -> None:
        try:
            self.results.remove(self.app.AsyncResult(result) if isinstance(result, str) else result)
        except ValueError:
            raise KeyError(result) from None

    def discard(self, result: Any) -> None:
        if result in self.results:
            self.results.remove(result)

    def clear(self) -> None:
        self.results.clear()

    # -- what they are at

    def ready(self) -> bool:
        return all(result.ready() for result in self.results)

    def successful(self) -> bool:
        return all(result.successful() for result in self.results)

    def failed(self) -> bool:
        return any(result.failed() for result in self.results)

    def waiting(self) -> bool:
        return any(not result.ready() for result in self.results)

    def completed_count(self) -> int:
        """How many tasks succeeded."""
        return sum(int(result.successful()) for result in self.results)

    def maybe_throw(self, callback: Any = None, propagate: bool = True) -> None:
        for result in self.results:
            result.maybe_throw(callback=callback, propagate=propagate)

    maybe_reraise = maybe_throw

    # -- waiting

    def get(self, timeout: float | None = None, propagate: bool = True, **options: Any) -> Any:
        return self.join(timeout, propagate, **options)

    def join(
        self, timeout: float | None = None, propagate: bool = True, interval: float = 0.5,
        callback: Callable[[str, Any], Any] | None = None, no_ack: bool = True, on_message: Any = None,
        disable_sync_subtasks: bool = True, on_interval: Any = None, **other: Any,
    ) -> list[Any]:  # fmt: skip
        """The values in order. ``timeout`` is for all of them together."""
        if disable_sync_subtasks:
            check_may_wait()
        deadline = None if timeout is None else time.monotonic() + timeout
        values: list[Any] = []
        for result in self.results:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            value = result.get(timeout=left, propagate=propagate, disable_sync_subtasks=disable_sync_subtasks)
            if callback is not None:
                callback(result.id, value)
            else:
                values.append(value)
        return values

    join_native = join

    def iterate(self, timeout: float | None = None, propagate: bool = True, interval: float = 0.5) -> Iterator[Any]:
        for result in self.results:
            yield result.get(timeout=timeout, propagate=propagate)

    # -- changing

    def revoke(self, **options: Any) -> None:
        for result in self.results:
            result.revoke(**options)

    def forget(self) -> None:
        for result in self.results:
            result.forget()

    # -- as a value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __getitem__(self, index: Any) -> Any:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    def __eq__(self, other: object) -> bool:
        return self.results == other.results if isinstance(other, ResultSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.results))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: [{', '.join(map(str, self.results))}]>"


class GroupResult(ResultSet):
    """The results of a group, under the group's id."""

    def __init__(
        self, id: str | None = None, results: Iterable[Any] = (), parent: ResultBase | None = None, **options: Any
    ) -> None:
        super().__init__(results, **options)
        self.id, self.parent = id, parent

    @property
    def children(self) -> list[Any]:
        return self.results

    def as_tuple(self) -> Any:
        parent = self.parent.as_tuple() if self.parent is not None else None
        return (self.id, parent), [result.as_tuple() for result in self.results]

    def save(self, backend: Any = None) -> None:
        """Save the group under its id, for ``restore``."""
        self.app.save_group(self)

    def delete(self, backend: Any = None) -> None:
        """Delete what ``save`` kept."""
        self.app.delete_group(str(self.id))

    @classmethod
    def restore(cls, id: str, backend: Any = None, app: Celery | None = None) -> GroupResult | None:
        """The results of a group by its id, or None."""
        return _state.app_or_default(app).restore_group(id)

    def __bool__(self) -> bool:
        return bool(self.id or self.results)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, GroupResult):
            return (self.id, self.results, self.parent) == (other.id, other.results, other.parent)
        return self.id == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return str(self.id)

    def __repr__(self) -> str:
        return f"<GroupResult: {self.id} [{', '.join(map(str, self.results))}]>"
