"""The statements of the rules about single jobs: from their acceptance until they are removed, and who works on them.

Where a value is JSON of numbers, these are the numbers of jobs, in no order that matters unless it is said. Codes of
states and holds are those of ``machine/codes.py``; JSON kept in columns (payload, meta, error, terms) is text.
"""

from __future__ import annotations

from typing import Protocol


class MoveSql(Protocol):
    """Moves of jobs, and what they were and become.

    The last SHIFT of a transaction, or the settling of an exchange, leaves ``moved``: a row for each job that moved,
    in the order of the argument. The statements here that take nothing, and those about ``moved``, are about these.
    It has the job's number, id, task, queue, node, lane, terms and number in a resequenced lane; ``was`` and ``goes``,
    the states before and after; ``held`` and ``hold``, the holds before and after; what was written (due, counters,
    reason, result, error); whether it was ``watched``. Being pruned in the same step takes no job out of it.
    """

    SHIFT: str
    """now, first of as many ranks as there are rows, prefix of the bucket of what is done, and of what failed,
    JSON of tasks with gates, JSON of [number, state it goes to, due, stays, reason, error, fingerprint, crashes,
    max_crashes, result], the last one missing for none: jobs that are where they should be move.

    All of them leave their worker, are counted by queue and state, and take the counters that are given. An error of
    null leaves error and fingerprint as they are. One that ends takes its rank for a place, its reason and its result,
    keeps its due time, is no longer to be cancelled, nor watched. Unless it has a node it is filed, as the last one: in
    the bucket it names for this end, else in the default one, which is prefix and queue. Buckets that grew are pruned,
    as by PRUNE of sweeps, up to 1,000 that are too old.

    One that becomes ready is held SOLO if it is one crash below its limit, unless it is in a strict lane and has no
    place yet; else LANE, if it has a lane or a task with gates; else not at all. It keeps the place it has if it stays
    or is in a strict lane. Else its place is, with its rank, MIDDLE * BAND + rank in a strict lane; MIDDLE * BAND +
    AGED + now + (5 - priority) * ageing if its terms have an ageing; (9 - priority) * BAND + rank for all others."""
    WRITTEN: str
    """→ whether a watched job of ``moved`` ended, the largest node of those that ended (0: none has one),
    whether any may concern a lane, a gate or a unique key"""
    ENDED: str
    """→ JSON of [node, was] of those that ended and have a node, in order"""
    IN_LANES: str
    """→ JSON of [number, queue, lane, was, goes, hold, held, number in its lane, unique key if it ended or ""], in
    order, of those that are or were held for a lane, that ended and have a unique key, that have a strict lane, and
    that have a lane of a key at whose gate another lane waits. A job without a lane of its own has "t" and its task."""
    TOLD: str
    """→ JSON of [name, id, goes, result, error, reason] for everyone who watches one that ended, in order"""
    FORGET_TOLD: str
    """nobody watches those any more"""


class RowSql(Protocol):
    """Jobs as they are read. A row of a job has the columns that ``jobs/rows.py`` names, in that order."""

    BY_ID: str
    """JSON of ids → rows of those that there are"""
    PLACES: str
    """JSON of nodes → (node, id of its graph or "", spare, shape, aftermath, JSON of edges in, JSON of edges out,
    id of the graph it awaits or "", whether a graph replaced it)"""
    UNACCEPTED: str
    """JSON of ids → (node, id, state, run, reason, finished at, result, error, body, its graph's creation) of nodes
    that are no jobs in committed graphs: joins, without a body, and jobs that are not accepted yet, with one"""


class IntakeSql(Protocol):
    """New jobs."""

    KNOWN: str
    """JSON of ids → JSON of [id, task, payload, state] of the jobs among them"""
    KNOWN_NODES: str
    """JSON of ids → JSON of [id, task, payload, state, state of its graph] of the nodes among them, but for those of
    graphs that are being dropped. Task and payload are "" unless the node is a job that is not accepted yet."""
    ACCEPT: str
    """now, JSON of [id, task, version, queue, priority, payload, meta, state, place, due, expiry, state it expires to,
    max_crashes, crash delay, bucket of what is done or null, and of what failed or null]: new jobs, numbered in this
    order; their ids are free"""
    ADMIT: str
    """the same, each row with node, hold, number in its lane, its own lane or null, terms or null behind those"""


class ReplacingSql(Protocol):
    """Calls that replace a job which has not started."""

    REPLACE: str
    """JSON of [number, payload, meta, version, priority]"""
    PUT_OFF: str
    """JSON of [number, due]: of those that have no node"""


class RoomSql(Protocol):
    """Full queues."""

    OLDEST: str
    """queue, how many → (priority, number, id, task, crashes, max_crashes, unique key or "") of so many ready jobs,
    those with the lowest priority and of these those with the lowest numbers; in no order"""
    NUMBERS: str
    """JSON of ids → (id, number)"""


class ChangeSql(Protocol):
    """What operators do to jobs."""

    TARGETS: str
    """JSON of ids → (number, id, task, queue, state, worker, bucket, crashes, max_crashes, node, lane)"""
    ASK_TO_CANCEL: str
    """reason, JSON of numbers: running jobs whose workers are to cancel them"""
    ROUSE: str
    """JSON of workers → their ids: they are no longer idle"""
    LESS: str
    """JSON of [bucket, how many]: so many jobs were taken out of it"""
    MOVE: str
    """queue, JSON of numbers: they are in this queue; those that have not ended have no place there yet"""
    PRIORITY: str
    """priority, JSON of numbers"""
    PAYLOAD: str
    """payload, JSON of numbers"""
    TERMS: str
    """JSON of [number, terms or null, lane or null, number in its lane]"""
    WATCHED: str
    """JSON of numbers → (id, name) for everyone who watches one of these"""
    DELETE: str
    """JSON of numbers: the jobs go, with their lines and watches, from their bucket and from the counts; those with
    nodes have their nodes removed, and a graph that was kept for such a job alone is put up to be pruned"""


