"""Lanes: which are open, which wait and for what. A lane's row says so; this is kept true whenever jobs come and go.

Jobs are moved elsewhere; here is only what that means for their lanes, and who is to be woken for it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from windlass.core import limits
from windlass.core.terms import breaker_gate, is_strict, key_gate, queue_gate, task_gate
from windlass.store.answers import MAX_BATCH
from windlass.store.machine.codes import FIRST_TERMINAL, LANE, READY
from windlass.store.machine.effects import LaneChange, LaneName
from windlass.store.machine.flow.uniques import succeed
from windlass.store.machine.jobs.asides import declaring, groups
from windlass.store.machine.tx import Tx, Who, decode, encode, ids_json
from windlass.store.shared import REMEMBERED

NONE_SUCH = -1
"""The state of a lane that is not there."""


class LaneState:
    """Where a lane is. The numbers are part of what engines keep: never renumber them."""

    OPEN = 0
    WAITS = 1
    """At a gate that is closed to its first job."""
    HELD = 2
    """A job has it, and is under way: it is a strict lane."""
    GAP = 3
    """A number before that of its first job is missing."""
    EMPTY = 4
    """It has no jobs, and remembers a number."""


class Look(msgspec.Struct, array_like=True):
    """A lane as it was and as its jobs are; the order of the fields is that of LaneSql.LOOK."""

    i: int
    state: int
    turn: int
    gate: str | None
    units: int
    opens: int
    holder: int
    expected: int
    stood: int
    stood_at: int
    was_head: int
    head: int
    number: int
    gap: int
    holder_state: int
    holder_hold: int
    task: str
    key_limit: int
    breaker: str
    first: int
    """The job whose turn it is: the head, or the holder if that is back."""
    alone: int
    """That job must run alone."""
    count: int
    """How many jobs it has; counted only where it may get on, and up to two where one left it and one came."""


_looks = msgspec.json.Decoder(list[Look]).decode


def look_again(tx: Tx, queue: str, name: str) -> None:
    """A lane that waits may get on."""
    tx.effects.lane(queue, name).free = True


def refresh(tx: Tx) -> Counter[str]:
    """Lanes that jobs joined or left: what they wait for now. By queue, how many jobs those that opened may give."""
    may_give: Counter[str] = Counter()
    changes = tx.effects.take_lanes()
    if not changes:
        return may_give
    names, touches = list(changes), list(changes.values())
    rows, alone = [], []
    giving: list[tuple[Look, LaneChange, LaneName]] = []
    for look in _looks(tx.value(tx.sql.lanes.LOOK, (_asked(names, touches), MAX_BATCH))):
        queue, name = names[look.i]
        row = _decide(tx, look, touches[look.i], names[look.i])
        if row is not None:
            rows.append([queue, name, *row])
            if row[0] == LaneState.OPEN and look.alone and touches[look.i].free:
                # It waited here for its gates only, and has no turn.
                alone.append(look.first)
                may_give[queue] += 1
                if is_strict(name):
                    rows[-1][2], rows[-1][7] = LaneState.HELD, look.first
            elif row[0] == LaneState.GAP and look.stood != look.head:
                may_give[queue] += 1  # somebody must set an alarm
            elif row[0] == LaneState.OPEN and look.head:
                giving.append((look, touches[look.i], names[look.i]))
    may_give += _may_give(tx, giving)
    if alone:
        tx.run(tx.sql.lanes.SET_SOLO, (ids_json(alone),))
    if rows:
        tx.run(tx.sql.lanes.WRITE, (encode(rows).decode(),))
        tx.lanes = True
    return may_give


def _asked(names: list[LaneName], touches: list[LaneChange]) -> str:
    """What LaneSql.LOOK takes: the lanes, each with whether one job left it and one came, and whether it may get on."""
    return encode([
        (*name, touch.left and touch.joined == 1, touch.free and not is_strict(name[1]))
        for name, touch in zip(names, touches, strict=True)
    ]).decode()  # fmt: skip


def _may_give(tx: Tx, lanes: list[tuple[Look, LaneChange, LaneName]]) -> Counter[str]:
    """By queue, how many jobs open lanes may give beyond what somebody was woken for, as far as gates let them."""
    room: dict[tuple[str, str], int] = {}
    may_give: Counter[str] = Counter()
    for look, touch, name in lanes:
        if is_strict(name[1]):
            count = int(look.state != LaneState.OPEN)
        else:
            count = touch.joined if look.state in (LaneState.OPEN, NONE_SUCH) else look.count
        may_give[name[0]] += _let_through(tx, look, name, count, room)
    return may_give


def _let_through(tx: Tx, look: Look, name: LaneName, count: int, room: dict[tuple[str, str], int]) -> int:
    """How many of so many jobs of a lane the gates of its head have room for."""
    if count > 1:
        queue_says = tx.book.limits(queue_gate(name[0])).key_limit if tx.gates else None
        limit = (look.key_limit if queue_says is None else queue_says) if name[1][0] == "k" else 0
        count = min(count, limit or count)
    for gate in (task_gate(look.task), breaker_gate(look.breaker)) if tx.gates else ():
        if gate in tx.book.gates:
            count = min(count, room.setdefault((gate, name[0]), max(1, tx.book.room(gate))))
            room[gate, name[0]] -= count
    return count


def _was_emptied(look: Look, touch: LaneChange) -> bool:
    """Its only job left, and it or another came."""
    return touch.left and touch.joined == 1 and look.count == 1


def _decide(tx: Tx, look: Look, touch: LaneChange, lane: LaneName) -> list[Any] | None:
    """The lane's row as LaneSql.WRITE takes it, behind queue and name. None: there is no such lane."""
    if look.state == NONE_SUCH and not look.head and not touch.gone:
        return None
    holder = look.holder if 0 <= look.holder_state < FIRST_TERMINAL and look.holder not in touch.moved else 0
    expected = max(look.expected, touch.gone + 1)
    had_jobs = (look.was_head or look.state in (LaneState.OPEN, LaneState.WAITS)) and not _was_emptied(look, touch)
    turn = look.turn if had_jobs else tx.take_ranks(1)
    state, gate, opens, stood, stood_at, until = LaneState.OPEN, None, 0, 0, 0, 0
    if holder:
        state = LaneState.OPEN if look.holder_state == READY and look.holder_hold == LANE else LaneState.HELD
    elif not look.head:
        if lane[1][0] == "s" and expected > 1:
            state, until = LaneState.EMPTY, tx.now + REMEMBERED
    elif lane[1][0] == "s" and look.number > expected:
        stood, stood_at = look.head, look.stood_at if look.stood == look.head else tx.now
        if stood_at + look.gap > tx.now:
            state, opens = LaneState.GAP, stood_at + look.gap
        else:
            expected = look.number
    if state == LaneState.OPEN and look.state == LaneState.WAITS and look.head == look.was_head and not touch.free:
        state, gate, opens = LaneState.WAITS, look.gate, look.opens
    return [state, turn, gate, look.units, opens, holder, expected, stood, stood_at, until]


