"""Makes Windlass works of Celery's signatures, and Celery's results of their ids.

First every task gets its id and the results are connected (``freeze``); then the works are made, and each job is told
its neighbours. Windlass decides what runs when, and what a failure means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain as each_of
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import windlass
from windlass import Work
from windlass.celery import _state, signals
from windlass.celery.canvas import Signature, chain, chord, chunks, group, list_of, maybe_signature, xmap, xstarmap
from windlass.celery.exceptions import ImproperlyConfigured
from windlass.celery.ids import drop_taken, first_of, freeze, last_id, single_out
from windlass.celery.json_values import pack, pack_all
from windlass.celery.request import Extra, write_extra
from windlass.celery.result import GroupResult, ResultBase
from windlass.celery.routes import route
from windlass.celery.utils import uuid
from windlass.core.hints import did_you_mean
from windlass.errors import IdConflict

if TYPE_CHECKING:
    from windlass.celery.app import Celery
    from windlass.celery.task import Task

W = TypeVar("W", bound=Work[Any])

EXTRA = "windlass_extra"
"""The option under which a call brings fields of ``Extra`` along."""

PROPERTIES = frozenset({"app_id", "message_id", "user_id", "cluster_id", "reply_to", "type"})

_NO_EFFECT = frozenset(
    {"retry", "retry_policy", "producer", "connection", "shadow", "add_to_parent", "routing_key", "exchange",
     "exchange_type", "delivery_mode", "mandatory", "immediate", "publisher", "parent_id", "root_id",
     "group_id", "group_index", "chord", "retries", "route_name", "ignore_result", "link", "link_error", "task_id",
     "headers", "countdown", "eta", "expires", "queue", "priority", "time_limit", "soft_time_limit", "serializer",
     "correlation_id", "argsrepr", "kwargsrepr", "chain", *PROPERTIES, EXTRA}
)  # fmt: skip
_CALL = ("countdown", "eta", "expires", "queue", "priority", "time_limit", "soft_time_limit", "task_id", "headers",
         "ignore_result", "link", "link_error")  # fmt: skip


class Position(NamedTuple):
    """Where a signature stands: what it is given, and what surrounds it.

    ``chord``: it is a chord's body. ``bare``: its caller handles its error callbacks. ``fed``: it is given a value.
    ``used``: its value is given to another task, so it is kept whatever the task says. ``after``: what follows.
    ``headed``: it is in a chord's header. ``nesting``: how often the task it comes from was replaced.
    """

    parent: str | None = None
    root: str | None = None
    group: str | None = None
    number: int | None = None
    chord: bool = False
    bare: bool = False
    fed: bool = False
    used: bool = False
    errback: bool = False
    body: str | None = None
    after: tuple[ResultBase, ...] = ()
    headed: bool = False
    nesting: int = 0


# -- options


def options_of(app: Celery, sig: Signature, extra: Extra, *, queue_of: str = "", told: bool = True) -> dict[str, Any]:
    """A call's options in Windlass's words: those of the call, over the task's, over the routes'.

    ``told``: tell signal receivers that the task goes out.
    """
    name, given = queue_of or sig.task, sig.options
    for option in given:
        if option not in _NO_EFFECT:
            raise ImproperlyConfigured(f"task {sig.task} got an unknown option {option!r}{did_you_mean(option, _CALL)}")
    if given.get("serializer") not in (None, "json"):
        raise ImproperlyConfigured(
            f"task {sig.task}: serializer={given['serializer']!r}, and Windlass carries JSON only"
        )
    task = app.tasks.get(name)
    routed = route(app.conf.task_routes, name, (sig.args, sig.kwargs, given, task))
    own = {} if task is None else {"queue": task.own_queue, "priority": task.priority, "expires": task.expires}
    merged = {"priority": app.conf.task_default_priority, **routed}
    merged.update({key: value for key, value in (*own.items(), *given.items()) if value is not None})
    _check_limits(task, merged)
    options: dict[str, Any] = {"id": given.get("task_id") or uuid()}
    _timing(app, merged, options, extra)
    queue = merged.get("queue")
    if queue is not None or task is None:
        queue = app.conf.task_default_queue if queue is None else queue
        options["queue"] = queue if isinstance(queue, str) else getattr(queue, "name", str(queue))
    for theirs, ours in (("priority", "priority"), ("time_limit", "timeout"), ("soft_time_limit", "soft_timeout")):
        if merged.get(theirs) is not None:
            options[ours] = merged[theirs]
    if merged.get("ignore_result") is not None:
        options["result"] = not merged["ignore_result"]
    if merged.get("correlation_id"):
        options["correlation_id"] = merged["correlation_id"]
    headers = _published(app, sig, options, dict(merged.get("headers") or {}), told)
    if texts := write_extra(extra, headers):
        options["headers"] = texts
    return options


def _check_limits(task: Task | None, given: Mapping[str, Any]) -> None:
    if task is not None:
        task.check_limits(given)


def _timing(app: Celery, given: Mapping[str, Any], options: dict[str, Any], extra: Extra) -> None:
    if given.get("eta") is not None:
        options["at"] = app.instant(given["eta"])
        extra.eta = options["at"].isoformat()
    elif given.get("countdown") is not None:
        options["delay"] = max(0, given["countdown"])
        extra.eta = (datetime.now(UTC) + timedelta(seconds=options["delay"])).isoformat()
    expires = given.get("expires")
    if expires is None:
        return
    if isinstance(expires, str):
        expires = datetime.fromisoformat(expires)
    if isinstance(expires, datetime):
        options["expires"] = app.instant(expires)
        extra.expires = options["expires"].isoformat()
    else:
        seconds = expires.total_seconds() if isinstance(expires, timedelta) else float(expires)
        options["expires"] = max(0.001, seconds)
        extra.expires = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def _published(
    app: Celery, sig: Signature, options: Mapping[str, Any], headers: dict[str, Any], told: bool
) -> dict[str, Any]:
    """Tell signal receivers that a task goes out; they may add headers."""
    if told and signals.before_task_publish.has_listeners():
        known = {"id": options["id"], "task": sig.task}
        seen: dict[str, Any] = {**headers, **known}
        signals.before_task_publish.send(
            sender=sig.task, body=(list(sig.args), dict(sig.kwargs), {}), headers=seen, exchange="", properties={},
            routing_key=options.get("queue", app.conf.task_default_queue), declare=[], retry_policy=None,
        )  # fmt: skip
        headers = {key: value for key, value in seen.items() if key not in known}
    return headers


# -- works


def work_of(
    app: Celery, sig: Signature, *, parent: str | None = None, root: str | None = None, nesting: int = 0
) -> Work[Any]:
    """The work for a signature that takes a running task's place."""
    made = sig.group() if isinstance(sig, chunks) else sig.clone()
    if single_out(made):
        drop_taken(app, made)
    freeze(app, made)
    return work(app, made, Position(parent=parent, root=root, used=True, nesting=nesting))


