"""The statements of workflows.

What is said in several of them means the same in each:

- *numbers*: JSON of a list of integers, *ids*: JSON of a list of texts. Each occurs once in it.
- *ranges*: JSON of a list of [number, last]: the nodes numbered above the first and up to the last.
- *JSON of nodes*: text of a JSON list, empty if there are none, of lists in the order of ``nodes.NodeRow``'s fields.
  What such a row says of a job is read from the job that has the node's id and names the node; the state of a node
  that has no such job and is no join is ``NONE_SUCH``, and the other fields of jobs are 0 and ''. The reason is the
  job's, else the node's own; joins (``shape`` above 0) have a state of their own.
- *JSON of graphs*: likewise, of lists in the order of ``nodes.GraphRow``'s fields. It includes staged and dropped
  ones.
- A node that is no job is watched under its own number below zero: ``watches.job`` is a job's number or minus a
  node's.
- Results and errors are text as ``codes`` writes it. A result is *at hand* if its job or join succeeded and the bytes
  that it stands for are at most ``INLINE_MAX``.
"""

from __future__ import annotations

from typing import Protocol


class NodeSql(Protocol):
    """Nodes and graphs as one step reads and changes them."""

    BY_ID: str
    """ids → one row: JSON of nodes, JSON of the graphs that these are of, both in any order"""
    BY_NUMBER: str
    """numbers of nodes → the same"""
    BY_RANGES: str
    """ranges → the same"""
    PAGE: str
    """number, last, limit → the same: at most so many nodes above the number and up to the last, in their order"""
    GRAPHS_BY_NUMBER: str
    """numbers of graphs → one value: JSON of graphs, in any order"""
    GRAPHS_BY_ID: str
    """ids of graphs → one value: JSON of graphs, in any order"""
    INS: str
    """numbers of nodes → one value: JSON of [number, [edge to it, …]], edges as ``links.In``"""
    OUTS: str
    """numbers of nodes → one row: JSON of [number, [edge from it, …]], edges as ``links.Out``; JSON of the nodes that
    these lead to, each once"""
    NEXT_DUE: str
    """→ when the first scheduled job is due, or NULL"""
    WATCHERS: str
    """numbers under which jobs or nodes are watched → (number, name of who watches it)"""
    UNWATCH: str
    """numbers under which jobs or nodes are watched: nobody watches them any more"""
    WEAVE: str
    """What a step changed. JSON of [node's number, open, broken, replaced, watched, edges, culprit, awaits]; of joins
    that ended or wait again, JSON of [node's number, state, run, finished_at, reason, result, error]; JSON of [graph's
    number, state, opened, succeeded, failed, cancelled, skipped, looked_at, looked, finished_at, stopping, reason,
    culprit, bucket, place]. All other columns stay."""
    UPROOT: str
    """Three lists of numbers that go: jobs, with their nodes, edges, logs, watches, and what counts them (their state,
    their bucket); nodes that are no jobs, with their edges, parts and watches; graphs. A graph that is over, is in no
    bucket and is awaited by a job that goes is dropped: its id becomes NULL, and a todo to prune it is put up."""
    FILE: str
    """now, a rank, bucket of succeeded jobs, bucket of failed ones, numbers of jobs: those that ended and are in no
    bucket are put into theirs, in this order and with a ``place`` each from the rank on. The bucket's name is the
    job's own ``keep_failed`` (of a failed job) or ``keep_done``, else the one given, with the job's queue behind it.
    Then each of these buckets is pruned by its count and its age, as when any job ends."""
    AGAIN: str
    """numbers of jobs: each begins a new run. Its run is one higher; attempt, crashes, snoozes, finished_at,
    expires_at, place and bucket are 0, result and progress NULL, reason and fingerprint ''. Its state and error
    stay."""
    EXPIRE_AT: str
    """JSON of [job's number, instant at which it expires]"""
    CANCEL: str
    """JSON of [job's number, reason, …]: it is to be cancelled, for this reason"""
    ROUSE: str
    """numbers of workers: they are no longer idle → (id) of each of them"""


class TodoSql(Protocol):
    """What is left to do for graphs. Todos have ascending numbers in the order in which they were put up."""

    FIRST: str
    """limit → (kind, graph, node, cursor, number) of the first todos, in their order"""
    KEPT_BEFORE: str
    """graph, three kinds → (number) of the todos of this graph that are of one of these kinds"""
    DONE: str
    """numbers of todos, which go"""
    PUT_UP: str
    """JSON of [kind, graph, node, cursor, …]: new todos, in this order"""
    ANY: str
    """→ 1 if there are any, else 0"""