# -- what follows from what was done


def follow(tx: Tx, openings: bool = True) -> Counter[str]:
    """Successors come to their keys, lanes go on, gates open. By queue, how many jobs may start because of that.

    ``openings``: gates that let something through are to be seen to.
    """
    may_start: Counter[str] = Counter()
    while tx.effects.freed:
        may_start += succeed(tx, tx.effects.take_freed())
    if left := tx.effects.take_left():
        gates = dict.fromkeys(key_gate(queue, lane[1:]) for queue, lane in left)
        for name in tx.all(tx.sql.lanes.AT, (ids_json(gates),)):
            look_again(tx, *name)
    if tx.lanes and tx.gates and openings:
        _open_gates(tx)
    may_start += refresh(tx)
    if tx.gates and openings:
        for queue in tx.book.opened_queues():
            may_start[queue] += tx.counted(queue, READY)
    return may_start


def open_due(tx: Tx) -> None:
    """Lanes that time opens."""
    # What was put off in this transaction is not due in it.
    for name in tx.all(tx.sql.lanes.DUE, (tx.now, MAX_BATCH)) if tx.opens is not None and tx.opens <= tx.now else ():
        look_again(tx, *name)


def is_gated(tx: Tx) -> bool:
    """Whether lanes, gates or unique keys may have something to say."""
    return bool(tx.lanes or tx.gates or tx.effects.in_lanes)


def settle_down(tx: Tx) -> None:
    """The same for calls that claim nothing: workers are woken for it."""
    if is_gated(tx):
        wake(tx, follow(tx))


def wake(tx: Tx, may_start: Counter[str], but: int = 0) -> None:
    """Idle workers, as many of each queue as may start something; and those that declare what was set aside."""
    queues = [queue for queue, count in may_start.items() if count > 0]
    calls: list[tuple[str, int, Who | None]] = [(queue, may_start[queue], None) for queue in queues]
    for group in groups(tx, queues) if queues and tx.gates and tx.idle else ():
        calls.insert(0, (group.queue, 1, declaring(*group)))
    tx.wake_all(calls, but)


