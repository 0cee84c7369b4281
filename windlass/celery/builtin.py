"""Tasks that this layer declares in every app: for map and starmap, saved groups and chords that grow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from windlass.celery import canvas
from windlass.celery.json_values import together

if TYPE_CHECKING:
    from windlass.celery.app import Celery


def saved_group(group: Any) -> None:
    """The function of the job that keeps a group's ids: it does nothing."""


def add_together(added: list[Any], own: Any) -> Any:
    """The job behind ``add_to_chord``: combines the added tasks' values with that of the task that added them."""
    return together(own, added)


def declare_builtin(app: Celery) -> None:
    def each(task: Any, it: Iterable[Any]) -> list[Any]:
        call = canvas.maybe_signature(task, app)
        return [call(item) for item in it]

    def each_starred(task: Any, it: Iterable[Any]) -> list[Any]:
        call = canvas.maybe_signature(task, app)
        return [call(*item) for item in it]

    app.task(name="celery.map")(each)
    app.task(name="celery.starmap")(each_starred)