class StagingSql(Protocol):
    """Graphs while they are handed in, and adopted."""

    KNOWN: str
    """graph's id → (number, state, digest, how many of its nodes are staged), or no row"""
    IS_TO_OPEN: str
    """graph's number → 1 if it has nodes that are not opened yet, else 0"""
    HAS_END: str
    """node's id, graph's number → a row if this node is of this graph"""
    TAKEN: str
    """ids → (id) of one of these that a job has, or a node of a graph that is not dropped; or no row"""
    CLEAR_LINKS: str
    """ids of nodes, whose edges go. Asked for before CLEAR_NODES, as is CLEAR_PARTS."""
    CLEAR_PARTS: str
    """ids of nodes, whose parts go"""
    CLEAR_NODES: str
    """ids of nodes, which go"""
    GRAPH: str
    """number, id, nodes, size, digest, name, meta, fail_fast, parent, keep_done, keep_failed, now: a new graph is
    staged, and looked at now"""
    NODES: str
    """JSON of [number, graph, id, shape, spare, aftermath, open, source, inject, delay, at, expires_in, edges]: new
    nodes. All their other columns have the values of what has not begun."""
    LINKS: str
    """JSON of [node's number, JSON of its edges to it, JSON of its edges from it]"""
    PARTS: str
    """JSON of [node's number, JSON of ``opening.UnopenedJob``]: its job is accepted later"""
    STAGED: str
    """how many nodes, now, graph's number: so many are staged now"""
    COMMIT: str
    """numbers of graphs, now: they are under way, whole, created and looked at now"""
    WHOLE: str
    """numbers of graphs → (number) of those of which all nodes are staged, also the one that bears the graph's id"""
    HAVE_NODES: str
    """JSON of [job's number, node's number]: the job has this node from now on"""


class OpeningSql(Protocol):
    """Nodes that are to take their place among the jobs.

    *Unopened nodes* are JSON of a list, empty if there are none, of lists in the order of ``opening.UnopenedNode``'s
    fields. The last field is the node's part as JSON (not as text), null if it has none.
    """

    PAGE: str
    """number, last, limit → one value: unopened nodes above the number and up to the last, at most so many, in
    order"""
    BY_RANGES: str
    """ranges → one value: unopened nodes, range by range as these are given, in order within each"""
    BY_NUMBER: str
    """numbers of nodes → one value: unopened nodes, in the order of their numbers"""
    TAKE: str
    """numbers of nodes, whose parts go"""
    TAKE_PAGE: str
    """number, last: the parts of nodes above the number and up to the last go"""
    ADMIT: str
    """now, JSON of [id, task, version, queue, priority, payload, meta, state, place, due, expires, expire_to,
    max_crashes, crash_delay, keep_done, keep_failed, node, hold, number, lane, terms]: new jobs, enqueued now, in this
    order. Their ids are known to be free."""
    MOVE_WATCHES: str
    """numbers of nodes that have a job now: who watched the node watches the job"""
    WATCHED: str
    """numbers of nodes: their jobs are marked as watched"""
    UNOPENED: str
    """ids → (node's number) of those that are nodes with a part, of graphs that are neither staged nor dropped"""


class AuditSql(Protocol):
    """Which graphs are to be looked after."""

    STALE: str
    """instant, limit → (graph's number) of staged graphs that were last looked at then or before"""
    NEXT: str
    """instant, limit → (graph's number) of graphs under way last looked at then or before, longest ago first"""
    HAS_TODO: str
    """graph's number → 1 if there is a todo of this graph, else 0"""
    TIMES: str
    """→ one row: when the staged graph, and when the graph under way, was looked at that was so longest ago; NULL for
    none"""


class InheritedSql(Protocol):
    """What nodes hand on."""

    READ: str
    """ids → (id, result if it is at hand or NULL, error, fingerprint) of jobs, and behind all of these of joins, whose
    fingerprint is ''. One id may have both."""


class LookupSql(Protocol):
    """Graphs as they are read, and what they bring to claims."""

    ONE: str
    """graph's id → (number, id, name, state, size, nodes, succeeded, failed, cancelled, skipped, reason, culprit,
    parent, stopping, meta, created_at, finished_at, reason of its end, culprit of its end) if it is neither staged nor
    dropped"""
    PAGE: str
    """number, JSON of states ([]: all), limit → the same of graphs below the number in one of these states, the
    highest numbers first"""
    NUMBER: str
    """graph's id → (number) if it is neither staged nor dropped"""
    MEMBERS: str
    """first number, end, graph's number → (id) of the graph's nodes from the first up to before the end, in their
    order"""
    ENTRY: str
    """node's id → (awaits, replaced, JSON of the edges to it), unless its graph is staged or dropped"""
    INPUTS: str
    """ids of nodes → (id, task or '', state, shape (1 where the node was replaced), result, error, reason); the last
    three, and the state, are those of its job where there is one"""
    BEQUESTS: str
    """numbers of nodes → one value: JSON of lists in the order of ``lookups.Bequest``'s fields, empty if there are
    none. What is given is the result of the node's source, if that is at hand, else null; stopping is '' for
    aftermath."""


class RetentionSql(Protocol):
    """Buckets of workflows: their names end with ``retention.APART``, before which ``core.keep`` reads their
    limits."""

    ADD: str
    """JSON of [bucket's name, weight]: buckets are made where there are none, and weigh so much more → (number, name,
    size, when the workflow in it with the lowest place ended or NULL) of each"""
    TAKE_OUT: str
    """JSON of [bucket's number, weight]: buckets weigh so much less"""
    NAMES: str
    """numbers of buckets → (number, name)"""
    OF_GRAPH: str
    """graph's number → (number of the bucket it is in or 0, its nodes, the bucket's name or NULL)"""
    OLDEST: str
    """numbers of buckets, limit → for each that has any, (number, JSON of the graphs in it, at most so many, by
    place)"""
    HIDE: str
    """numbers of graphs: they are dropped, in no bucket, and their ids are NULL"""
    FULL: str
    """now → (number, name, size) of buckets of workflows that weigh more than their count, or in which the workflow
    with the lowest place ended so long ago as their age"""