def wake_for_left(tx: Tx, may_start: Counter[str], but: int) -> None:
    """Others are woken for what a claim did not take of what may start now; ``but``: the worker that claimed."""
    may_start = +may_start
    if may_start and tx.idle:
        left = tx.all(tx.sql.claim.CLAIMABLE, (ids_json(may_start), max(may_start.values())))
        wake(tx, Counter({queue: min(count, may_start[queue]) for queue, count in left}), but)


def _open_gates(tx: Tx) -> None:
    """Gates at which lanes wait and that let something through: as many lanes as there are units to be had, of each
    queue, for who works on one may know nothing of the others."""
    book = tx.book
    tuned = [name for name, gate in book.gates.items() if gate.opening]
    if tuned:
        # The gate of a queue was tuned, and with it those of all its keys.
        queues = [name.removeprefix("queue:") for name in tuned if name.startswith("queue:")]
        _look_at_all(tx, tx.sql.lanes.AT_KEYS, queues, "queue:")
        _look_at_all(tx, tx.sql.lanes.AT_GATES, [name for name in tuned if not name.startswith("queue:")])
    rooms = [(name, queue, book.room(name)) for name, queue, _ in tx.all(tx.sql.book.WAITED_AT) if name not in tuned]
    rooms = [(name, queue, room) for name, queue, room in rooms if room]
    if rooms:
        _open_lanes(tx, rooms)


def _look_at_all(tx: Tx, sql: str, names: list[str], kind: str = "") -> None:
    """All lanes that wait where something was tuned: what is more than one step may do is left for the next."""
    waiting = tx.all(sql, (ids_json(names), MAX_BATCH)) if names else []
    for _, *lane in waiting:
        look_again(tx, *lane)
    many = Counter(name for name, *_ in waiting)
    for name in names:
        if many[name] < MAX_BATCH:
            tx.book.put(f"{kind}{name}", opening=0)


def _open_lanes(tx: Tx, rooms: list[tuple[str, str, int]]) -> None:
    """Of each gate and queue the lanes that wait, in the order of their turns, as far as there is room."""
    most = max(room for *_, room in rooms)
    left = [room for *_, room in rooms]
    for i, lane, units in tx.all(tx.sql.lanes.FIRST_AT, (encode(rooms).decode(), most)):
        gate, queue, _ = rooms[i]
        # What weighs more than there is room for may pass all the same, as the first.
        if left[i] <= 0 or (units > left[i] and tx.book.opens(gate, units) != limits.OPEN):
            left[i] = 0
            continue
        left[i] -= units
        look_again(tx, queue, lane)


def next_opening(tx: Tx) -> int | None:
    """When time next opens a lane, or a gate that keeps something."""
    times = [tx.value(tx.sql.lanes.NEXT)] if tx.lanes else []
    times += [tx.book.next_opening()] if tx.gates else []
    return min((time for time in times if time is not None), default=None)


def leave(tx: Tx, jobs: str, deleted: bool = True) -> None:
    """Jobs, a JSON list of numbers, are about to be deleted or moved to another queue: their lanes go on without."""
    if not (tx.lanes or tx.uniques):
        return
    for queue, lane, number, unique, n, state in tx.all(tx.sql.lanes.LEAVING, (jobs,)):
        if state < FIRST_TERMINAL:
            touch = tx.effects.lane(queue, lane)
            touch.gone = max(touch.gone, number)
            touch.moved.add(n)
            if unique and deleted:
                tx.effects.keys_freed([(unique, n)])


def sweep(tx: Tx) -> None:
    """Lanes whose holder's record was lost go on, a page at a time; what need not be remembered longer is forgotten."""
    open_due(tx)
    if tx.lanes:
        orphaned, last, looked = tx.one(tx.sql.lanes.ORPHANED, (tx.memo.lane, MAX_BATCH))
        tx.memo.lane = last if looked == MAX_BATCH else 0
        for name in decode(orphaned):
            look_again(tx, *name)
        tx.run(tx.sql.lanes.FORGET, (tx.now,))


def put_into(tx: Tx, jobs: list[tuple[int, str, str]]) -> None:
    """Ready jobs (number, queue, lane) that were out of their lanes go back into them, in their places."""
    tx.run(tx.sql.lanes.PUT_INTO, (ids_json(job[0] for job in jobs),))
    for _, queue, lane in jobs:
        tx.effects.lane(queue, lane).joined += 1


def is_limited(tx: Tx, queue: str) -> bool:
    """Whether a queue has a limit or a rate."""
    return bool(tx.gates) and limits.bounds_claims(tx.book.limits(queue_gate(queue)))
