"""Operators' actions that concern graphs: on the id of a graph, and on jobs that are members of one."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.store.jobs import Action, Change
from windlass.store.machine.codes import SKIPPED
from windlass.store.machine.graphs import units
from windlass.store.machine.graphs.audits import is_busy
from windlass.store.machine.graphs.nodes import STAGED, GraphRow, NodeRow
from windlass.store.machine.graphs.opening import open_early
from windlass.store.machine.graphs.retention import file_graphs
from windlass.store.machine.graphs.spreading import first_blame, wait_again
from windlass.store.machine.graphs.staging import drop
from windlass.store.machine.graphs.todos import Step, Todo, TodoKind, put_up, work_off
from windlass.store.machine.graphs.workset import Workset
from windlass.store.machine.tx import Tx, ids_json
from windlass.store.shared import ALLOWED_ON_GRAPHS, STATES


def on_graphs(tx: Tx, change: Change, ids: Sequence[str]) -> dict[str, str]:
    """Act on those of these ids that are graphs, and answer for each why that cannot be, or ''. Members that are not
    opened yet are opened, so that they can be acted on as jobs."""
    workset, answers = Workset(tx), {}
    for graph in workset.graphs_named(ids):
        if graph.state != STAGED:
            answers[str(graph.id)] = _on_graph(workset, graph, change)
    others = [id for id in ids if id not in answers]
    for (n,) in tx.all(tx.sql.opening.UNOPENED, (ids_json(others),)) if others else ():
        for node in workset.numbered([n]):
            graph_of = workset.graph(node)
            if graph_of is not None:
                open_early(workset, graph_of, [n])
    file_graphs(workset)
    workset.flush()
    for queue, count in workset.released.items():
        tx.wake(queue, count)
    return answers


def _on_graph(workset: Workset, graph: GraphRow, change: Change) -> str:
    tx, state = workset.tx, STATES[graph.state]
    if state not in ALLOWED_ON_GRAPHS.get(change.action, ()):
        return str(state)
    if change.action is Action.CANCEL:
        if not graph.stopping:
            workset.stop(graph, "cancel", change.reason or "cancelled")
            put_up(tx, [Todo(TodoKind.STOP, graph.n, 0, graph.n)])
    elif change.action is Action.RETRY:
        _retry_all(workset, graph)
    else:
        drop(tx, graph.n)
        workset.graphs.pop(graph.n)
    return ""


def _retry_all(workset: Workset, graph: GraphRow) -> None:
    """Start all of a graph again that ended badly: at once its end waits and nothing stops it, its jobs follow by
    todos."""
    workset.change_graph(graph)
    graph.stopping = graph.reason = graph.culprit = ""
    todos = [Todo(TodoKind.RETRY, graph.n, 0, graph.n)]
    end = workset.one(graph.id or "")
    if end is not None and end.over:
        wait_again(workset, end)
        todos.append(Todo(TodoKind.REOPEN, graph.n, end.n, graph.n))
        workset.reopened.remove(end)
    put_up(workset.tx, [*todos, Todo(TodoKind.DECIDE, graph.n, 0, graph.n)])


def why_not(tx: Tx, action: Action, nodes: Sequence[int]) -> dict[int, str]:
    """For members, by the numbers of their nodes: why an action must not be that fits the member's state. Most may."""
    if action not in (Action.RETRY, Action.DELETE):
        return {}
    workset, answers = Workset(tx), {}
    for node in workset.numbered(nodes):
        graph = workset.graph(node)
        if graph is None:
            continue
        if action is Action.RETRY and node.state == SKIPPED:
            answers[node.n] = f"skipped; retry {node.culprit} instead"
        elif action is Action.RETRY and node.open == 0 and node.broken > node.spare and _stopped(workset, node) is None:
            answers[node.n] = f"{STATES[node.state]}; retry {first_blame(workset, node)} instead"
        # With todos, the graph may be under way again in a moment, and this be a member it waits for.
        elif action is Action.DELETE and (graph.under_way or (graph.over and is_busy(tx, graph))):
            answers[node.n] = "its workflow is under way"
    return answers


def retry(tx: Tx, nodes: Sequence[int]) -> set[int]:
    """Start members again; answers the nodes of those that were. A member of a graph that was stopped is started with
    all others that ended badly, by a todo."""
    step, done = Step(tx), set()
    for node in step.workset.numbered(nodes):
        stopped = _stopped(step.workset, node)
        if stopped is not None:  # all of it, or it would run before those it waits for
            _retry_all(step.workset, stopped)
        else:
            units.restart(step.workset, node, waits=node.open > 0)
            done.add(node.n)
    work_off(tx, step)
    return done


def _stopped(workset: Workset, node: NodeRow) -> GraphRow | None:
    """The node's graph, if that was stopped and this concerns the node."""
    graph = workset.graph(node)
    return graph if graph is not None and graph.stopping and not node.aftermath else None
