"""The statements of lanes, turns, gates, unique keys and claims.

Jobs are numbers here, unless ids are said. A ready job may be out of its queue's ready order: it was set aside, must
run alone, or is in a lane. The lane of a ready job is the one kept with it, or else ``t`` and its task. A lane is open,
or waits at a gate, or a job has it, or it waits for a number, or it is empty and remembers a number; only of an open
one can a job be claimed. The order in a lane is by number, then by place; the order of a queue is by place.
"""

from __future__ import annotations

from typing import Protocol


class BookSql(Protocol):
    """Gates."""

    GATES: str
    """→ JSON of all gates, each [name, version, closed until, tat, need, opening, declared, tuned]; the last two are
    the JSON values that `GateSql.PUT` was given"""
    RUNNING: str
    """→ (queue, task, breaker or '', sum of units) of running jobs, in groups of the first three"""
    SAVE: str
    """JSON of [name, tat, need, opening]: gates that exist"""
    WAITED_AT: str
    """→ (gate, queue, units of the first waiting lane by turn), for each gate that exists and each queue with lanes
    that wait there. Its cost must not depend on how many lanes wait."""


class CandidateSql(Protocol):
    """Ready jobs to be claimed. *A job* in these is a list in the order of the fields of `Candidate`."""

    FROM_READY: str
    """queue, limit → JSON of jobs in ready order, each without ``hold`` and what is behind it"""
    FROM_QUEUES: str
    """JSON of [queue, lane, holder], JSON of [queue, lane], limit, JSON of queues, limit → JSON of jobs, each up to
    ``terms``, in no order: the first ready job of each of the former lanes, or if it has a holder that, and only if it
    is in the lane; the first ready jobs of each of the latter lanes, up to the first limit; and the first in the ready
    order of each queue, up to the second limit"""
    FROM_PLAIN: str
    """queue, limit → the same of nothing but the ready order of one queue"""
    FROM_ASIDE: str
    """JSON of [queue, task, version], limit → the same of the first jobs of each kind that were set aside"""
    FIRST_SOLO: str
    """JSON of queues → the same of the first job of each queue that must run alone"""
    GRANTED: str
    """worker, number of an exchange → JSON of the running jobs that were granted to it then, each with all fields, in
    no order"""


class ClaimSql(Protocol):
    """What a claim asks besides the jobs themselves, and what it writes."""

    BUSY: str
    """worker → a row if it runs any job"""
    RESERVED: str
    """job, worker, now → a row if another living worker has reserved the job"""
    SET_ASIDE: str
    """now, JSON of jobs: ready jobs are set aside, since now"""
    GRANT: str
    """worker, number of the exchange, now, JSON of jobs: these ready jobs run on the worker from now on, their epochs
    one higher; one that must run alone stays marked so, all others are out of their lanes"""
    TURN: str
    """the values of GRANT, JSON of lanes as `LaneSql.WRITE` takes them, JSON of [queue, turn]: GRANT, then WRITE, then
    the plain orders of these queues have had these turns. Each list may be empty."""
    LEFT: str
    """JSON of queues → (queue) for those with jobs in their ready order"""
    CLAIMABLE: str
    """JSON of queues, most → (queue, how many open lanes it has, and ready jobs that are in no lane; each counted up
    to ``most``)"""


class GateSql(Protocol):
    """Gates as they are tuned and told of, and what keeps jobs."""

    PUT: str
    """name, version, closed until, opening, JSON of declared, JSON of tuned, note (bytes): a gate comes to be, or is
    changed; its tat stays, its need is 0"""
    NOTE: str
    """name → note of the gate"""
    WAITING_AT: str
    """gate → how many lanes wait there"""
    HELD_BY_KEY: str
    """queue, key → sum of units of the running jobs whose lanes are the key's, whatever their kind; 0 for none"""
    FORGET: str
    """name: the gate goes if it has no note and no lane waits there → a row if it went"""
    FORGET_KEYS: str
    """tat: what is kept of keys' rates goes where its tat is not behind this one"""
    HOLDS: str
    """JSON of ids → for those of the jobs that wait or are ready: (id, state, hold, queue, lane, number, place, job,
    state of the lane, gate or NULL, when time opens it, number it expects, units, holder, id of the holder or '', id of
    the holder of the unique key for which the job waits or ''). Of a lane that is not there: 0, NULL, 0, 1, 1, 0"""
    AHEAD: str
    """queue, lane, number, place → how many ready jobs of the lane are before this place"""


