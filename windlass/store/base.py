"""The store contract: what every engine does, in the language of jobs. It says what; the conformance suite proves it.

An engine keeps jobs and moves them. It applies transitions and the small rules of ``core.lifecycle``; it chooses
nothing and never looks into payloads. All methods are coroutines on the loop that opened the store; each is one atomic
step and safe to send again after a lost reply. Driver exceptions come out as ``StoreError`` or ``StoreUnavailable``.

The contract has five parts: ``Jobs``, ``Flow``, ``Graphs``, ``Items`` (in ``items.py``) and ``Reads``. A ``Store`` is
all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec

from windlass.core.event import Entry
from windlass.core.graph import GraphInfo, Input, NewGraph
from windlass.core.job import Claim, Fence, Finished, Job, LogLine, NewJob, State
from windlass.core.keep import DEFAULT_KEEP, Keep
from windlass.core.lifecycle import Transition
from windlass.core.limits import NO_LIMITS, Limits, over
from windlass.core.terms import Terms
from windlass.store import answers
from windlass.store.items import Items

MAX_BATCH = answers.MAX_BATCH
Accept = answers.Accept
Answer = answers.Answer
GraphAnswer = answers.GraphAnswer

INLINE_MAX = 16_384
"""Results up to this size are pushed to waiting clients along with the news."""

EVERY_EVENT = "*"
"""Watching this id means being told of every new event entry."""

Deliver = Callable[[list[Finished]], None]
"""Called on the loop that listens: with what finished, or with an empty list for a plain wake-up."""

Clock = Callable[[], int]
"""Milliseconds since the epoch, as the host sees them."""


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine needs to know of the app. ``name`` keeps apps apart that share a server."""

    name: str = "windlass"
    keep: Keep = DEFAULT_KEEP
    unknown_after: int = 3_600_000
    events_kept: int = 10_000
    logs_kept: int = 1_000
    scan_limit: int = 10_000
    staged_for: int = 3_600_000
    audit_every: int = 60_000


class Declared(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker says of one task: the payload versions it reads, and at how many crashes its jobs are given up.

    ``max_crashes`` (0: no opinion) lowers the record's own limit, so that an at-most-once task stays one even when it
    was enqueued by name by someone who does not know it.
    """

    versions: tuple[int, ...] = (1,)
    max_crashes: int = 0


class Presence(msgspec.Struct, kw_only=True):
    """A worker as it presents itself at each beat. ``queues`` in order of preference.

    ``declares`` maps task names to what is declared; the name ``"*queue"`` declares every task of that queue (a queue
    with a handler). ``load`` is free-form and only shown.
    """

    id: str
    queues: list[str]
    declares: dict[str, Declared]
    lease: int = 15_000
    host: str = ""
    pid: int = 0
    started_at: int = 0
    concurrency: int = 0
    load: dict[str, Any] = {}


class BeatReply(msgspec.Struct, array_like=True):
    """``gone``: the store has reaped this worker; it must drop everything and return under a new id.

    ``lost``: held ids that are not this worker's (any more). ``ready``: there is work in its queues (the backstop for a
    lost wake-up). ``next_check``: milliseconds until ``sweep`` may have something to do, -1 for never. ``schedules``:
    see ``ExchangeReply``.
    """

    gone: bool = False
    lost: list[str] = []
    cancels: list[str] = []
    ready: bool = False
    next_due: int = -1
    next_check: int = -1
    schedules: int = 0


class Want(msgspec.Struct):
    """How many jobs a worker has room for: at most ``total``, taken from ``queues`` in order, each with its own cap.

    A queue may be named more than once, with a cap each time. ``idle``: nothing runs on the worker's loop meanwhile, so
    that an in-process engine need not spare it. ``now``: so many could start at once; the rest is taken ahead, and jobs
    from lanes or of a queue with a gate are not (-1: all could start).
    """

    queues: list[tuple[str, int]]
    total: int
    idle: bool = False
    now: int = -1


class ExchangeReply(msgspec.Struct, array_like=True):
    """``refused``: ids whose fence no longer held. ``next_due``: ms until time may make a job ready or open a gate that
    keeps one, -1 for never.

    ``drain``: a job that must run alone waits for this worker to be empty; ask for nothing until then. ``schedules``:
    ``Moment.heeded``, so that workers read schedules only when they have changed.
    """

    claims: list[Claim] = []
    refused: list[str] = []
    cancels: list[str] = []
    next_due: int = -1
    gone: bool = False
    drain: bool = False
    schedules: int = 0


class Note(msgspec.Struct):
    """Progress and log lines of a running claim; refused when the fence no longer holds."""

    id: str
    fence: Fence
    progress: bytes | None = None
    logs: list[tuple[str, str]] = []


class SweepReply(msgspec.Struct, array_like=True):
    """What a sweep did. ``more``: it stopped at its limit and should be called again soon.

    ``repaired``: workflows that had no live job and no end, which should never be, and that were put right.
    """

    promoted: int = 0
    recovered: int = 0
    quarantined: int = 0
    expired: int = 0
    parked: int = 0
    pruned: int = 0
    dead_workers: list[str] = []
    more: bool = False
    next_check: int = -1
    repaired: list[str] = []


class Action(StrEnum):
    """What ``change`` can do to jobs. Each acts on some states and skips the others with a reason."""

    CANCEL = "cancel"
    RETRY = "retry"
    PROMOTE = "promote"
    MOVE = "move"
    REPRIORITISE = "reprioritise"
    RESCHEDULE = "reschedule"
    EDIT = "edit"
    DELETE = "delete"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An action with its argument: ``queue`` for MOVE, ``priority`` for REPRIORITISE, ``payload`` for EDIT.

    RETRY takes the jobs of one call in the order they were accepted, however they are named.
    RESCHEDULE: ``at`` (an instant) or ``delay`` (from now). EDIT with ``terms``: the job gets these as well, and only
    one that has ended does; what others have of gates, lanes and keys they keep.
    """

    action: Action
    delay: int = 0
    at: int = 0
    queue: str = ""
    priority: int = 0
    payload: bytes = b""
    reason: str = ""
    terms: Terms | msgspec.UnsetType | None = msgspec.UNSET