class ExpirySql(Protocol):
    """What time does to jobs."""

    DUE: str
    """now, limit → (number, queue, due, crashes, max_crashes) of scheduled jobs whose time has come, as they are due"""
    EXPIRED: str
    """now, limit → (number, state it expires to, crashes, max_crashes, id, task, queue) of jobs that are past their
    expiry and have not started, those first that expired first"""


class RecoverySql(Protocol):
    """Jobs of workers that are gone."""

    OF_WORKER: str
    """worker, limit (negative: none) → (number) of jobs it runs"""
    CLAIMS: str
    """JSON of numbers → (number, id, task, queue, crashes, max_crashes, crash delay, cancel, reason), by place"""
    ANY_LEFT: str
    """worker → a row if it runs any job"""
    FORGET: str
    """worker: its row goes"""
    FORGET_PRESENCE: str
    """worker: what it said of itself goes"""
    SILENCE: str
    """now, worker's id → how long it has not beaten if its lease is over, else 0"""


class AsideSql(Protocol):
    """Jobs set aside (hold ASIDE), in groups of queue, task and version."""

    ALL: str
    """→ (queue, task, version) of all groups that have any, in this order"""
    OF_QUEUES: str
    """JSON of queues → the same of these queues"""
    UNDECLARE: str
    """JSON of [queue, task, version], now: the last worker that declared these went now"""
    UNDECLARED_AT: str
    """queue, task, version → when that was"""
    LIVE: str
    """now → (number, mark) of live workers"""
    FIRST: str
    """queue, task, version → when the first in ready order was set aside"""
    STALE: str
    """queue, task, version, limit, instant → (number, id, crashes, max_crashes, aside since): of so many in ready order
    those that were set aside by then"""
    FORGET: str
    """what UNDECLARE kept goes for groups that have no jobs any more"""


class SweepSql(Protocol):
    """Looking after everything."""

    LATE: str
    """now → (number, id, mark, whether it is dead for certain) of the workers that are dead or whose lease is over, for
    certain, and of those that beat last longer than a third of their lease ago; in the order of numbers"""
    TOO_OLD: str
    """now → (bucket, size, age) of buckets whose oldest job is past its age; none whose name says another age"""
    PRUNE: str
    """now, bucket, by how many jobs it is over its count, age (-1: none), limit: drop those that are too many, and up
    to the limit of those that are too old, the first filed first; as DELETE of changes does"""
    SIZE: str
    """bucket → how many jobs are filed in it"""
    TIMES: str
    """→ (when the first lease is over, when the first job that has not started expires), NULL for none"""


class WorkerSql(Protocol):
    """The lives of workers."""

    BEATEN: str
    """id → (number, whether it is dead, when its lease is over, mark)"""
    RUNNING: str
    """worker → (number, id, seq of the claim) of the jobs it runs"""
    ADD: str
    """id, lease, when that is over, now, mark → its number"""
    SAY: str
    """worker, what it says of itself as JSON: in the place of what it said before"""
    DEAD: str
    """worker: it is dead"""
    RENEW: str
    """lease, when that is over, now, mark, worker"""
    HAS_WORK: str
    """JSON of queues → (queue, whether it has ready jobs that are held by nothing or run alone, whether it has open
    lanes), of those with ready jobs, in the order of the queues"""


class ViewSql(Protocol):
    """What workers are told."""

    WORKER: str
    """id → (number, id, number of its last exchange, whether it is dead, mark, JSON of ids that exchange refused)"""
    VIEW: str
    """worker, JSON of queues → (when the first scheduled job is due, NULL for none; whether it runs a job that runs
    alone; whether any ready jobs of the queues are set aside or run alone; JSON of ids of its jobs that are to be
    cancelled)"""


class NoteSql(Protocol):
    """What workers note of the jobs they run."""

    FENCES: str
    """worker, JSON of ids → (id, run, epoch, seq, number, task, queue, number of its next line) of those it runs"""
    PROGRESS: str
    """progress, job's number"""
    ADD_LINES: str
    """job's number, number of the first line, now, JSON of [level, text]"""
    CUT_LINES: str
    """job's number, number of the first line that stays"""
    LOGGED: str
    """number of the next line, job's number"""
    LINES: str
    """id, number of a line, limit → (number, instant, level, text) of the lines behind it, in order"""


class WatchSql(Protocol):
    """Who waits for which job. What is watched is a number: of a job, or below zero of a node that is none."""

    FOLLOW: str
    """name: told of every event from now on"""
    UNFOLLOW: str
    """name: no longer"""
    JOBS: str
    """JSON of ids → (number, id, state, result, error, reason, whether its value is put together of other nodes'). Of
    jobs that have not ended result and error are NULL."""
    NODES: str
    """the same for nodes that are no jobs in committed graphs: joins, and jobs that are not accepted yet"""
    ADD: str
    """name, JSON of numbers: it watches these, also if it does already"""
    MARK_JOBS: str
    """JSON of numbers: the jobs among these are watched"""
    MARK_NODES: str
    """JSON of numbers: the nodes among these, whose numbers are below zero, are watched"""
    DROP: str
    """name, JSON of ids: it does not watch these any more"""
    DROP_ALL: str
    """JSON of names: they watch nothing any more"""