class LaneSql(Protocol):
    """Lanes."""

    LOOK: str
    """JSON of [queue, lane, whether up to two of its jobs are to be counted, whether all are], most → JSON of a list
    for each of them, in the order of the fields of `Look`. Counted are its ready jobs, up to ``most``: if all are to
    be, or if its first job is another than the one kept with it; either only where the lane is there and not open."""
    WRITE: str
    """JSON of [queue, name, state, turn, gate or null, units, opens, holder, expected, stood, stood at, until]: lanes
    as they are from now on. Its first ready job and that job's priority are found and kept with each; open lanes
    without ready jobs go."""
    SET_SOLO: str
    """JSON of jobs: ready jobs go out of their lanes, and must run alone"""
    PUT_INTO: str
    """JSON of jobs: ready jobs go into their lanes"""
    DUE: str
    """now, limit → (queue, name) of lanes that time opens by now, in the order of time"""
    NEXT: str
    """→ when time next opens a lane, or NULL"""
    AT: str
    """JSON of gates → (queue, name) of the lanes that wait at one of them"""
    AT_GATES: str
    """JSON of gates, limit → (gate, queue, name) of lanes that wait there, up to ``limit`` for each gate"""
    AT_KEYS: str
    """JSON of queues, limit → (queue as it was given, queue, name) of lanes that wait at gates of the queue's keys, up
    to ``limit`` for each queue"""
    FIRST_AT: str
    """JSON of [gate, queue, …], limit → (place in the argument, name, units) of the lanes of this queue that wait at
    this gate, up to ``limit`` for each, in the order of places, then of turns"""
    LEAVING: str
    """JSON of jobs → (queue, lane, number, unique key or '', job, state) of those that have terms, or a lane kept with
    them, or are in one"""
    ORPHANED: str
    """a lane's number, limit → of so many lanes behind that number, in its order: (JSON of [queue, name] of those that
    a job has which is over, gone or in another queue; the last number, or NULL; how many lanes there were)"""
    FORGET: str
    """now: empty lanes go which need not remember their number longer"""


class ExchangeSql(Protocol):
    """The two ends of an exchange."""

    SETTLE: str
    """worker, now, first of as many ranks as there are moves, prefix of the bucket of what is done, and of what failed,
    JSON of tasks with gates, JSON of [id, run, epoch, seq, state it goes to, event, delay, attempt, crashes, snoozes,
    whether it yields to a cancel, result or null, error or null, reason, fingerprint, bucket if it is done, and if it
    failed]; what is behind the result may be missing. Those move that this worker runs under this run, epoch and seq.

    They move as SHIFT of `MoveSql` says, with these differences. One that yields to a cancel that was asked for is
    cancelled, for the reason that was given for that. One that goes to SCHEDULED is due so long from now. One that goes
    back ("released") keeps its place and its due time. Events are added up by task and queue, besides the states."""
    SETTLED: str
    """worker's id → of ``moved``: how many, how many of them are watched, the largest node, whether any may concern a
    lane or a unique key, the kinds of events with commas between, JSON of groups [kind, worker's id, [[id, task, queue,
    {delay} or {reason} or nothing], …]] in the order of the first move of each"""
    APPLIED: str
    """→ JSON of the numbers of the moves that held"""
    END: str
    """worker, number of the exchange, now, whether it is idle, job it has reserved or 0, JSON of refused ids, JSON of
    jobs: `ClaimSql.GRANT`, and the worker's row says so"""


class SettlingSql(Protocol):
    """What follows from moves. *Moved* are the jobs whose moves held in the settle just made, numbered as there."""

    CANCELLED: str
    """JSON of ids → (id) of those of the jobs that somebody wants cancelled"""
    ENDED: str
    """→ JSON of [node, state it was in, number of its move] for each moved job that has ended and has a node, in the
    order of moves"""
    KEEP: str
    """JSON of [id, bucket if it is done, bucket if it failed]: where jobs are filed; '' changes nothing"""
    WAIT: str
    """→ (number of its move, job, id, node) of the moved jobs that wait now, in the order of moves"""
    BACK: str
    """→ (queue, how many) of the moved jobs that are ready now and in no lane"""


class TurnSql(Protocol):
    """Queues as their turns come, and the gates of keys."""

    LANES: str
    """JSON of queues, limit, most → for each of them, in this order: (place in the argument, turn its plain order had
    last or 0, task of the first job in ready order or NULL, how many jobs are in ready order, how many in lanes, each
    counted up to ``most``, JSON of [name, band, turn, holder, expected] of its open lanes in the order of bands, then
    of turns, up to ``limit``). A band is 9 less the priority of the lane's first job."""
    PLAIN: str
    """JSON of queues, limit → (job, queue, task) of the first jobs in the ready order of each, in no order"""
    KEYS: str
    """JSON of [queue, key] → JSON of [queue, key, sum of units of its running jobs, tat of its rate or 0]"""
    SAVE_KEYS: str
    """JSON of [queue, key, tat]"""


class UniqueSql(Protocol):
    """Unique keys. Each has a holder, kept as a job (0: it is over) and as an id, and perhaps a successor."""

    HELD: str
    """JSON of keys → for those that are kept: (key, id of the holder, successor or 0, end of the window, state of the
    holder or -1, then of the successor, or else of the holder: job, id, task, queue, state, when it was enqueued,
    crashes, most crashes; NULL if it is gone)"""
    TAKE: str
    """JSON of [key, id, end of the window]: these jobs have the keys, which have no successors"""
    SUCCEED_TO: str
    """JSON of [key, id]: these jobs are the successors"""
    KEPT: str
    """JSON of keys → (key, job that holds it, successor, end of the window, id of the holder, then of the successor if
    it waits: id, queue, when it is due, crashes, most crashes, when its own window ends; else NULL)"""
    SAVE: str
    """JSON of [key, job that holds it, successor, end of the window, id of the holder]: keys that are kept"""
    DROP: str
    """JSON of keys"""
    FORGET: str
    """now: keys go whose holder and whose window are over"""
    KEYS_OF: str
    """JSON of jobs → (id, key, end of its window) of those that have a unique key and no node"""
    FIRST_DUE: str
    """→ when the first scheduled job is due, or NULL"""