class ChangeReply(msgspec.Struct):
    """``changed`` ids; ``skipped`` ids with the reason; ``cursor`` to go on with a query, empty at its end."""

    changed: list[str] = []
    skipped: dict[str, str] = {}
    cursor: str = ""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs: every given field must match. Ordered by acceptance, newest first unless ``oldest_first``."""

    queue: str = ""
    states: tuple[State, ...] = ()
    task: str = ""
    fingerprint: str = ""
    worker: str = ""
    since: int = 0
    until: int = 0
    after: str = ""
    limit: int = 100
    oldest_first: bool = False


class Page(msgspec.Struct):
    """``cursor`` continues the listing, empty at its end. ``partial``: the scan bound was reached before ``limit``."""

    jobs: list[Job] = []
    cursor: str = ""
    partial: bool = False


class GraphPage(msgspec.Struct):
    """Workflows, newest first. ``cursor`` continues the listing, empty at its end."""

    graphs: list[GraphInfo] = []
    cursor: str = ""


class WatchReply(msgspec.Struct, array_like=True):
    """What is over already, and the ids the store does not know."""

    finished: list[Finished] = []
    missing: list[str] = []


class QueueInfo(msgspec.Struct, kw_only=True):
    """A queue's jobs by state, and how long the oldest ready one has been waiting (ms, -1 when none is).

    ``lanes``: how many lanes have ready jobs. ``limits``: what holds for its gate.
    """

    name: str
    counts: dict[str, int] = {}
    oldest_ready: int = -1
    lanes: int = 0
    limits: Limits = NO_LIMITS


class WorkerInfo(msgspec.Struct, kw_only=True):
    """A worker as others see it. ``beat_age``: ms since its last beat; ``alive``: its lease still holds."""

    presence: Presence
    beat_age: int
    alive: bool
    running: int
    idle: bool


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """A change to one gate; what is UNSET stays as it is.

    ``expect``: only if the gate has this version (0: it does not exist), -1: whatever it is. ``declared`` is what the
    code says, ``tuned`` what an operator says. ``closed_for``: closed to all for so long from now (ms); 0 opens it.
    ``note``: bytes for whoever tunes it.
    """

    name: str
    expect: int = -1
    declared: Limits | msgspec.UnsetType = msgspec.UNSET
    tuned: Limits | msgspec.UnsetType = msgspec.UNSET
    closed_for: int | msgspec.UnsetType = msgspec.UNSET
    note: bytes | msgspec.UnsetType = msgspec.UNSET


class GateInfo(msgspec.Struct, kw_only=True):
    """A gate. ``version`` 0: it does not exist, nothing is limited. ``changed``: the tuning it answers was done.

    ``held``: units of the running jobs it concerns, counted only while it has a limit. ``waiting``: lanes that wait at
    it. ``opens_in``: ms until its rate, or the end of ``closed_for``, lets one unit through; 0 when it would now.
    """

    name: str
    version: int = 0
    declared: Limits = NO_LIMITS
    tuned: Limits = NO_LIMITS
    closed_for: int = 0
    note: bytes = b""
    held: int = 0
    waiting: int = 0
    opens_in: int = 0
    changed: bool = False

    @property
    def limits(self) -> Limits:
        """What holds."""
        return over(self.tuned, self.declared)


class Held(StrEnum):
    """Why a job is not in the ready order of its queue, though nothing else is in its way."""

    LANE = "lane"
    ASIDE = "aside"
    SOLO = "solo"
    SUCCESSOR = "successor"


class Hold(msgspec.Struct, kw_only=True):
    """What keeps a job that is ready, or that waits for the holder of its unique key.

    ``lane``: its lane. ``gate``: where that waits, empty while it is open; a key's own gate is ``key:QUEUE:KEY``.
    ``holder``: the job that has the lane or the key. ``missing``: the number a resequenced lane waits for, 0 for none.
    ``opens_in``: ms until time opens it, -1 when something else must happen. ``ahead``: jobs before it in its lane.
    """

    kind: Held
    lane: str = ""
    gate: str = ""
    holder: str = ""
    missing: int = 0
    opens_in: int = -1
    ahead: int = 0


class UniqueInfo(msgspec.Struct, kw_only=True):
    """Who has a unique key: ``holder`` (over already, while its window lasts: ``window`` ms) and its successor."""

    holder: str
    successor: str = ""
    window: int = 0


class Total(msgspec.Struct, frozen=True, array_like=True):
    """How many events of a kind there ever were, of jobs of a task in a queue."""

    kind: str
    queue: str
    task: str
    count: int


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """The dead letters of one fingerprint: how many there are, and the one accepted last."""

    fingerprint: str
    count: int
    newest: str


class StoreInfo(msgspec.Struct, kw_only=True):
    """What ``doctor`` reports: the engine, how durable an accepted job is, and warnings worth reading."""

    engine: str
    version: str
    durability: str
    location: str
    warnings: list[str] = []
    details: dict[str, str] = {}


@runtime_checkable
class Direct(Protocol):
    """An engine that may also take jobs from any thread, with no loop in between.

    It is ``Store.insert`` without the hops to a loop and back, which a sync caller would pay for every call.
    """

    def insert_here(self, jobs: Sequence[NewJob]) -> list[Answer]: ...


@runtime_checkable
class Serial(Protocol):
    """An engine whose server serves one call at a time: a long one keeps everybody waiting.

    Workers keep their exchanges with it short.
    """

    serial: bool


class Jobs(Protocol):
    """Jobs on their way: in, out to a worker and back, through time, changed by hand; and who is told of it."""

    async def open(self) -> None:
        """Connect, and create or check the schema. Opening twice is harmless."""

    async def close(self) -> None:
        """Let go of everything. Closing twice, or without opening, is harmless."""

    async def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        """Keep new jobs: one answer per job, in order. At most MAX_BATCH of them. Wakes idle workers."""

    async def beat(self, presence: Presence, acked_seq: int, held: Sequence[str]) -> BeatReply:
        """Register or renew a worker and reconcile what it holds.

        Claims stamped with a seq of at most ``acked_seq`` that are not in ``held`` go back to ready, no crash counted.
        """

    async def exchange(self, worker: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
        """Settle what finished and claim what is free, in one round trip.

        The worker's last seq again re-grants the same claims and applies nothing twice; a lower one is refused with
        StoreError. A worker that got less than it wanted is marked idle in the same step.
        """

    async def leave(self, worker: str, crashed: bool = False) -> None:
        """Sign a worker off. Its claims go back to ready; ``crashed`` counts a crash against each, as a sweep would."""

    async def note(self, worker: str, notes: Sequence[Note]) -> list[str]:
        """Keep progress and logs of running claims; answers the ids whose fence no longer held."""

    async def sweep(self, limit: int = MAX_BATCH) -> SweepReply:
        """Due to ready, expired to their end, dead workers' jobs recovered, undeclared ones parked, pruning."""

    async def change(
        self, change: Change, ids: Sequence[str] = (), query: Query | None = None, limit: int = MAX_BATCH
    ) -> ChangeReply:
        """Act on jobs by id, or on a page of those a query finds."""

    async def watch(self, client: str, ids: Sequence[str]) -> WatchReply:
        """Answer what is over and remember to tell ``client`` (a listening name) of the rest, atomically."""

    async def unwatch(self, client: str, ids: Sequence[str] | None = None) -> None:
        """Forget some or all of a client's watches."""

    async def listen(self, name: str, deliver: Deliver) -> None:
        """Receive what is sent to ``name``, a worker's or a client's id."""

    async def unlisten(self, name: str) -> None:
        """Stop receiving, and forget the name's watches."""

    async def signal(self, names: Sequence[str]) -> None:
        """A plain wake-up for whoever listens to these names. It is lost where nobody does."""


