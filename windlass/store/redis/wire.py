"""What goes to the functions and comes back from them, as bytes. MessagePack both ways, read and written in one go.

The engine's hot calls spend their time here: nothing in this file may look at a job more than once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core import lifecycle
from windlass.core.event import Entry, Group
from windlass.core.event import Row as EventRow
from windlass.core.graph import GraphInfo, Input, NewGraph
from windlass.core.job import MAX_CRASHES, Finished, Job, LogLine, NewJob, State
from windlass.core.lifecycle import Transition
from windlass.core.limits import NO_LIMITS, Limits
from windlass.core.links import WIDTH, In, Inject, Links, On, Out, Shape
from windlass.core.terms import Terms
from windlass.errors import StoreError
from windlass.store.answers import Accept, Answer, GraphAnswer
from windlass.store.base import StoreSettings
from windlass.store.flow import GateInfo, Hold, HoldKind, Tuning, UniqueInfo
from windlass.store.jobs import (
    BeatReply,
    Change,
    Declared,
    ExchangeReply,
    Note,
    Presence,
    Query,
    SweepReply,
    Want,
    WatchReply,
)
from windlass.store.reads import Fault, Total
from windlass.store.redis.commands import Word
from windlass.store.shared import CODE, STATES

encode = msgspec.msgpack.Encoder().encode
exchange_reply = msgspec.msgpack.Decoder(ExchangeReply).decode
beat_reply = msgspec.msgpack.Decoder(BeatReply).decode
sweep_reply = msgspec.msgpack.Decoder(SweepReply).decode
watch_reply = msgspec.msgpack.Decoder(WatchReply).decode
change_reply = msgspec.msgpack.Decoder(tuple[list[str], list[str], list[str]]).decode
news = msgspec.msgpack.Decoder(list[Finished]).decode
presence = msgspec.msgpack.Decoder(Presence).decode
log_line = msgspec.msgpack.Decoder(tuple[int, int, str, str]).decode

_USUAL_TERMS = msgspec.structs.astuple(Terms())
_PLAIN = (0, 0, 0, 0, MAX_CRASHES, 0, "", "", None)
PREFIX = 11


# -- settings


def settings(given: StoreSettings, cluster: bool) -> bytes:
    """What every call says of the app."""
    done, failed = given.keep.buckets("")
    times = given.staged_for, given.audit_every
    return encode([done, failed, given.unknown_after, given.events_kept, given.logs_kept, cluster, *times])


# -- the job path


def insert(jobs: Sequence[NewJob]) -> list[Word]:
    extras: list[Any] = []
    args: list[Word] = [b""]
    for job in jobs:
        body = encode((job.task, job.version, job.queue, job.priority, job.payload, job.meta))
        args += (job.id, body[1:])  # the values without the head of the array around them
        extra = (
            job.delay, job.at, job.expires_in, job.expires_at, job.max_crashes, job.crash_delay, job.keep_done,
            job.keep_failed, job.terms,
        )  # fmt: skip
        if extra == _PLAIN:
            extras.append(0)
        elif extra[:8] == _PLAIN[:8] and is_light(job.terms):
            extras.append(terms(job.terms))
        else:
            extras.append((*extra[:4], CODE[job.expire_to], *extra[4:8], terms(job.terms)))
    args[0] = encode(extras)
    return args


def is_light(given: Terms | None) -> bool:
    """Whether a job with these terms needs no head while it waits and runs as it came in."""
    return given is not None and not (given.unique or given.ordered or given.seq or given.ageing)


def as_text(data: bytes) -> msgspec.Raw:
    """Bytes in the only form of them that Lua's MessagePack reads."""
    size = len(data)
    if size < 32:
        return msgspec.Raw(bytes((0xA0 + size,)) + data)
    if size < 1 << 16:
        return msgspec.Raw(b"\xda" + size.to_bytes(2, "big") + data)
    return msgspec.Raw(b"\xdb" + size.to_bytes(4, "big") + data)


def terms(given: Terms | None) -> msgspec.Raw | bool:
    """Terms as they are kept, without what is as usual at their end; the functions read them too. False for none."""
    return as_text(packed_terms(given)) if given is not None else False


def packed_terms(given: Terms) -> bytes:
    values = msgspec.structs.astuple(given)
    size = len(values)
    while size > 1 and values[size - 1] == _USUAL_TERMS[size - 1]:
        size -= 1
    return encode(values[:size])


