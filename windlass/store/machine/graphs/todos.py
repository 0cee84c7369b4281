"""What is left to do for graphs, worked off in bounded steps, first come, first served.

A step takes what ended in its own transaction and what others left behind. What it does not get done is kept in the
file in the same transaction, so that nothing is ever forgotten; what needs more goes on behind the others.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from enum import IntEnum
from itertools import accumulate, takewhile
from typing import NamedTuple

from windlass.core.graph import WORK
from windlass.store.machine.codes import WAITING
from windlass.store.machine.flow.lanes import settle_down
from windlass.store.machine.graphs import audits, opening, spreading, units
from windlass.store.machine.graphs.nodes import GraphRow, NodeRow
from windlass.store.machine.graphs.retention import file_graphs
from windlass.store.machine.graphs.workset import Workset
from windlass.store.machine.tx import Tx, encode, ids_json


class TodoKind(IntEnum):
    """The kinds of todos. The numbers are part of the file's format."""

    OPEN = 0
    SPREAD = 1
    REOPEN = 2
    STOP = 3
    RETRY = 4
    DECIDE = 5
    PRUNE = 6
    DROP = 7
    REPAIR = 8


ALONG_EDGES = (TodoKind.SPREAD, TodoKind.REOPEN)
BY_PAGES = (TodoKind.STOP, TodoKind.RETRY, TodoKind.DECIDE, TodoKind.PRUNE, TodoKind.DROP)
BEFORE_DECIDING = (TodoKind.OPEN, TodoKind.REOPEN, TodoKind.RETRY)


class Todo(NamedTuple):
    """Something to do for a graph, or for one node of it. ``cursor``: the number of the last node that it was done for,
    at first the graph's own. ``n``: its number in the store, 0 while it is not kept there."""

    kind: int
    graph: int
    node: int = 0
    cursor: int = 0
    n: int = 0


class Visit(NamedTuple):
    """How a todo goes over the nodes of its graph: what it does with a page of them, and behind the last page."""

    page: Callable[[Workset, GraphRow, int, int], tuple[int, int]]
    last: Callable[[Workset, GraphRow], None] | None = None


VISITS = {
    TodoKind.OPEN: Visit(opening.open_page),
    TodoKind.STOP: Visit(units.stop_page),
    TodoKind.RETRY: Visit(units.retry_page),
    TodoKind.DECIDE: Visit(units.decide_page),
    TodoKind.PRUNE: Visit(units.prune_page, units.forget),
    TodoKind.DROP: Visit(units.drop_page, units.forget),
    TodoKind.REPAIR: Visit(audits.repair_page),
}


