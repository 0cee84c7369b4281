"""``self.request``: the running call in Celery's words, and what travels with a call for it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass import Current

HEADER = "celery"
"""The one header under which this layer keeps what Windlass has no field for."""


class Extra(msgspec.Struct, omit_defaults=True):
    """What travels with a job besides its arguments.

    ``parent`` and ``root``: the tasks this one was called by. ``group``, ``index``: its place in a group. ``chord``: it
    is a chord's body. ``headed``: it is in a chord's header, to which more may be added. ``children``: what follows it,
    as tuples of ids. ``errback``: how many arguments it takes as an error callback; ``about``: the chord body it is an
    error callback of. ``retries``, ``id``: those of the task that it continues after a retry with other arguments.
    ``nesting``: how often the task it comes from was replaced. ``headers``: the caller's headers that are not text. The
    other fields: options of the call.
    """

    parent: str | None = None
    root: str | None = None
    group: str | None = None
    index: int | None = None
    chord: bool = False
    children: list[Any] = []
    errback: int = 0
    about: str | None = None
    retries: int = 0
    id: str | None = None
    headers: dict[str, Any] = {}
    eta: str | None = None
    expires: str | None = None
    ignore_result: bool | None = None
    headed: bool = False
    nesting: int = 0
    properties: dict[str, Any] = {}


_decoder = msgspec.json.Decoder(Extra)
_EMPTY = Extra()


def write_extra(extra: Extra, headers: Mapping[str, Any] | None) -> dict[str, str]:
    """A job's headers: the caller's texts unchanged, everything else in one header of ours."""
    texts = {key: value for key, value in (headers or {}).items() if isinstance(value, str)}
    others = {key: value for key, value in (headers or {}).items() if not isinstance(value, str)}
    if others:
        extra = msgspec.structs.replace(extra, headers=others)
    data = msgspec.json.encode(extra)
    return texts if data == b"{}" else {**texts, HEADER: data.decode()}


def read_extra(headers: Mapping[str, str]) -> Extra:
    data = headers.get(HEADER)
    if data is None:
        return _EMPTY
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return _EMPTY  # another program's header of the same name


class Context:
    """What a task knows about its call. Outside of a run it has the defaults."""

    args: Any = None
    kwargs: Any = None
    id: str | None = None
    task: str | None = None
    retries: int = 0
    called_directly: bool = True
    is_eager: bool = False
    callbacks: Any = None
    errbacks: Any = None
    chain: Any = None
    chord: Any = None
    group: str | None = None
    group_index: int | None = None
    parent_id: str | None = None
    root_id: str | None = None
    correlation_id: str | None = None
    delivery_info: Any = None
    hostname: str | None = None
    headers: Any = None
    eta: Any = None
    expires: Any = None
    timelimit: Any = None
    time_limit: Any = None
    soft_time_limit: Any = None
    ignore_result: bool = False
    origin: str | None = None
    reply_to: Any = None
    shadow: Any = None
    utc: bool = True
    loglevel: Any = None
    logfile: Any = None
    properties: Any = None
    stamps: Any = None
    stamped_headers: Any = None
    replaced_task_nesting: int = 0
    extra: Extra = _EMPTY

    @property
    def task_name(self) -> str | None:
        """The task's name, as receivers of ``task_received`` ask for it."""
        return self.task

    name = task_name

    def __init__(self, **values: Any) -> None:
        self.children: list[Any] = []
        self.update(**values)

    def update(self, *args: Mapping[str, Any], **values: Any) -> None:
        self.__dict__.update(*args, **values)

    def clear(self) -> None:
        self.__dict__.clear()
        self.children = []

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)

    def __repr__(self) -> str:
        return f"<Context: {vars(self)!r}>"


def context_of(job: Current, task: Any, args: list[Any], kwargs: dict[str, Any]) -> Context:
    """The running Windlass job as Celery's code sees it."""
    extra = read_extra(job.headers)
    own = {key: value for key, value in job.headers.items() if key != HEADER} | extra.headers
    limits = [limit_of(job, "timeout", task.time_limit), limit_of(job, "soft_timeout", task.soft_time_limit)]
    return Context(
        id=extra.id or job.id, task=task.name, args=args, kwargs=kwargs, retries=extra.retries + job.attempt - 1,
        called_directly=False, correlation_id=job.correlation_id, parent_id=extra.parent,
        root_id=extra.root or extra.id or job.id, group=extra.group, group_index=extra.index,
        chord=extra.group if extra.chord else None, headers=own or None, hostname=node_name(),
        delivery_info={
            "exchange": "", "routing_key": job.queue, "priority": job.claim.priority,
            "redelivered": job.crashes > 0 or job.snoozes > 0,
        },
        timelimit=None if limits == [None, None] else limits, time_limit=limits[0], soft_time_limit=limits[1],
        eta=extra.eta, expires=extra.expires, ignore_result=bool(task.ignore_result), origin=job.meta.source,
        extra=extra, replaced_task_nesting=extra.nesting,
        properties={**extra.properties, "correlation_id": job.correlation_id, "priority": job.claim.priority},
    )  # fmt: skip


def limit_of(job: Current, name: str, of_task: float | None) -> float | None:
    """The limit in effect for a run, in seconds: the call's own, else the task's."""
    own = job.meta.options.get(name)
    return (own / 1000 if own is not None else of_task) or None


def node_name() -> str:
    """A worker's name as Celery writes it."""
    return f"celery@{socket.gethostname()}"
