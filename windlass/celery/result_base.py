"""The base of all results, and the check of who may wait for one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import GenericAlias
from typing import Any

from windlass.celery import _state
from windlass.celery.exceptions import IncompleteStream


def allow_join_result() -> AbstractContextManager[None]:
    """Inside a task: allow waiting for other tasks in this block."""
    return _state.waiting_allowed(True)


def denied_join_result() -> AbstractContextManager[None]:
    return _state.waiting_allowed(False)


def check_may_wait() -> None:
    if not _state.may_wait():
        raise RuntimeError(
            "Never call result.get() within a task: it would hold a slot that the other task may need. Use a chain, a "
            "chord or self.replace(); where it is meant, allow_join_result()"
        )


class ResultBase:
    """The base of all results."""

    id: str | None = None
    parent: ResultBase | None = None

    __class_getitem__: Any = classmethod(GenericAlias)  # annotations such as AsyncResult[int]

    def as_tuple(self) -> Any:
        raise NotImplementedError

    def get(self, timeout: float | None = None, **options: Any) -> Any:
        raise NotImplementedError

    def ready(self) -> bool:
        raise NotImplementedError

    @property
    def children(self) -> list[ResultBase]:
        return []

    def forget(self) -> None:
        raise NotImplementedError

    def revoke(self, **options: Any) -> None:
        raise NotImplementedError

    def iterdeps(self, intermediate: bool = False) -> Iterator[tuple[ResultBase | None, ResultBase]]:
        """This result and all that its task started, each with the result it came from."""
        stack: deque[tuple[ResultBase | None, ResultBase]] = deque([(None, self)])
        while stack:
            parent, node = stack.popleft()
            yield parent, node
            if node.ready():
                stack.extend((node, child) for child in node.children)
            elif not intermediate:
                raise IncompleteStream