def work(app: Celery, sig: Signature, place: Position) -> Work[Any]:
    """The work for one frozen signature, with its callbacks."""
    if isinstance(sig, chain):
        return _with_callbacks(app, sig, _chain(app, sig, place), place)
    if isinstance(sig, chord):
        return _chord(app, sig, place)
    return _group(app, sig, place) if isinstance(sig, group) else _call(app, sig, place)


def _chain(app: Celery, sig: chain, place: Position) -> Work[Any]:
    steps, results = sig.tasks, [freeze(app, step) for step in sig.tasks]
    root = place.root or last_id(results[0])
    works: list[Work[Any]] = []
    for number, step in enumerate(steps):
        follows_group = number > 0 and isinstance(steps[number - 1], group)
        here = place._replace(
            root=root, parent=last_id(results[number - 1]) if number else place.parent, fed=place.fed or number > 0,
            chord=follows_group or (place.chord and not number), bare=follows_group and not isinstance(step, group),
            used=place.used or number < len(steps) - 1, errback=place.errback and not number,
            headed=number < len(steps) - 1 if isinstance(step, group) else place.headed and number == len(steps) - 1,
            after=_next(step, results[number + 1 :]) or place.after,
        )  # fmt: skip
        made = work(app, step, here)
        if here.bare:
            # A group and what follows it are a chord: the body's error callbacks also run for the header's failures.
            made = _errbacks(app, step, windlass.chain(works.pop(), made), here, last_id(results[number]))
        elif follows_group:
            works[-1] = _unreached(app, step, works[-1], here)
        works.append(made)
    return windlass.chain(*works)


def _next(step: Signature, results: Sequence[ResultBase]) -> tuple[ResultBase, ...]:
    """What follows a step, to be known by each of its tasks. A group that follows a group is left out: it would be told
    too often.
    """
    if not results:
        return ()
    found = first_of(results[0])
    return () if isinstance(found, GroupResult) and isinstance(step, group | chord) else (found,)


