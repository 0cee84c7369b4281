"""Todos: work that takes more than one step, kept in the order it came. Every call does some of it.

A todo about one node and its edges (spread, reopen) is done whole. A todo about all nodes of a graph visits them in
order, as far as one step may, and then goes behind the other todos.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.core.event import Group
from windlass.core.job import TERMINAL, State
from windlass.store.memory import endings, retention, states
from windlass.store.memory.audits import repair
from windlass.store.memory.hub import Hub
from windlass.store.memory.records import GraphRow, Phase, Row, Todo, event_row
from windlass.store.memory.spreading import GAVE_UP, Step, decide, open_node, place_of, reopen, spread


def work(hub: Hub, now: int) -> Step:
    """Do one step's share of the todos, first come first served."""
    step = Step(hub, now)
    while hub.todos and step.left > 0:
        todo = hub.todos.popleft()
        if DO[todo.op](step, todo):
            if todo.graph is not None:
                todo.graph.todos -= 1
        else:
            hub.todos.append(todo)
    return step


def work_off(hub: Hub, now: int) -> list[Group]:
    """Do the same for a call that claims nothing itself: an idle worker is woken for what is left."""
    if not hub.todos:
        return []
    step = work(hub, now)
    if hub.todos:
        hub.wake_any()
    return step.groups()


def open_early(hub: Hub, row: Row, now: int) -> list[Group]:
    """Open a node that is wanted before its turn comes."""
    step = Step(hub, now)
    open_node(step, row)
    return step.groups()


def over_nodes(visit: Callable[[Step, GraphRow, Row], None]) -> Callable[[Step, Todo], bool]:
    """A todo that visits every node of its graph that still exists."""

    def go_on(step: Step, todo: Todo) -> bool:
        graph = todo.graph
        assert graph is not None
        ids = graph.members[todo.cursor : todo.cursor + max(step.left, 1)]
        for id in ids:
            row = step.hub.jobs.get(id) or step.hub.nodes.get(id)
            if row is not None and row.links is not None and row.links.graph is graph:
                visit(step, graph, row)
        todo.cursor += len(ids)
        step.left -= len(ids)
        return todo.cursor >= len(graph.members)

    return go_on


def do_spread(step: Step, todo: Todo) -> bool:
    assert todo.row is not None
    spread(step, todo.row)
    return True


def do_reopen(step: Step, todo: Todo) -> bool:
    assert todo.row is not None
    reopen(step, todo.row)
    return True


def open_one(step: Step, graph: GraphRow, row: Row) -> None:
    if not place_of(row).opened and graph.phase is Phase.REAL:
        open_node(step, row)


def stop_one(step: Step, graph: GraphRow, row: Row) -> None:
    """Cancel a job of a stopping graph. Joins follow by their edges; a node that is not opened yet is ended at its
    release.
    """
    place = place_of(row)
    spared = not row.task or not place.opened or place.links.aftermath
    if not graph.stopping or spared or row.state in TERMINAL or row.cancel:
        return
    running = row.state is State.RUNNING
    endings.cancel(step.hub, row, step.now, graph.reason)
    if not running:
        step.ended(row)


def retry_one(step: Step, graph: GraphRow, row: Row) -> None:
    """Let a job that ended badly wait again. Skipped nodes and joins follow by their edges."""
    place = place_of(row)
    if not row.task or row.state not in GAVE_UP or place.links.aftermath:
        return
    restart(step.hub, row)
    states.make_waiting(step.hub, row)
    step.events["replayed"].append(event_row(row))


def let_go(hub: Hub, row: Row) -> None:
    """A job no longer waits for its graph, nor is it replaced by it: from now on the graph is kept on its own."""
    place = place_of(row)
    awaited, place.awaits, place.replaced = hub.graphs.get(place.awaits), "", False
    if awaited is not None and awaited.finished_at:
        retention.file_graph(hub, awaited)


def do_retry(step: Step, todo: Todo) -> bool:
    done = retry_members(step, todo)
    if done:
        step.hub.todo("decide", todo.graph)
    return done


def do_decide(step: Step, todo: Todo) -> bool:
    """Decide the nodes of a retried graph after everything was reopened, so that none is released that must wait for
    another.
    """
    if todo.cursor == 0 and any(one.graph is todo.graph and one.op in BEFORE_DECIDING for one in step.hub.todos):
        step.left -= 1
        return False
    return decide_members(step, todo)


def decide_one(step: Step, graph: GraphRow, row: Row) -> None:
    """Decide a waiting node without an open edge: none leads to it, or none of them was opened again."""
    place = place_of(row)
    idle = row.state is State.WAITING and place.opened and not place.awaits
    if graph.phase is Phase.REAL and idle and place.open == 0:
        decide(step, row)


def restart(hub: Hub, row: Row) -> None:
    """Begin a new run of a job, whatever its next state is. Of the old run only its error is kept, for the next
    attempts to read.
    """
    retention.unfile(hub, row)
    place = row.links
    if place is not None:
        let_go(hub, row)
        place.culprit = ""
        if (graph := place.graph) is None:
            row.links = None
        else:
            graph.stamp += 1
            graph.counts[row.state] -= not place.links.aftermath
            if place.links.outs:
                hub.todo("reopen", graph, row)
    row.run += 1
    row.attempt = row.crashes = row.snoozes = row.finished_at = row.expires = row.rank = 0
    row.result = row.progress = None
    if not row.task:  # a join's error comes from nodes that start again
        row.error = None
    row.reason = row.fingerprint = ""


def prune_one(step: Step, graph: GraphRow, row: Row) -> None:
    """Drop a member of a workflow that is no longer kept. Its callbacks are jobs of their own and stay,
    opened or not.
    """
    place = place_of(row)
    if not place.links.aftermath:
        if step.hub.nodes.pop(row.id, None) is None:
            retention.remove(step.hub, row)
    elif not place.opened:
        open_node(step, row)


def drop_one(step: Step, graph: GraphRow, row: Row) -> None:
    if step.hub.nodes.pop(row.id, None) is None and row.state is not State.RUNNING:
        step.events["deleted"].append(event_row(row))
        endings.delete(step.hub, row)


retry_members, decide_members = over_nodes(retry_one), over_nodes(decide_one)
BEFORE_DECIDING = ("open", "reopen", "retry")

DO: dict[str, Callable[[Step, Todo], bool]] = {
    "open": over_nodes(open_one),
    "spread": do_spread,
    "reopen": do_reopen,
    "stop": over_nodes(stop_one),
    "retry": do_retry,
    "decide": do_decide,
    "prune": over_nodes(prune_one),
    "drop": over_nodes(drop_one),
    "repair": over_nodes(repair),
}