def edit(change: Change) -> bytes:
    """A payload behind its job's new terms and their size: -1 where they stay, 0 where there are to be none."""
    if isinstance(change.terms, msgspec.UnsetType):
        return (-1).to_bytes(4, "big", signed=True) + change.payload
    packed = b"" if change.terms is None else packed_terms(change.terms)
    return len(packed).to_bytes(4, "big", signed=True) + packed + change.payload


_ANSWERS = {
    "=": Accept.DUPLICATE, "R": Accept.REPLACED, "C": Accept.CONFLICT, "F": Accept.FULL, "X": Accept.REFUSED,
}  # fmt: skip
_ACCEPTED, _DUPLICATE = Answer(Accept.ACCEPTED), Answer(Accept.DUPLICATE)


def answer(said: bytes) -> Answer:
    """The answer to one job: a letter, and behind it who has its key or why it was not taken."""
    if not said:
        return _ACCEPTED
    if said == b"=":
        return _DUPLICATE
    text = said.decode()
    status = _ANSWERS[text[0]]
    if status in (Accept.DUPLICATE, Accept.REPLACED):
        return Answer(status, holder=text[1:])
    return Answer(status, text[1:])


def exchange(worker: str, seq: int, moves: Sequence[Transition], want: Want) -> list[Word]:
    wanted: list[Any] = [want.now]
    for queue, cap in want.queues:
        wanted += (queue, cap)
    plain: list[Any] = []
    others: list[Any] = []
    args: list[Word] = [worker, seq, want.total, encode(wanted), b"", b""]
    ends: list[Word] = []
    for place, move in enumerate(moves, 1):
        if move.event == "succeeded" and is_plain(move):
            plain += (move.id, move.fence.seq, move.keep_done)
            args.append(move.result or b"")
        else:
            keep = move.keep_failed if move.to is State.FAILED else move.keep_done
            others += (
                place, move.id, *move.fence, CODE[move.to], move.event, move.delay, move.attempt, move.crashes,
                move.snoozes, 1 if move.yields_to_cancel else 0, move.reason, move.fingerprint, keep,
                move.adopt, 1 if move.replaced else 0,
            )  # fmt: skip
            ends += (move.result or b"", move.error or b"")
    args[4:6] = encode(plain), encode(others)
    return args + ends


def is_plain(move: Transition) -> bool:
    """A success at the first claim, about which there is nothing to say but its result: what most moves are."""
    run, epoch, _ = move.fence
    unusual = move.attempt or move.crashes or move.snoozes or move.reason or move.error
    return run == epoch == 1 and not unusual and move.to is State.SUCCEEDED


def skills(presence: Presence) -> tuple[list[str], dict[str, list[int]], dict[str, int]]:
    """Queues, what is declared of named tasks, and of the queues with a handler for all others."""

    def said(declared: Declared) -> list[int]:
        return [declared.max_crashes, *declared.versions]

    named = {task: said(of) for task, of in presence.declares.items() if not task.startswith("*")}
    handled = {task[1:]: of.max_crashes for task, of in presence.declares.items() if task.startswith("*")}
    return presence.queues, named, handled


def note(notes: Sequence[Note]) -> bytes:
    return encode(
        [
            [
                note.id, *note.fence, False if note.progress is None else note.progress.decode(),
                [part for line in note.logs for part in line],
            ]
            for note in notes
        ]
    )  # fmt: skip


# -- records


class Place(msgspec.Struct, array_like=True):
    """What changes of a node's place in its graph; the order is that of ``L`` in lua/records.lua."""

    graph: str
    opened: int
    open: int
    broken: int
    spare: int
    shape: int
    culprit: str
    awaits: str
    replaced: int


class Head(msgspec.Struct, array_like=True):
    """What changes of a job; the order is that of lua/records.lua."""

    n: int
    at: int
    task: str
    version: int
    queue: str
    priority: int
    state: int
    run: int
    epoch: int
    seq: int
    attempt: int
    crashes: int
    snoozes: int
    worker: str
    started: int
    rank: float
    finished: int
    due: int
    expires: int
    expire_to: int
    max_crashes: int
    crash_delay: int
    hold: int
    aside_at: int
    cancel: int
    logged: int
    keep_done: str
    keep_failed: str
    reason: str
    fingerprint: str
    result: msgspec.Raw
    error: msgspec.Raw
    terms: msgspec.Raw
    links: Place | bool


