"""A call of a task on its way to the store: the draft that middleware may change, and the signature that waits."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from windlass.core.ids import make_id
from windlass.core.job import Meta, NewJob
from windlass.core.options import Resolved, pack_call

if TYPE_CHECKING:
    from windlass.task import Task

R = TypeVar("R")


class Draft(msgspec.Struct, kw_only=True):
    """One call, validated and not yet sent. Enqueue middleware may change it."""

    id: str
    task: str
    payload: bytes
    resolved: Resolved
    version: int = 1
    delay: int = 0
    at: int = 0
    correlation_id: str = ""
    headers: dict[str, str] = {}
    options: Mapping[str, Any] = {}

    def to_job(self, source: str, plain_meta: bytes) -> NewJob:
        """The record; ``plain_meta`` is the ready-made encoding for calls with nothing special."""
        rules = self.resolved
        if self.headers or self.correlation_id or self.options:
            meta = Meta(source, self.correlation_id, self.headers, pack_call(self.options)).encode()
        else:
            meta = plain_meta
        return NewJob(
            id=self.id, task=self.task, queue=rules.queue, payload=self.payload, meta=meta, version=self.version,
            priority=rules.priority, delay=self.delay, at=self.at, expires_in=rules.expires_in,
            expires_at=rules.expires_at, expire_to=rules.expire_to, max_crashes=rules.max_crashes,
            keep_done=rules.keep_done, keep_failed=rules.keep_failed,
        )  # fmt: skip


class Signature(Generic[R]):
    """A call that has not been made: what ``task.s(...)`` gives, for ``enqueue_many`` and for workflows."""

    __slots__ = ("args", "kwargs", "options", "task")

    def __init__(
        self, task: Task[Any, R], args: tuple[Any, ...], kwargs: dict[str, Any], options: Mapping[str, Any]
    ) -> None:
        self.task, self.args, self.kwargs, self.options = task, args, kwargs, options

    def draft(self) -> Draft:
        return self.task.draft(self.args, self.kwargs, self.options)

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{key}={value!r}" for key, value in self.kwargs.items())]
        return f"{self.task.name}({', '.join(given)})"


def new_id() -> str:
    """A fresh job id."""
    return make_id(time.time_ns() // 1_000_000, random.getrandbits(72))