class Flow(Protocol):
    """What holds jobs up: gates, lanes and unique keys."""

    async def tune(self, tunings: Sequence[Tuning]) -> list[GateInfo]:
        """Change gates: limits, pauses, closures. One answer per tuning, the gate as it is now."""

    async def gates(self, names: Sequence[str] = ()) -> list[GateInfo]:
        """The gates of these names, or all there are."""

    async def holds(self, ids: Sequence[str]) -> list[Hold | None]:
        """What keeps each of these jobs out of the ready order, None where nothing does."""

    async def uniques(self, keys: Sequence[str]) -> list[UniqueInfo | None]:
        """Who has these unique keys."""


class Graphs(Protocol):
    """Workflows as wholes."""

    async def insert_graph(self, graph: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> GraphAnswer:
        """Stage a part of a graph, the nodes from number ``first`` on; ``commit`` makes all of it real.

        Nothing of a staged graph can be seen, and it vanishes if it is not committed in time. At most MAX_BATCH nodes.
        """

    async def inputs(self, ids: Sequence[str]) -> list[list[Input]]:
        """The sources that carry a value to each of these nodes, in order. At most four nodes in one call."""

    async def graphs(self, states: Sequence[State] = (), after: str = "", limit: int = 100) -> GraphPage:
        """A page of workflows."""

    async def graph(self, id: str) -> GraphInfo | None:
        """One workflow, None where there is none."""

    async def members(self, graph: str, after: int = -1, limit: int = MAX_BATCH) -> list[Job]:
        """A graph's nodes, joins included, behind number ``after``, in the order they were submitted."""


class Reads(Protocol):
    """What others want to know; nothing here changes a job."""

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        """Records by id, None where there is none."""

    async def find(self, query: Query) -> Page:
        """A page of records."""

    async def lines(self, id: str, after: int = -1, limit: int = MAX_BATCH) -> list[LogLine]:
        """A job's log lines behind number ``after``."""

    async def events(self, after: int, limit: int = 100, kinds: Sequence[str] = ()) -> list[Entry]:
        """Event entries with a seq above ``after``, oldest first; ``after=-1`` answers only the newest entry.

        ``kinds``: only entries with an event of one of these kinds, each with its groups of those kinds and no others.
        """

    async def totals(self) -> list[Total]:
        """How many events there ever were, by kind, queue and task; events kept or not."""

    async def faults(self, limit: int = MAX_BATCH) -> list[Fault]:
        """The dead letters by fingerprint, the most frequent first."""

    async def queues(self) -> list[QueueInfo]:
        """Every queue that has or had jobs."""

    async def workers(self) -> list[WorkerInfo]:
        """Every worker that has not left."""

    async def info(self) -> StoreInfo:
        """What the engine is and what it promises."""


class Store(Jobs, Flow, Graphs, Items, Reads, Protocol):
    """All of it: what an engine is."""
