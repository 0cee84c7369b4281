"""A call of a task on its way to the store: the draft that middleware may change, and the signature that waits."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

import msgspec

from windlass.core.codec import encode
from windlass.core.flow_rules import Asked, FlowRules, make_terms, quiet_time
from windlass.core.ids import check_name, make_id
from windlass.core.job import Meta, NewJob
from windlass.core.options import CALL_NAMES, CallOptions, Resolved, pack_call, parse_options
from windlass.core.tags import make_tags
from windlass.core.terms import Terms
from windlass.errors import ConfigError
from windlass.workflows.values import decode
from windlass.workflows.work import PLAIN, Work, not_work, said_of
from windlass.workflows.workflow import Read

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.calls.handle import Handle, SyncHandle
    from windlass.calls.task import Task

R = TypeVar("R")
Given = tuple[tuple[Any, ...], dict[str, Any], bool]
"""The arguments of a call, and whether its first one comes when it runs."""


class Draft(msgspec.Struct, kw_only=True, gc=False):
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
    terms: Terms | None = None
    tags: tuple[str, ...] = ()

    def to_job(self, source: str, plain_meta: bytes) -> NewJob:
        """The record; ``plain_meta`` is the ready-made encoding for calls with nothing special."""
        rules = self.resolved
        if self.headers or self.correlation_id or self.options or self.tags:
            meta = Meta(source, self.correlation_id, self.headers, pack_call(self.options), self.tags).encode()
        else:
            meta = plain_meta
        return NewJob(
            id=self.id, task=self.task, queue=rules.queue, payload=self.payload, meta=meta, version=self.version,
            priority=rules.priority, delay=self.delay, at=self.at, expires_in=rules.expires_in,
            expires_at=rules.expires_at, expire_to=rules.expire_to, max_crashes=rules.max_crashes,
            keep_done=rules.keep_done, keep_failed=rules.keep_failed, terms=self.terms,
        )  # fmt: skip


class Signature(Work[R]):
    """A call that has not been made: what ``task.s(...)`` gives. The smallest work, and a part of larger ones.

    ``task`` is None where only the name is known; its arguments are then by name, and checked by the worker. Of a job
    that makes many calls (``each``), ``args`` are the lists of their arguments.
    """

    kind = "call"

    __slots__ = ("app", "args", "each", "extras", "immutable", "kwargs", "name", "options", "task")

    def __init__(
        self, app: Windlass, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], options: Mapping[str, Any], *,
        task: Task[Any, R] | None = None, immutable: bool = False, each: str = "",
    ) -> None:  # fmt: skip
        self.app, self.name, self.task = app, name, task
        self.args, self.kwargs, self.options = args, kwargs, options
        self.immutable, self.each, self.extras = immutable, each, PLAIN

    def set(self, **options: Unpack[CallOptions]) -> Self:
        """The same call with other options: queue, priority, delay, retries, timeout, id, headers and so on."""
        other = copy.copy(self)
        other.options = {**self.options, **parse_options(options, CALL_NAMES, f"task {self.name}")}
        return other

    def draft(self, *, fed: bool = False, stable: bool = False) -> Draft:
        """The call, checked and encoded. ``fed``: its first argument comes when it runs."""
        task, stable = self.task or self.app.tasks.get(self.name), stable or needs_stable(self.options)
        cap = self.app.settings.max_payload
        if task is None:
            payload = encode(self.kwargs, f"task {self.name}: the arguments", cap, stable=stable)
            return self.app.draft_by_name(self.name, payload, self.options)
        if self.each:
            payload = task.codec.encode_each(map(list, self.args), cap, stable=stable)
            return self.app.make_draft(task, payload, {**self.options, "each": self.each})
        fields = task.codec.encode_rest if fed else task.codec.encode
        payload = fields(self.args, self.kwargs, cap, stable=stable)
        return self.app.make_draft(task, payload, self.options, (self.args, self.kwargs, fed))

    def parts(self) -> Iterable[Work[Any]]:
        return ()

    def reader(self) -> Read:
        return result_reader(self.app, self.name, bool(self.each))

    async def enqueue(self) -> Handle[R]:
        """Accept it as an ordinary job. With callbacks it is a workflow, and so is what this answers then."""
        if self.has_callbacks:
            return cast("Handle[R]", await self._enqueue())
        return await self.app.submit_one(self.alone())

    def delay(self) -> SyncHandle[R]:
        """The same for sync code, from any thread."""
        if self.has_callbacks:
            return cast("SyncHandle[R]", self._delay())
        return self.app.sync.submit_one(self.alone())

    def __await__(self) -> Generator[Any, None, Handle[R]]:
        return self.enqueue().__await__()

    def alone(self) -> Draft:
        """The draft of a job of its own; what only a workflow has is an error."""
        if self.extras is not PLAIN:
            said = ", ".join(said_of(self.extras))
            hint = "; .set(id=...) gives a job its id" if self.extras.id else ""
            raise ConfigError(f"{self!r}: {said} is for workflows, and this is a job of its own{hint}")
        return self.draft()

    def __repr__(self) -> str:
        if self.each:
            return f"{self.name}.{self.each}({len(self.args)} items)"
        given = [*map(repr, self.args), *(f"{key}={value!r}" for key, value in self.kwargs.items())]
        return f"{self.name}({', '.join(given)})"


def result_reader(app: Windlass, name: str, each: bool = False) -> Read:
    """How a task's result is read, or the list of results of one job that makes many calls."""
    task = app.tasks.get(name)
    if task is None:
        return decode
    return task.codec.decode_results if each else task.codec.decode_result


def by_name(
    app: Windlass, task: object, args: Mapping[str, Any] | None, options: Mapping[str, object], immutable: bool
) -> Signature[Any]:
    """A call by name, checked as far as it can be here. A task that is declared by then is checked at submit."""
    if callable(task):
        raise not_work(task, "the first argument of app.sig()")
    if args is not None and not isinstance(args, Mapping):
        raise ConfigError(f"app.sig({task!r}): the arguments are {args!r}; give a mapping by name")
    name, layer = check_name("task", task), parse_options(options, CALL_NAMES, f"app.sig({task!r})")
    return Signature(app, name, (), dict(args or {}), layer, immutable=immutable)


def set_terms(draft: Draft, flow: FlowRules, bind: Callable[[], dict[str, Any]] | None) -> None:
    """Work out under which terms a call's job may come in and start. ``bind``: its arguments, where they are known."""
    draft.terms = make_terms(flow, Asked(draft.task, draft.payload, bind))
    quiet = quiet_time(flow, draft.terms)
    if quiet:
        if draft.at:
            raise ConfigError(f"task {draft.task}: a debounced call is delayed by unique_for=; it takes no at=")
        draft.delay = draft.delay or quiet


def set_tags(draft: Draft, bind: Callable[[], dict[str, Any]] | None) -> None:
    """What a call's job is found by. Where its arguments are not known here, only what is written."""
    search = draft.resolved.search
    draft.tags = make_tags(draft.resolved.tags, search, bind() if search and bind is not None else {})


def needs_stable(options: Mapping[str, Any]) -> bool:
    """Whether a call's payload is compared with that of others: equal arguments must be equal bytes then."""
    return "id" in options or options.get("unique") is True


def new_id() -> str:
    """A fresh job id."""
    return make_id(time.time_ns() // 1_000_000, random.getrandbits(72))
