"""What the console answers: values for pages, terminals and JSON.

Instants are milliseconds on the store's clock, 0 for never; durations are milliseconds too, None where they are not
known. Values of users (arguments, results) are redacted already, and are shown as text, never as markup.
"""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.handles.gates import LimitInfo
from windlass.handles.why import Reason
from windlass.store.reads import StoreInfo


class Value(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value of the user as text: indented JSON, cut at a limit. ``size``: bytes of the whole as it is stored."""

    text: str = ""
    size: int = 0
    cut: bool = False
    hidden: bool = False


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job in a list. ``args``: the beginning of its arguments on one line. ``took``: of its last run."""

    id: str
    task: str
    queue: str
    state: str
    priority: int
    args: str = ""
    error: str = ""
    reason: str = ""
    key: str = ""
    tags: tuple[str, ...] = ()
    workflow: str = ""
    worker: str = ""
    attempts: int = 0
    progress: float | None = None
    enqueued_at: int = 0
    due_at: int = 0
    started_at: int = 0
    finished_at: int = 0
    took: int | None = None


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs. ``cursor`` goes on, empty at the end. ``partial``: the search stopped at its bound before the
    page was full; ``looked``: how many records it read. ``indexed``: an index answers this filter.
    """

    jobs: list[JobRow]
    cursor: str = ""
    partial: bool = False
    looked: int = 0
    indexed: bool = True


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a job, as far as it is known. ``outcome``: ``running``, ``succeeded``, ``failed``, ``retried`` …

    ``run``: which run of the job it is of; a replay begins another, and counts its attempts anew.
    """

    number: int
    outcome: str
    at: int = 0
    took: int | None = None
    worker: str = ""
    error: str = ""
    message: str = ""
    run: int = 1


class ErrorValue(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job failed."""

    type: str
    message: str
    traceback: str = ""
    fingerprint: str = ""


class LogRow(msgspec.Struct, frozen=True):
    """One line a job logged."""

    n: int
    at: int
    level: str
    text: str


class JobDetail(msgspec.Struct, frozen=True, kw_only=True):
    """All there is to say of a job. ``actions``: what this user may do with it in its state."""

    row: JobRow
    args: Value
    result: Value
    error: ErrorValue | None
    attempts: list[Attempt]
    why: list[Reason]
    headers: dict[str, str]
    logs: list[LogRow]
    progress_text: str = ""
    run: int = 1
    crashes: int = 0
    snoozes: int = 0
    version: int = 1
    cancel_requested: bool = False
    source: str = ""
    correlation_id: str = ""
    schedule: str = ""
    unique_key: str = ""
    expires_at: int = 0
    trace_id: str = ""
    parents: list[str] = []
    children: list[str] = []
    actions: tuple[str, ...] = ()


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One slot of a chart. ``busy``: part of the slots of workers in use, 0 to 1. ``open``: it is not over."""

    at: int
    counts: dict[str, int] = {}
    wait: tuple[float | None, float | None, float | None] = (None, None, None)
    run: tuple[float | None, float | None, float | None] = (None, None, None)
    busy: float | None = None
    open: bool = False


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A span of time in slots, oldest first, empty slots included. Triples are p50, p95 and p99 in ms."""

    span: int
    points: list[Point]
    counts: dict[str, int] = {}
    wait: tuple[float | None, float | None, float | None] = (None, None, None)
    run: tuple[float | None, float | None, float | None] = (None, None, None)


class Warn(msgspec.Struct, frozen=True, kw_only=True):
    """Something to look at. ``code``: no_worker, stuck, paused_backlog, stale_worker, breaker_open, dead_growing,
    schedule_paused, store. ``where``: the queue, worker or breaker. ``muted_until``: 0 unless somebody muted it.
    """

    code: str
    text: str
    where: str = ""
    serious: bool = False
    muted_until: int = 0
    muted_by: str = ""
    muted_reason: str = ""


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. ``workers``: live ones that serve it. ``per_minute``: jobs over in the last whole minute by outcome.

    ``flow``: idle, flowing, saturated, stuck, paused, draining or no_worker. ``note``: in the answer to a change, that
    nobody knows this queue.
    """

    name: str
    counts: dict[str, int] = {}
    oldest_ready: int = -1
    lanes: int = 0
    workers: int = 0
    slots: int = 0
    paused: bool = False
    draining: bool = False
    limits: LimitInfo | None = None
    flow: str = "idle"
    per_minute: dict[str, int] = {}
    spark: list[int] = []
    note: str = ""


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker. ``lag``: how late its event loop was of late, in ms. ``memory`` in bytes. ``running``: jobs it has
    taken and not ended: ``busy`` slots, and ``ahead`` besides, which wait for a slot or belong to a batch.

    ``mode``: ``running``, ``quiet`` (it claims nothing more) or ``stopping``. ``ordered``: the last order it was given,
    which it may not have heard of yet, and ``order_reason`` why. ``running``: its claims; ``busy`` of them have a slot,
    ``ahead`` of them start when one is free. ``actions``: what this user may tell it.
    """

    id: str
    host: str
    pid: int
    queues: list[str]
    tasks: int
    alive: bool
    beat_age: int
    started_at: int
    slots: int
    running: int
    busy: int = 0
    ahead: int = 0
    done: int = 0
    memory: int = 0
    cpu: float | None = None
    lag: float | None = None
    version: str = ""
    mode: str = "running"
    ordered: str = ""
    order_reason: str = ""
    actions: tuple[str, ...] = ()
    jobs: list[JobRow] = []


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a schedule made."""

    job: str
    at: int
    state: str


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule. ``spec``: as an editor shows it and takes it back (``cron 0 9 * * 1-5``, ``every 5m``, ``at …``)."""

    name: str
    when: str
    spec: str
    tz: str
    task: str
    queue: str
    args: Value
    paused: str
    in_code: bool
    fired: int
    next_at: int = 0
    last_at: int = 0
    last_job: str = ""
    coming: list[int] = []
    runs: list[Run] = []
    missed: str = ""
    overlap: str = ""


class FaultRow(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters with one fault. ``sample``: the newest of them."""

    fingerprint: str
    count: int
    error: str
    message: str
    tasks: list[str]
    queues: list[str]
    sample: str
    last_at: int = 0


class FaultList(msgspec.Struct, frozen=True, kw_only=True):
    """``partial``: only the newest dead letters were looked at, ``looked`` of them."""

    faults: list[FaultRow]
    total: int
    partial: bool = False
    looked: int = 0


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """Who did what. ``outcome``: ``done``, ``refused: …``, or ``begun`` for one whose end was never heard of."""

    key: str
    at: int
    user: str
    via: str
    action: str
    target: str
    details: dict[str, Any] = {}
    outcome: str = "begun"
    count: int = 0


class AuditList(msgspec.Struct, frozen=True, kw_only=True):
    rows: list[AuditRow]
    cursor: str = ""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A saved filter."""

    name: str
    filter: str
    user: str = ""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One argument in a form. ``kind``: text, integer, number, boolean, choice or json."""

    name: str
    kind: str
    required: bool
    default: str = ""
    choices: tuple[str, ...] = ()
    hint: str = ""


class TaskNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """A task over a span of time. ``over``: jobs that came to their end, ``failed`` of them for good, which is the part
    ``failing`` (0 to 1). Times in ms; ``wait``: from ready until started. ``spark``: ``over`` slot by slot.
    """

    over: int = 0
    failed: int = 0
    retried: int = 0
    per_minute: float = 0.0
    failing: float = 0.0
    run_p50: float | None = None
    run_p95: float | None = None
    wait_p50: float | None = None
    wait_p95: float | None = None
    spark: list[int] = []


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """A task this app declares, or one that live workers do (``here`` False: its arguments are not known).

    ``more``: it takes arguments by any name besides its fields. ``numbers``: None where they were not asked for.
    """

    name: str
    queue: str
    here: bool
    version: int = 1
    doc: str = ""
    fields: list[Field] = []
    more: bool = False
    workers: int = 0
    paused: bool = False
    numbers: TaskNumbers | None = None


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What an action did. ``skipped``: ids with the reason. ``cursor``: there is more, go on from here. ``note``: that
    nobody knows a queue that was named.
    """

    changed: list[str] = []
    skipped: dict[str, str] = {}
    cursor: str = ""
    count: int = 0
    note: str = ""


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs a filter finds. ``exact`` False: at least so many, the count stopped at its bound."""

    count: int
    exact: bool
    looked: int = 0


class QueueHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One queue's part in the health of all; ``flow`` as in ``QueueRow``."""

    name: str
    flow: str
    ready: int
    oldest_ready: int
    text: str = ""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """``ok``: work is flowing wherever there is any."""

    ok: bool
    store: bool
    text: str
    queues: list[QueueHealth] = []
    workers: int = 0


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """What an autoscaler asks for. ``backlog`` = ready + running: what there is work for. ``age``: seconds."""

    queue: str
    ready: int
    running: int
    scheduled: int
    backlog: int
    age: float
    slots: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The first page. ``oldest_ready`` in ms, -1 for none."""

    counts: dict[str, int]
    chart: Chart
    oldest_ready: int
    oldest_queue: str
    depth: int
    slots: int
    busy: int
    workers: int
    queues: list[QueueRow]
    warnings: list[Warn]
    failures: list[JobRow]
    coming: list[ScheduleRow]
    store: StoreInfo