def _chord(app: Celery, sig: chord, place: Position) -> Work[Any]:
    header, body = freeze(app, sig.header), freeze(app, sig.body)
    ahead = place._replace(after=_next(sig.header, [body]), chord=False, bare=False, used=True, headed=True)
    first = _unreached(app, sig.body, _group(app, sig.header, ahead), place)
    behind = place._replace(
        chord=True, headed=False, bare=True, fed=True, errback=False, parent=last_id(header) or place.parent
    )
    made: Work[Any] = windlass.chord(first, work(app, sig.body, behind))
    return _errbacks(app, sig.body, made, place, last_id(body))


def _group(app: Celery, sig: group, place: Position) -> windlass.Group[Any]:
    here = place._replace(group=sig.options["task_id"], bare=False)
    made = windlass.group([work(app, task, here._replace(number=number)) for number, task in enumerate(sig.tasks)])
    for link in _linked(app, sig, "link"):
        freeze(app, link)
        made = made.then(work(app, link, Position(parent=place.parent, root=place.root, fed=True)))
    return made


def _call(app: Celery, sig: Signature, place: Position) -> Work[Any]:
    links = [(link, freeze(app, link)) for link in _linked(app, sig, "link")]
    extra = Extra(
        parent=place.parent, root=place.root, group=place.group, index=place.number, headed=place.headed,
        nesting=place.nesting, properties=_properties(sig),
        chord=place.chord, children=[result.as_tuple() for result in (*place.after, *(found for _, found in links))],
    )  # fmt: skip
    for name, value in sig.options.get(EXTRA, {}).items():
        setattr(extra, name, value)
    args, kwargs = list(sig.args), dict(sig.kwargs)
    if place.errback and not sig.immutable:
        extra.errback, extra.about = wanted(app, sig), place.body
        args = [None] * (extra.errback - 1) + args
    made = _made(app, sig, args, kwargs, extra, fed=place.fed)
    if place.used or links:
        made = made.set(result=True)
    for link, _ in links:
        made = made.then(work(app, link, _behind(sig, place)))
    return made if place.bare else _errbacks(app, sig, made, place)


def _properties(sig: Signature) -> dict[str, Any]:
    """What a call says about its message, which the task finds in ``request.properties``."""
    return {name: value for name, value in sig.options.items() if name in PROPERTIES and value is not None}


def _behind(sig: Signature, place: Position) -> Position:
    """The position of a callback."""
    parent = sig.options.get("task_id") or place.parent
    return Position(parent=parent, root=place.root or parent, fed=True)


def _with_callbacks(app: Celery, sig: Signature, made: Work[Any], place: Position) -> Work[Any]:
    last = last_id(freeze(app, sig))
    behind = Position(parent=last, root=place.root or last, fed=True)
    for link in _linked(app, sig, "link"):
        freeze(app, link)
        made = made.then(work(app, link, behind))
    return made if place.bare else _errbacks(app, sig, made, place)


def _errbacks(app: Celery, sig: Signature, made: Work[Any], place: Position, body: str | None = None) -> Work[Any]:
    """Add the error callbacks of a signature. Those of a chord's ``body`` also run for its header's failures."""
    for errback in _linked(app, sig, "link_error"):
        freeze(app, errback)
        made = made.on_error(work(app, errback, _behind(sig, place)._replace(errback=True, body=body)))
    return made


def _unreached(app: Celery, sig: Signature, before: W, place: Position) -> W:
    """Add, to what leads to a group or chord, the error callbacks of its tasks: they would not run if the group is
    never reached.
    """
    for end in _ends(sig) if isinstance(sig, group | chord) else []:
        id = last_id(freeze(app, end))
        for errback in _linked(app, end, "link_error"):
            errback.options.pop("task_id", None)  # its own id is used when the task itself fails
            freeze(app, errback)
            before = before.on_error(work(app, errback, _behind(end, place)._replace(errback=True, body=id)))
    return before


def _ends(sig: Signature) -> Iterable[Signature]:
    if isinstance(sig, chord):
        return _ends(sig.body)
    return each_of.from_iterable(map(_ends, sig.tasks)) if isinstance(sig, group) else [sig]


def _linked(app: Celery, sig: Signature, name: str) -> list[Signature]:
    return [maybe_signature(found, app).clone() for found in list_of(sig.options.get(name))]


