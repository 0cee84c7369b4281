"""The values of jobs and joins, read from the store as JSON, and ``Failure``, which stands for a value that is missing.

The store keeps no list for a join: this module puts the list together from the results of the join's sources. It joins
their bytes and decodes none of them, so a list of a hundred thousand results costs no more than its bytes.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from windlass.core.codec import decode_any
from windlass.core.failure import read_error
from windlass.core.graph import Input
from windlass.core.job import ErrorInfo, Job, State
from windlass.core.lifecycle import EXPIRED
from windlass.core.links import Inject, Shape
from windlass.store.base import Store

PER_CALL = 4
"""How many nodes one call of ``Store.inputs`` takes."""

IN_FLIGHT = 8
"""How many such calls are under way at a time: enough for a link that pipelines, and few results held twice."""

MARK = b'"windlass":"failure"'
_HIDDEN = b'"windlass":"\\u0066ailure"'
_SEAL = f"failure-{secrets.token_hex(8)}"
_SEALED = f'"windlass":"{_SEAL}"'.encode()

_encode = msgspec.json.Encoder().encode

Read = Callable[[bytes | None], Any]
"""Decodes a value."""


class Failure(msgspec.Struct, frozen=True, tag_field="windlass", tag="failure", omit_defaults=True):
    """Stands for a value that is not there: ``job`` did not succeed.

    ``type`` and ``message`` say why, ``state`` how it ended. Where a whole group is at fault, ``job`` and ``task`` are
    those of the member that failed first. ``traceback`` is there when the failure is the whole value, and left out of
    lists.
    """

    job: str
    task: str
    state: str
    type: str
    message: str
    traceback: str = ""


# -- reading


async def read_value(store: Store, id: str) -> bytes:
    """JSON of a node's value: a job's result, a join's value put together, or the Failure of what did not succeed."""
    (job,) = await store.get([id])
    if job is None:
        return _encode(Failure(id, "", "", "windlass.errors.JobLost", "the store has no record of it any more"))
    node = as_input(job)
    return value_of(node, await _gather(store, [node]))


def as_input(job: Job) -> Input:
    """A record as a source of whoever reads it."""
    shape = job.links.shape if job.links else Shape.CALL
    if job.replaced:
        shape = Shape.ONE
    return Input(job.id, job.task, job.state, Inject.RESULT, shape, job.result, job.error, job.reason)


async def _gather(store: Store, nodes: Iterable[Input]) -> dict[str, list[Input]]:
    """The inputs of these nodes and of all they are made of, level by level."""
    known: dict[str, list[Input]] = {}
    open = [node.id for node in nodes if _has_parts(node)]
    while open:
        found = await _inputs(store, open)
        known.update(zip(open, found, strict=True))
        fresh = (node.id for inputs in found for node in inputs if _has_parts(node) and node.id not in known)
        open = list(dict.fromkeys(fresh))
    return known


async def _inputs(store: Store, ids: Sequence[str]) -> list[list[Input]]:
    """``Store.inputs`` of any number of nodes, in order."""
    calls = [ids[start : start + PER_CALL] for start in range(0, len(ids), PER_CALL)]
    found: list[list[Input]] = []
    for start in range(0, len(calls), IN_FLIGHT):
        for answer in await asyncio.gather(*(store.inputs(call) for call in calls[start : start + IN_FLIGHT])):
            found.extend(answer)
    return found


def _has_parts(node: Input) -> bool:
    return node.result is None and node.shape is not Shape.CALL and node.state is State.SUCCEEDED


# -- putting together


def value_of(node: Input, known: Mapping[str, Sequence[Input]]) -> bytes:
    """JSON of a node's value; ``known`` has the inputs of every join in it."""
    while node.state is State.SUCCEEDED and node.result is None:
        if node.shape is Shape.MANY:
            return b"[" + b",".join(_items(known[node.id], known)) + b"]"
        sources = known[node.id] if node.shape is Shape.ONE else ()
        if not sources:
            return b"null"
        node = sources[0]
    if node.state is State.SUCCEEDED and node.result is not None:
        return node.result
    return _encode(failure_of(node))


def _items(inputs: Sequence[Input], known: Mapping[str, Sequence[Input]]) -> list[bytes]:
    """The items of a join's list, in order. What has not ended yet is left out: the join did not wait for it."""
    items: list[bytes] = []
    for node in inputs:
        if node.state is State.SUCCEEDED:
            if node.inject is Inject.SPLICE:
                _splice(items, node, known)
            else:
                items.append(node.result if node.result is not None else value_of(node, known))
        elif node.inject is not Inject.IF_SUCCEEDED and node.state.terminal:
            items.append(_encode(failure_of(node, whole=False)))
    return items


def _splice(items: list[bytes], node: Input, known: Mapping[str, Sequence[Input]]) -> None:
    if node.result is None and node.shape is Shape.MANY:
        items.extend(_items(known[node.id], known))
        return
    value = value_of(node, known).strip()
    if value.startswith(b"["):
        value = value[1:-1].strip()
    if value:
        items.append(value)


def failure_of(node: Input, *, whole: bool = True) -> Failure:
    """What stands for a source that did not succeed."""
    job, task = (node.id, node.task) if node.task else blamed(node)
    if node.error is not None:
        error = read_error(node.error) or ErrorInfo("", "")
        return Failure(job, task, node.state, error.type, error.message, error.traceback if whole else "")
    kind = {State.CANCELLED: "JobCancelled", State.SKIPPED: "JobSkipped"}.get(node.state, "JobFailed")
    if node.state is State.CANCELLED and node.reason == EXPIRED:
        kind = "JobExpired"
    return Failure(job, task, node.state, f"windlass.errors.{kind}", node.reason or node.state)


def blamed(node: Input) -> tuple[str, str]:
    """The id and task of the job that ``core.graph.because`` names in a join's reason, or the join itself."""
    words = node.reason.split(" ")
    if len(words) in (3, 4) and (words[2:] == ["failed"] or words[2:] == ["was", "cancelled"]):
        return words[1], words[0]
    return node.id, ""


# -- plain values


def decode(data: bytes | None) -> Any:
    """Plain JSON values, with a Failure wherever one was written."""
    return revive(decode_any(sealed(data))) if data is not None and MARK in data else decode_any(data)


def sealed(data: bytes) -> bytes:
    """The same JSON with its marks as ``revive`` knows them: once decoded, what was an object of a task looks alike."""
    return data.replace(MARK, _SEALED)


def hide_marks(data: bytes, value: Any) -> bytes:
    """JSON of a result with marks in it that are none: an object that a task made in the shape of a Failure.

    Written with an escape they are the same JSON, and not the bytes by which a Failure is known. A Failure that a task
    was given and passes on is one still.
    """
    return data if data.count(MARK) == _count_failures(value) else data.replace(MARK, _HIDDEN)


def _count_failures(value: Any) -> int:
    if isinstance(value, Failure):
        return 1
    if isinstance(value, dict):
        return sum(map(_count_failures, value.values()))
    return sum(map(_count_failures, value)) if isinstance(value, list | tuple) else 0


def revive(value: Any) -> Any:
    """What was decoded from ``sealed`` JSON, with its failures as objects, at any depth."""
    if isinstance(value, list):
        return [revive(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("windlass") == _SEAL:
        value = {**value, "windlass": "failure"}
        try:
            return msgspec.convert(value, Failure)
        except msgspec.ValidationError:  # somebody's own object, written before such objects were hidden
            return value
    return {key: revive(item) for key, item in value.items()}
