"""Results in Celery's words, under the name Celery has them: of one task, of several, and of what ran in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.celery import _state
from windlass.celery.result_async import AsyncResult
from windlass.celery.result_base import ResultBase, allow_join_result, denied_join_result
from windlass.celery.result_eager import EagerResult
from windlass.celery.result_set import GroupResult, ResultSet

if TYPE_CHECKING:
    from windlass.celery.app import Celery

__all__ = [
    "AsyncResult", "EagerResult", "GroupResult", "ResultBase", "ResultSet", "allow_join_result", "denied_join_result",
    "result_from_tuple",
]  # fmt: skip


def result_from_tuple(r: Any, app: Celery | None = None) -> Any:
    """The result that an ``as_tuple()`` describes, also after JSON made lists of it."""
    if isinstance(r, ResultBase):
        return r
    app = _state.app_or_default(app)
    head, nodes = r
    id, parent = head if isinstance(head, list | tuple) else (head, None)
    before = result_from_tuple(parent, app) if parent else None
    if nodes is None:
        return AsyncResult(id, app=app, parent=before)
    return GroupResult(id, [result_from_tuple(node, app) for node in nodes], parent=before, app=app)