_head = msgspec.msgpack.Decoder(Head).decode
_terms = msgspec.msgpack.Decoder(Terms).decode
_body = msgspec.msgpack.Decoder(tuple[str, int, str, int, bytes, bytes]).decode
_body_with_terms = msgspec.msgpack.Decoder(tuple[str, int, str, int, bytes, bytes, bytes]).decode
RECORD = 7
LAST_INSTANT = 253_402_300_799_999

UNREADABLE = (msgspec.DecodeError, ValueError, TypeError, IndexError)
"""A name that is no text, a number that stands for nothing, a part that is missing."""


def record(parts: Sequence[bytes]) -> Job | None:
    """A job from the seven parts a function answers it with; None where there is none."""
    id, body, head, *_ = parts
    if not head:
        return damaged(id) if body else None
    try:
        return _sound(parts)
    except UNREADABLE:
        return damaged(id)


def _sound(parts: Sequence[bytes]) -> Job:
    id, body, head, progress, result, error, links = parts
    h = _head(head)
    instants = (h.at, h.due, h.expires, h.started, h.finished)
    if min(instants) < 0 or max(instants) > LAST_INSTANT:
        raise ValueError("an instant that no calendar has")
    payload, meta = values(body)
    job = Job(
        id=id.decode(), task=h.task, version=h.version, queue=h.queue, priority=h.priority, state=STATES[h.state],
        payload=payload, meta=meta, run=h.run, epoch=h.epoch, attempt=h.attempt, crashes=h.crashes, snoozes=h.snoozes,
        max_crashes=h.max_crashes, cancel_requested=bool(h.cancel), worker=h.worker, reason=h.reason,
        fingerprint=h.fingerprint, enqueued_at=h.at, due_at=h.due, expires_at=h.expires, started_at=h.started,
        finished_at=h.finished, result=result or _raw(h.result), error=error or _raw(h.error),
        progress=progress or None,
    )  # fmt: skip
    packed = _raw(h.terms)
    if packed is not None:
        job.terms = _terms(packed)
    if isinstance(h.links, Place):
        job.graph, job.awaits, job.replaced = h.links.graph, h.links.awaits, bool(h.links.replaced)
        job.links = place(links) if links else None
    return job


def values(body: bytes) -> tuple[bytes, bytes]:
    """The payload and the meta of a body, behind which its terms may be written."""
    for head, read in ((b"\x96", _body), (b"\x97", _body_with_terms)):
        try:
            found = read(head + body[PREFIX:])
        except UNREADABLE:
            continue
        return found[4], found[5]
    return b"null", b"{}"


def damaged(id: bytes) -> Job:
    """A record that cannot be read, shown as what it becomes as soon as a call that writes comes upon it."""
    return Job(
        id=id.decode(), task="windlass.corrupt", version=1, queue="", priority=5, state=State.FAILED, payload=b"null",
        meta=b"{}", reason=lifecycle.CORRUPT, fingerprint=lifecycle.CORRUPT_MARK, error=lifecycle.corrupt_error(),
    )  # fmt: skip


def records(parts: Sequence[bytes]) -> list[Job | None]:
    return [record(parts[place : place + RECORD]) for place in range(0, len(parts), RECORD)]


def query(asked: Query) -> bytes:
    states = [state in asked.states for state in STATES] if asked.states else False
    newest = not asked.oldest_first
    return encode(
        [asked.queue, states, asked.task, asked.fingerprint, asked.worker, asked.since, asked.until, newest]
    )  # fmt: skip


def log(packed: bytes) -> LogLine:
    return LogLine(*log_line(packed))


# -- graphs

_came_with = msgspec.msgpack.Decoder(tuple[str, list[Any], list[Any], int, int, bool]).decode
_graph_answer = msgspec.msgpack.Decoder(tuple[Accept, str, int, bool]).decode
_ALONE = Links()
_WAITING = CODE[State.WAITING]
_HEADS = {0xD9: 2, 0xDA: 3, 0xDB: 5}
"""How many bytes stand before a text, by the first of them; others have just the one."""


