"""Signatures run in place, one after the other: ``apply()`` and ``task_always_eager``. Nothing goes to the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.celery import states
from windlass.celery.canvas import Signature, chain, chord, chunks, group, list_of, maybe_signature
from windlass.celery.exceptions import ImproperlyConfigured
from windlass.celery.rebuild import chord_error
from windlass.celery.result import EagerResult, GroupResult, ResultBase
from windlass.celery.task_run import through_json
from windlass.celery.utils import uuid

if TYPE_CHECKING:
    from windlass.celery.request import Context
    from windlass.celery.task import Task


def apply(sig: Signature, args: tuple[Any, ...] = ()) -> Any:
    """Run a signature after the parts before it. Its own options hold; those about timing have no effect."""
    if isinstance(sig, chain):
        return _chain(sig, args)
    if isinstance(sig, chord):
        return _chord(sig, args)
    if isinstance(sig, chunks):
        return apply(sig.group(), args)
    if isinstance(sig, group):
        return _group(sig, args)
    made = sig.clone(args)
    known = ("link", "link_error", "task_id", "headers", "queue", "priority", "retries", "throw")
    options = {name: value for name, value in made.options.items() if name in known and value is not None}
    call = (made.args, made.kwargs)
    if made.app.conf.task_always_eager:  # this run replaces a worker's, so its arguments pass through JSON too
        call = through_json(*call)
    return made.type.apply(*call, **options)


def _group(sig: group, args: tuple[Any, ...]) -> GroupResult:
    result = GroupResult(sig.options.get("task_id") or uuid(), [apply(task, args) for task in sig.tasks], app=sig.app)
    if failure_of(result) is None:
        for callback in list_of(sig.options.get("link")):
            apply(maybe_signature(callback, sig.app).clone())
    return result


def value_of(result: Any) -> Any:
    """The value of a result that ran in place, or its exception."""
    if isinstance(result, GroupResult):
        return [value_of(item) for item in result.results]
    return result.result


def failure_of(result: Any) -> Any:
    """The first result that failed, or None."""
    if isinstance(result, GroupResult):
        return next((found for item in result.results if (found := failure_of(item)) is not None), None)
    return result if result.state in states.PROPAGATE_STATES else None


def _chain(sig: chain, args: tuple[Any, ...]) -> Any:
    if not sig.tasks:
        raise ImproperlyConfigured("a chain of nothing has no result")
    steps = [task.clone() for task in sig.tasks]
    last: Any = None
    for number, step in enumerate(steps):
        for name in ("link", "link_error") if number == len(steps) - 1 else ("link_error",):
            for callback in list_of(sig.options.get(name)):
                step.link(callback) if name == "link" else step.link_error(callback)
        result = apply(step, args if number == 0 else (value_of(last),))
        _behind(result, last)
        last = result
        if failure_of(last) is not None:
            return _give_up(steps[number:], last)
        if getattr(last, "left_off", False):
            return last
    return last


def _give_up(rest: list[Signature], failed: Any) -> Any:
    """End the rest of a chain that does not run: its result is the failure; after a group, that of a chord."""
    if len(rest) > 1 and isinstance(rest[0], group):
        return _chord_error(rest[1], failed)
    return failed


def _chord(sig: chord, args: tuple[Any, ...]) -> Any:
    if sig.body is None:
        raise ImproperlyConfigured("a chord needs a body: chord(header)(body)")
    header = apply(sig.header, args)
    if failure_of(header) is not None:
        return _chord_error(sig.body, header)
    result = apply(sig.body, (value_of(header),))
    _behind(result, header)
    return result


def _chord_error(body: Signature, header: Any) -> EagerResult:
    culprit = failure_of(header)
    error = chord_error(culprit.id, culprit.result)
    result = EagerResult(body.options.get("task_id") or uuid(), error, states.FAILURE, culprit.traceback, body.task)
    result.app = body.app
    result.parent = header
    for errback in list_of(body.options.get("link_error")):
        call_errback(body.app, errback, result.id, error, culprit.traceback)
    return result


def _behind(result: ResultBase, before: ResultBase | None) -> None:
    while result.parent is not None:
        result = result.parent
    if result is not before:
        result.parent = before


def run_callbacks(task: Task, request: Context, result: EagerResult, link: Any, link_error: Any) -> None:
    """Run what was linked to a task that ran in place."""
    if result.state == states.SUCCESS:
        for callback in list_of(link):
            result.children.append(apply(maybe_signature(callback, task.app).clone(), (result.result,)))
    elif result.state == states.FAILURE:
        for errback in list_of(link_error):
            call_errback(task.app, errback, str(request.id), result.result, result.traceback, request)


def call_errback(app: Any, errback: Any, id: str, error: Any, trace: str | None, request: Any = None) -> None:
    from windlass.celery.request import Context

    sig = maybe_signature(errback, app).clone()
    if sig.immutable or sig.members:
        apply(sig, (id,))
        return
    asked = request if request is not None else Context(id=id, called_directly=False, is_eager=True)
    three = sig.type.wanted_as_errback(sig.args, sig.kwargs) == 3
    args = [asked, error, trace, *sig.args] if three else [id, *sig.args]
    sig.type.apply(args, sig.kwargs)