def wanted(app: Celery, sig: Signature) -> int:
    """How many arguments an error callback takes: three (request, exc, traceback), or one, the failed task's id."""
    task = app.tasks.get(sig.task)
    if task is None:
        return 1
    return task.wanted_as_errback(sig.args, sig.kwargs)


def _made(
    app: Celery, sig: Signature, args: list[Any], kwargs: dict[str, Any], extra: Extra, *, fed: bool
) -> windlass.Signature[Any]:
    inner = sig.kwargs["task"].task if isinstance(sig, xmap | xstarmap) else ""
    return _call_of(
        app, sig, args, kwargs, options_of(app, sig, extra, queue_of=inner), checked=not extra.errback, fed=fed
    )


def _call_of(
    app: Celery, sig: Signature, args: list[Any], kwargs: dict[str, Any], options: dict[str, Any], *, checked: bool,
    fed: bool,
) -> windlass.Signature[Any]:  # fmt: skip
    task = app.tasks.get(sig.task)
    if task is None:
        by_name = {"*args": pack_all(args), **pack(kwargs)} if args else pack(kwargs)
        by_name_only: windlass.Signature[Any] = app.windlass.sig(sig.task, by_name, **options)
        return by_name_only
    if checked:
        task.check_arguments([None, *args] if fed and not sig.immutable else args, kwargs)
    declared = app.declared(sig.task)
    make_call = declared.si if sig.immutable else declared.s
    return make_call(*pack_all(args), **pack(kwargs)).set(**options)


def periodic_call(app: Celery, sig: Signature) -> windlass.Signature[Any]:
    """A call that is made again and again, so it must not contain anything that belongs to one moment."""
    for name in ("eta", "link", "link_error"):
        if sig.options.get(name):
            raise ImproperlyConfigured(f"a periodic task cannot have {name}; let a task of your own make that call")
    if isinstance(sig, chain | chord | group | chunks):
        raise ImproperlyConfigured(f"a periodic task is one task, and {sig!r} is several; let a task call them")
    options = options_of(app, sig, Extra(), told=False)
    del options["id"]
    options.pop("headers", None)
    if texts := write_extra(Extra(), sig.options.get("headers")):
        options["headers"] = texts
    return _call_of(app, sig, list(sig.args), dict(sig.kwargs), options, checked=True, fed=False)


# -- sending


def submit(app: Celery, sig: Signature, asked: str | None = None) -> ResultBase:
    """Hand a signature to the store, as a whole or not at all. Answers its result. ``asked``: the id given by this very
    call.
    """
    brought = single_out(sig)
    if brought and isinstance(sig, group) and sig.id != asked:
        drop_taken(app, sig, asked)  # a group under its own id would be taken for an existing one
    try:
        result = _submit(app, sig)
    except IdConflict:
        if not brought:
            raise
        drop_taken(app, sig, asked if sig.members else sig.id)
        result = _submit(app, sig)
    frame = _state.current_frame()
    if frame is not None and sig.options.get("add_to_parent", True):
        frame.task.add_trail(result)
    _told(sig)
    return result


def _submit(app: Celery, sig: Signature) -> ResultBase:
    frame = _state.current_frame()
    caller = frame.request if frame is not None and not frame.request.called_directly else None
    result = freeze(app, sig)
    if isinstance(sig, group) and not sig.tasks:
        return result
    whole = uuid() if not isinstance(result, GroupResult) or result.parent is not None else str(result.id)
    lone = not isinstance(sig, chain | chord | group) and not (sig.options.get("link") or sig.options.get("link_error"))
    made = work(app, sig, Position(parent=caller.id, root=caller.root_id) if caller is not None else Position())
    if lone or (isinstance(made, windlass.Signature) and not made.has_callbacks):
        made.delay()
    else:
        made.with_id(whole).delay()
    if isinstance(result, GroupResult) and len(result) == 1 and isinstance(result[0], GroupResult):
        return result[0]  # as in Celery: a group of one that ends in a group has the inner group's results
    return result


def _told(sig: Signature) -> None:
    if signals.after_task_publish.has_listeners():
        for found in leaves([sig]):
            signals.after_task_publish.send(
                sender=found.task, headers={"id": found.options["task_id"], "task": found.task}, exchange="",
                body=(list(found.args), dict(found.kwargs), {}), routing_key=found.options.get("queue"),
            )  # fmt: skip


def leaves(sigs: Sequence[Signature]) -> Iterable[Signature]:
    for sig in sigs:
        if sig.members or sig.is_empty:
            yield from leaves(sig.members)
        else:
            yield sig