def insert_graph(graph: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> list[Word]:
    """Nodes go as they will be kept, so that the function need not look into any of them."""
    said = (
        graph.id, graph.nodes, graph.size, graph.digest, graph.name, int(graph.fail_fast), graph.parent,
        graph.keep_done, graph.keep_failed,
    )  # fmt: skip
    args: list[Word] = [encode(said), graph.meta, first, int(commit), ""]
    for node in nodes:
        links = node.links or _ALONE
        if max(len(links.ins), len(links.outs)) > WIDTH:
            args[4] = args[4] or node.id
        ins = [part for edge in links.ins for part in (edge.source, edge.on, edge.inject)]
        outs = [part for edge in links.outs for part in (edge.target, edge.on, edge.hasty)]
        body = encode((node.task, node.version, node.queue, node.priority, node.payload, node.meta))
        came_with = encode((graph.id, ins, outs, links.spare, links.shape, links.aftermath))
        args += (node.id, body[1:], came_with, encode(_new_head(graph.id, node, links, outs)))
    return args


def _new_head(graph: str, node: NewJob, links: Links, outs: list[Any]) -> tuple[Any, ...]:
    """The head of a node that waits, and is nothing yet that anyone counts. The order is that of lua/records.lua."""
    source, inject = next(((edge.source, edge.inject) for edge in links.ins if edge.inject), ("", 0))
    place = (
        graph, 0, len(links.ins), 0, links.spare, links.shape, "", "", 0, node.delay, node.at, node.expires_in,
        source, inject, outs, "0" * len(links.outs), int(links.aftermath),
    )  # fmt: skip
    return (
        0, 0, node.task, node.version, node.queue, node.priority, _WAITING, 1, 0, 0, 0, 0, 0, "", 0, 0, 0, 0,
        node.expires_at, CODE[node.expire_to], node.max_crashes, node.crash_delay, 0, 0, 0, 0, node.keep_done,
        node.keep_failed, "", "", False, False, terms(node.terms), place,
    )  # fmt: skip


def graph_answer(packed: bytes) -> GraphAnswer:
    return GraphAnswer(*_graph_answer(packed))


def place(packed: bytes) -> Links:
    """A node's links as it came with them; none where they are damaged, which is for the store to act on."""
    try:
        _, ins, outs, spare, shape, aftermath = _came_with(packed)
        return Links(
            [In(ins[k], On(ins[k + 1]), Inject(ins[k + 2])) for k in range(0, len(ins), 3)],
            [Out(outs[k], On(outs[k + 1]), outs[k + 2]) for k in range(0, len(outs), 3)],
            spare, Shape(shape), aftermath,
        )  # fmt: skip
    except UNREADABLE:
        return _ALONE


def inputs(packed: bytes, heads: Sequence[bytes | None]) -> list[Input]:
    """The sources of a node, from what it came with and their heads."""
    if not packed:
        return []
    try:
        ins = _came_with(packed)[1]
        edges = [(ins[k], Inject(ins[k + 2])) for k in range(0, len(ins), 3) if ins[k + 2]]
    except UNREADABLE:
        raise StoreError("the edges of this job are damaged: nobody knows any more what its arguments are") from None
    return [_input(source, inject, head) for (source, inject), head in zip(edges, heads, strict=True)]


def _input(source: str, inject: Inject, head: bytes | None) -> Input:
    try:
        h = _head(head or b"")
        if not isinstance(h.links, bool):
            shape = Shape.ONE if h.links.replaced else Shape(h.links.shape)
            return Input(source, h.task, STATES[h.state], inject, shape, _raw(h.result), _raw(h.error), h.reason)
    except UNREADABLE:
        pass
    return Input(source, "", State.FAILED, inject, Shape.CALL, reason=f"the record of {source} is gone")


def _raw(part: msgspec.Raw) -> bytes | None:
    """The bytes of a value that Lua kept as text, without looking at them; None for false."""
    whole = bytes(part)
    return None if whole == b"\xc2" else whole[_HEADS.get(whole[0], 1) :]


class GraphRow(msgspec.Struct, array_like=True):
    """A graph's row; the order is that of ``G`` in lua/links.lua."""

    name: str
    size: int
    nodes: int
    digest: str
    fail_fast: int
    parent: str
    keep_done: str
    keep_failed: str
    n: int
    staged: int
    opened: int
    real: int
    state: int
    stopping: str
    reason: str
    culprit: str
    created: int
    finished: int
    succeeded: int
    failed: int
    cancelled: int
    skipped: int


_graph_row = msgspec.msgpack.Decoder(GraphRow).decode
GRAPH = 3


def graphs(parts: Sequence[bytes]) -> list[GraphInfo]:
    return [graph(*parts[at : at + GRAPH]) for at in range(0, len(parts), GRAPH)]


def graph(id: bytes, packed: bytes, meta: bytes) -> GraphInfo:
    try:
        return _sound_graph(id, packed, meta)
    except UNREADABLE:
        failed = GraphInfo(id=id.decode("utf-8", "replace"), name="", state=State.FAILED, size=0, nodes=0, counts={})
        failed.reason = lifecycle.CORRUPT
        return failed


def _sound_graph(id: bytes, packed: bytes, meta: bytes) -> GraphInfo:
    g = _graph_row(packed)
    ended = zip(STATES[4:], (g.succeeded, g.failed, g.cancelled, g.skipped), strict=True)
    return GraphInfo(
        id=id.decode(), name=g.name, state=STATES[g.state], size=g.size, nodes=g.nodes,
        counts={str(state): number for state, number in ended if number}, reason=g.reason, culprit=g.culprit,
        parent=g.parent, stopping=g.stopping, meta=meta, created_at=g.created, finished_at=g.finished,
    )  # fmt: skip


# -- gates, unique keys

_limits = msgspec.msgpack.Decoder(Limits).decode
_hold = msgspec.msgpack.Decoder(tuple[HoldKind, str, str, str, int, int, int]).decode
GATE = 10


def tune(tunings: Sequence[Tuning]) -> bytes:
    def packed(said: Limits | bytes | msgspec.UnsetType) -> msgspec.Raw | bool:
        if isinstance(said, msgspec.UnsetType):
            return False
        return as_text(encode(said) if isinstance(said, Limits) else said)

    return encode(
        [
            [
                one.name, one.expect, packed(one.declared), packed(one.tuned),
                -1 if one.closed_for is msgspec.UNSET else one.closed_for, packed(one.note),
            ]
            for one in tunings
        ]
    )  # fmt: skip


def limits(packed: bytes) -> Limits:
    return _limits(packed) if packed else NO_LIMITS


def gates(parts: Sequence[Any]) -> list[GateInfo]:
    return [
        GateInfo(
            name=name.decode(), version=version, declared=limits(declared), tuned=limits(tuned), closed_for=closed_for,
            note=note, held=held, waiting=waiting, opens_in=opens_in, changed=bool(changed),
        )
        for name, version, declared, tuned, closed_for, note, held, waiting, opens_in, changed in (
            parts[at : at + GATE] for at in range(0, len(parts), GATE)
        )
    ]  # fmt: skip


def hold(packed: bytes) -> Hold | None:
    if not packed:
        return None
    kind, lane, gate, holder, missing, opens_in, ahead = _hold(packed)
    return Hold(
        kind=kind, lane=lane, gate=gate, holder=holder, missing=missing, opens_in=opens_in, ahead=ahead
    )  # fmt: skip


def uniques(parts: Sequence[Any]) -> list[UniqueInfo | None]:
    return [
        UniqueInfo(holder=parts[at].decode(), successor=parts[at + 1].decode(), window=parts[at + 2])
        if parts[at]
        else None
        for at in range(0, len(parts), 3)
    ]


# -- totals and faults


def totals(parts: Sequence[bytes]) -> list[Total]:
    found = [(name.decode().split("\n"), int(number)) for name, number in zip(parts[::2], parts[1::2], strict=True)]
    return [Total(kind, queue, task, count) for (kind, queue, task), count in sorted(found, key=_by_queue) if count > 0]


def _by_queue(counted: tuple[list[str], int]) -> tuple[str, str, str]:
    (kind, queue, task), _ = counted
    return queue, task, kind


def faults(parts: Sequence[Any]) -> list[Fault]:
    return [Fault(parts[at].decode(), parts[at + 1], parts[at + 2].decode()) for at in range(0, len(parts), 3)]


# -- events

_Rows = tuple[str, str, str, str, list[str], list[str] | bool | None]
_entry = msgspec.msgpack.Decoder(tuple[int, list[_Rows]]).decode
_json = msgspec.json.Decoder().decode


def entry(name: bytes, packed: bytes) -> Entry:
    """An entry of the event stream. Neighbours of one kind, kept apart by task and queue, are one group again."""
    try:
        at, kept = _entry(packed)
    except UNREADABLE:  # damaged: those who follow the stream must get past it
        at, kept = 0, []
    groups: list[Group] = []
    for kind, worker, task, queue, ids, data in kept:
        rows: list[EventRow] = [[id, task, queue] for id in ids]
        if isinstance(data, list):
            rows = [[*row, _json(said)] for row, said in zip(rows, data, strict=True)]
        if groups and groups[-1][0] == kind and groups[-1][1] == worker:
            groups[-1][2].extend(rows)
        else:
            groups.append((kind, worker, rows))
    return Entry(int(name.partition(b"-")[0]), at, groups)
