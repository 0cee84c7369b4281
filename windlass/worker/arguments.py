"""The arguments a job's function is called with: its payload, and what its workflow brings, typed by annotation.

A value from a workflow is put into the payload as JSON before decoding, so that the function's annotations hold for it
as for any other argument. This module prepares the call and never makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, get_args, get_origin

import msgspec

from windlass.core import codec
from windlass.core.codec import BadArguments
from windlass.core.links import Inject
from windlass.errors import Cancel, PayloadError, UnknownTask
from windlass.handles.results import MARK, decode, revive, sealed

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.calls.context import Current
    from windlass.calls.task import Task
    from windlass.core.job import Claim

Ready = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function, and what to call it with."""

_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_encode = msgspec.json.Encoder().encode


class Each(msgspec.Struct):
    """The payload of a job that calls its task once per item: the positional arguments of each call."""

    each: list[list[msgspec.Raw]]


_each_decoder = msgspec.json.Decoder(Each)


class Asked(Protocol):
    """A run, as far as its arguments are concerned."""

    app: Windlass
    claim: Claim
    function: Task[Any, Any] | Callable[..., Any] | None
    fault: str
    each: str

    def many(self, task: Task[Any, Any]) -> Ready: ...


def arguments(run: Asked) -> Ready:
    """The function to call, and its arguments; PayloadError when the payload does not fit."""
    claim, function = run.claim, run.function
    if run.fault:
        raise PayloadError(f"task {claim.task}: {run.fault}")
    if function is None:
        raise UnknownTask(f"this worker does not declare task {claim.task!r}")
    task = run.app.tasks.get(claim.task)
    if task is None:
        return run.app.handlers[claim.queue], (claim.task, for_handler(claim)), {}
    if run.each:
        return run.many(task)
    payload = claim.payload
    if claim.version != task.version:
        payload = upcast(task, claim.version, payload)
    if claim.inject is Inject.RESULT:
        return with_value(task, payload, claim.given or b"null")
    args, kwargs = task.codec.decode(payload)
    return task.fn, args, kwargs


def upcast(task: Task[Any, Any], version: int, payload: bytes) -> bytes:
    """An older payload, brought up to the declared version step by step."""
    fields = codec.decode_any(payload)
    for step in range(version, task.version):
        try:
            fields = task.upcast[step](fields)
        except Exception as error:
            raise PayloadError(f"task {task.name}: upcast from version {step} failed: {error!r}") from error
    return codec.encode(fields, f"task {task.name}: the upcast arguments", 1 << 62)


# -- what a workflow brings


def for_handler(claim: Claim) -> Any:
    """A handler for any name gets its arguments as they are, and a workflow's value under the name "result"."""
    payload = codec.decode_any(claim.payload)
    if claim.inject is Inject.RESULT and isinstance(payload, dict):
        payload["result"] = decode(claim.given)
    return payload


def with_value(task: Task[Any, Any], payload: bytes, given: bytes) -> Ready:
    """The call with a workflow's value as its first argument."""
    known = task.codec
    fields: dict[str, Any] = dict(_fields_decoder.decode(payload))
    name = known.positional[0] if known.positional else known.var_positional
    has_failures = MARK in given and name != "" and is_untyped(known.hints[name])
    given = sealed(given) if has_failures else given
    if known.positional:
        fields[name] = msgspec.Raw(given)
    elif name:
        rest = fields.get(f"*{name}")
        fields[f"*{name}"] = [msgspec.Raw(given), *(_items_decoder.decode(rest) if rest is not None else ())]
    else:
        raise BadArguments(
            f"task {task.name}{known.signature}: it takes no positional argument, so there is no place for the value "
            "of the workflow's previous step; use .si(...) to leave it out"
        )
    try:
        args, kwargs = known.decode(_encode(fields))
    except PayloadError as error:
        raise BadArguments(f"{error} ({name!r} is the value of the workflow's previous step)") from error
    if has_failures:
        args = (revive(args[0]), *args[1:])
    return task.fn, args, kwargs


def is_untyped(hint: Any) -> bool:
    """Whether an annotation allows any value, so that a failure may be passed as what it is."""
    if get_origin(hint) is list:
        return all(map(is_untyped, get_args(hint)))
    return hint in (Any, object, list)


# -- one job, many calls


def in_turn(current: Current, task: Task[Any, Any], claim: Claim) -> Callable[[], Any]:
    """A function that calls the task for each item in turn and returns the list of results."""
    try:
        items = _each_decoder.decode(claim.payload).each
    except msgspec.MsgspecError as error:
        raise BadArguments(f"task {task.name}: the payload of a map does not fit: {error}") from error
    calls = [one_of_many(task, claim.version, number, item) for number, item in enumerate(items)]

    def called() -> list[Any]:
        results = []
        for args, kwargs in calls:
            go_on(current)
            results.append(task.fn(*args, **kwargs))
        return results

    async def awaited() -> list[Any]:
        results = []
        for args, kwargs in calls:
            go_on(current)
            results.append(await task.fn(*args, **kwargs))
        return results

    return awaited if task.is_async else called


def go_on(current: Current) -> None:
    """Stop between two items if a cancel was requested."""
    if current.cancelled:
        raise Cancel("cancelled")


def one_of_many(
    task: Task[Any, Any], version: int, number: int, item: Sequence[msgspec.Raw]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    known = task.codec
    fields: dict[str, Any] = dict(zip(known.positional, item, strict=False))
    rest = list(item[len(known.positional) :])
    if rest and not known.var_positional:
        raise BadArguments(f"task {task.name}{known.signature}: item {number} has {len(item)} arguments")
    if rest:
        fields[f"*{known.var_positional}"] = rest
    payload = _encode(fields)
    try:
        return known.decode(upcast(task, version, payload) if version != task.version else payload)
    except PayloadError as error:
        raise BadArguments(f"item {number}: {error}") from error