class Step:
    """The work of one transaction on todos: ``left`` is about how many nodes it may still touch."""

    def __init__(self, tx: Tx) -> None:
        self.tx, self.workset, self.left = tx, Workset(tx), WORK
        self._queue: deque[Todo] = deque()
        self._all = True
        self._done: list[int] = []

    def put_up(self, kind: TodoKind, graph: int, node: int = 0, cursor: int = 0) -> None:
        self._queue.append(Todo(kind, graph, node, cursor or graph))

    def run(self) -> Counter[str]:
        """Work todos off as far as a step may go, and keep the rest; how many jobs became ready, by queue."""
        tx = self.tx
        if tx.todos:
            kept = [Todo(*row) for row in tx.all(tx.sql.todos.FIRST, (WORK,))]
            self._all = len(kept) < WORK
            tx.todos = not self._all  # whoever puts up more from here on says so
            self._queue.extendleft(reversed(kept))
        for graph in tx.effects.take_adopted():
            self.workset.graphs.setdefault(graph.n, graph)
            self.put_up(TodoKind.OPEN, graph.n)
        self._take_ended()
        self._gather()
        while True:
            self._work_off_queue()
            file_graphs(self.workset)
            self._gather()
            if not self._queue or self.left <= 0:
                break
        self.workset.flush()
        self._keep()
        return self.workset.released

    def _work_off_queue(self) -> None:
        kind = None
        while self._queue and self.left > 0:
            if self._queue[0].kind != kind:
                units.remove(self.workset)
            todo = self._queue.popleft()
            kind = todo.kind
            self._do(todo)
            self._gather()
        units.remove(self.workset)

    def _take_ended(self) -> None:
        """Put up what the jobs mean for others that ended in this transaction before this step."""
        ended = self.tx.effects.take_nodes()
        for node in self.workset.numbered(list(ended)):
            self.workset.count(node, 1)
            self.workset.blame_itself(node)
            self.workset.ended.append(node)
            if ended[node.n] == WAITING and node.awaits:
                self.workset.abandon(node, node.reason)

    def _gather(self) -> None:
        """Put up what was just done means for others."""
        workset = self.workset
        for node in workset.hurried:
            self._hurry(node)
        workset.hurried = []
        for node in workset.ended:
            self.put_up(TodoKind.SPREAD, node.graph, node.n)
        for node in workset.reopened:
            self.put_up(TodoKind.REOPEN, node.graph, node.n)
        for graph in workset.stopped:
            self.put_up(TodoKind.STOP, graph.n)
        for doomed in workset.doomed:
            self.put_up(TodoKind.PRUNE, doomed)
        workset.ended, workset.reopened, workset.stopped, workset.doomed = [], [], [], []

    def _hurry(self, hurried: NodeRow) -> None:
        """Open a node before its turn and decide it: it need not wait for its other edges."""
        graph = self.workset.graph(hurried)
        if graph is not None:
            opening.open_early(self.workset, graph, [hurried.n])
        for node in self.workset.numbered([hurried.n]):
            if node.state == WAITING:
                spreading.decide(self.workset, node)

    def _do(self, todo: Todo) -> None:
        if todo.n:
            self._done.append(todo.n)
        if todo.kind == TodoKind.SPREAD:
            self._spread(todo)
        elif todo.kind == TodoKind.REOPEN:
            self._read_edges(todo)
            for node in self.workset.numbered([todo.node]):
                self.left -= spreading.reopen(self.workset, node)
        elif todo.kind == TodoKind.DECIDE and self._is_too_early(todo):
            self.left -= 1
            self._queue.append(todo._replace(n=0))
        else:
            self._visit(todo)

    def _spread(self, todo: Todo) -> None:
        self._read_edges(todo)
        for node in self.workset.numbered([todo.node]):
            self.left -= spreading.spread(self.workset, node)
            units.file_one(self.workset, node)

    def _read_edges(self, todo: Todo) -> None:
        """Read the edges that a todo follows, and with them those of the todos behind it that this step will get to."""
        workset = self.workset
        if workset.knows_outs(todo.node):
            return
        alike = [todo.node, *(other.node for other in self._queue if other.kind in ALONG_EDGES)]
        nodes = workset.numbered(alike[: self.left])
        edges = accumulate(1 + len(node.edges) for node in nodes)
        workset.load_outs(
            [node for i, (node, touched) in enumerate(zip(nodes, edges, strict=True)) if not i or touched <= self.left]
        )

    def _read_pages(self, todo: Todo) -> None:
        """Read the nodes that a todo goes over, and with them those of the todos behind it whose graphs are small
        enough for this step."""
        workset, left, ranges = self.workset, self.left, []
        alike = [todo, *(other for other in self._queue if other.kind in BY_PAGES)][: self.left]
        workset.load_graphs(other.graph for other in alike)
        for other in alike:
            graph = workset.graphs.get(other.graph)
            if graph is not None and (other.cursor, graph.last) not in ranges:
                left -= graph.last - other.cursor
                ranges.append((other.cursor, graph.last))
            if left < 0:
                ranges.pop()
                break
        if len(ranges) > 1:
            workset.read_pages(ranges)

    def _is_too_early(self, todo: Todo) -> bool:
        """Whether a retried graph cannot be decided yet. All of it is opened again before, so that no node is released
        which has to wait for another."""
        if todo.cursor != todo.graph:
            return False
        before = any(other.graph == todo.graph and other.kind in BEFORE_DECIDING for other in self._queue)
        if before or self._all:
            return before
        kept = {n for (n,) in self.tx.all(self.tx.sql.todos.KEPT_BEFORE, (todo.graph, *BEFORE_DECIDING))}
        return bool(kept.difference(self._done))

    def _visit(self, todo: Todo) -> None:
        """Do a todo for the next page of its graph's nodes."""
        workset = self.workset
        if todo.kind in BY_PAGES and not workset.knows_page(todo.graph, todo.cursor):
            self._read_pages(todo)
        if todo.kind == TodoKind.OPEN and self._open_wholes(todo):
            return
        visit, graph = VISITS[TodoKind(todo.kind)], workset.graph_numbered(todo.graph)
        if graph is None:
            return
        touched, cursor = visit.page(workset, graph, todo.cursor, max(self.left, 1))
        self.left -= touched + 1
        if cursor < graph.last:
            self._queue.append(todo._replace(cursor=cursor, n=0))
        elif visit.last is not None:
            visit.last(workset, graph)

    def _open_wholes(self, todo: Todo) -> bool:
        """Open this todo's graph and those of the todos behind it together, if there are several and they are small
        enough; whether that was done."""
        workset, rests, left = self.workset, list[tuple[GraphRow, int]](), self.left
        todos = [todo, *takewhile(lambda other: other.kind == TodoKind.OPEN, self._queue)]
        workset.load_graphs(other.graph for other in todos)
        for other in todos:
            graph = workset.graphs.get(other.graph)
            if (
                graph is None
                or not graph.under_way
                or left < graph.last - other.cursor
                or (graph, other.cursor) in rests
            ):
                break
            left -= graph.last - other.cursor + 1
            rests.append((graph, other.cursor))
        if len(rests) < 2:
            return False
        for _ in rests[1:]:
            other = self._queue.popleft()
            if other.n:
                self._done.append(other.n)
        self.left -= opening.open_wholes(workset, rests) + len(rests)
        return True

    def _keep(self) -> None:
        """Take off what is done, and keep what is not."""
        tx = self.tx
        if self._done:
            tx.run(tx.sql.todos.DONE, (ids_json(self._done),))
        fresh = [todo for todo in self._queue if not todo.n]
        if fresh:
            put_up(tx, fresh)
        tx.todos = bool(self._queue) or (tx.todos and tx.value(tx.sql.todos.ANY))


def put_up(tx: Tx, todos: list[Todo]) -> None:
    """Keep todos for whoever works next."""
    tx.run(tx.sql.todos.PUT_UP, (encode(todos).decode(),))
    tx.todos = True


def work(tx: Tx) -> Counter[str]:
    """Take one step on todos, if there is anything to do; how many jobs became ready, by queue."""
    return Step(tx).run() if tx.effects.in_graphs or tx.todos else Counter()


def work_off(tx: Tx, step: Step | None = None) -> None:
    """Take one step on todos in a call that claims nothing: wake workers for the jobs that became ready and for the
    todos that are left, and see to what all of it means for lanes."""
    if step is not None or tx.effects.in_graphs or tx.todos:
        for queue, count in (step or Step(tx)).run().items():
            tx.wake(queue, count)
        if tx.todos:
            tx.wake_any()
    settle_down(tx)
