"""The ids of a canvas: every task gets one before it is sent, and results are connected by them.

An id belongs to one job. Celery runs a frozen canvas, or a callback linked in several places, each time under the same
id. Here the first job has the id and keeps its result; the others run under ids of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from windlass.celery.canvas import Signature, chain, chord, group, list_of, maybe_signature
from windlass.celery.exceptions import ImproperlyConfigured
from windlass.celery.result import AsyncResult, GroupResult, ResultBase
from windlass.celery.utils import uuid

if TYPE_CHECKING:
    from windlass.celery.app import Celery


def freeze(app: Celery, sig: Signature) -> ResultBase:
    """Give every task of a signature an id if it has none. Answers the results, each with its parent."""
    if isinstance(sig, chain):
        return _freeze_chain(app, sig)
    if isinstance(sig, chord):
        return _freeze_chord(app, sig)
    if isinstance(sig, group):
        _hand_down(sig, sig.tasks)
        results = [freeze(app, task) for task in sig.tasks]
        return GroupResult(sig.options.setdefault("task_id", uuid()), results, app=app)
    return AsyncResult(sig.options.setdefault("task_id", uuid()), app=app, ignored=_ignored(app, sig))


def _ignored(app: Celery, sig: Signature) -> bool:
    task = app.tasks.get(sig.task)
    return bool(sig.options.get("ignore_result", task.ignore_result if task is not None else False))


def _hand_down(sig: Signature, parts: Sequence[Signature], *only: str) -> None:
    """Give options of a whole to its parts, as in Celery: those of a group to each part, those of a chain to the first
    task.
    """
    for name in [name for name in sig.options if name not in ("task_id", "link", "link_error")]:
        if not only or name in only:
            value = sig.options.pop(name)
            for part in parts:
                part.options[name] = value


def _freeze_chain(app: Celery, sig: chain) -> ResultBase:
    if not sig.tasks:
        raise ImproperlyConfigured("a chain of nothing has no result")
    if "task_id" in sig.options:
        sig.tasks[-1].options["task_id"] = sig.options["task_id"]
    _hand_down(sig, sig.tasks[:1])
    last: ResultBase | None = None
    for step in sig.tasks:
        result = freeze(app, step)
        if last is not None:
            first_of(result).parent = last
        last = result
    assert last is not None
    sig.options["task_id"] = last.id
    return last


def _freeze_chord(app: Celery, sig: chord) -> ResultBase:
    if sig.body is None:
        raise ImproperlyConfigured("a chord needs a body: chord(header)(body)")
    if "task_id" in sig.options:
        sig.body.options["task_id"] = sig.options["task_id"]
    _hand_down(sig, [sig.header], "countdown", "eta")
    _hand_down(sig, [sig.header, sig.body])
    result = freeze(app, sig.body)
    first_of(result).parent = freeze(app, sig.header)
    sig.options["task_id"] = result.id
    return result


def first_of(result: ResultBase) -> ResultBase:
    """The first result of a chain of parents."""
    while result.parent is not None:
        result = result.parent
    return result


def last_id(result: ResultBase) -> str | None:
    """The id of the task directly before what follows a result; for a group, that of its last task."""
    while isinstance(result, GroupResult):
        if not result.results:
            return None
        result = result.results[-1]
    return result.id


# -- ids that signatures bring along


def single_out(sig: Signature) -> bool:
    """Leave each id to the first signature that has it. True if any signature came with an id."""
    seen: set[str] = set()
    for options in _with_ids(sig):
        if options["task_id"] in seen:
            del options["task_id"]
        else:
            seen.add(options["task_id"])
    return bool(seen)


def drop_taken(app: Celery, sig: Signature, keep: str | None = None) -> None:
    """Give up the ids that the store knows already, except the one to keep."""
    job = app.windlass.sync.job
    for options in list(_with_ids(sig)):
        if (id := options["task_id"]) != keep and job(id).info() is not None:
            del options["task_id"]


def _with_ids(sig: Signature) -> Iterator[dict[str, Any]]:
    """The options of every part that has an id; callbacks come last."""
    links: list[dict[str, Any]] = []
    stack = [sig]
    while stack:
        found = stack.pop()
        options = found.options
        if options.get("task_id") is not None:
            yield options
        links.append(options)
        stack.extend(reversed(found.members))
    for options in links:
        for name in ("link", "link_error"):
            if name in options:
                options[name] = [maybe_signature(link, clone=True) for link in list_of(options[name])]
                for link in options[name]:
                    yield from _with_ids(link)
