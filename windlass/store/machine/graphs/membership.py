"""Operators' actions as far as they concern graphs: on a graph's id, and on jobs that are members of one."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.store.jobs import Action, Change
from windlass.store.machine.codes import CANCELLED, FAILED, SKIPPED, WAITING
from windlass.store.machine.graphs import units
from windlass.store.machine.graphs.audits import is_busy
from windlass.store.machine.graphs.nodes import STAGED, Graph, Node
from windlass.store.machine.graphs.opening import open_early
from windlass.store.machine.graphs.retention import file_graphs
from windlass.store.machine.graphs.spreading import first_blame, wait_again
from windlass.store.machine.graphs.staging import drop
from windlass.store.machine.graphs.todos import Op, Step, Todo, put_up, work_off
from windlass.store.machine.graphs.web import Web
from windlass.store.machine.tx import Tx, ids_json
from windlass.store.shared import STATES


def on_graphs(tx: Tx, change: Change, ids: Sequence[str]) -> dict[str, str]:
    """Act on those ids that are graphs: for each of these why not, or nothing. Jobs that are not accepted yet are."""
    web, answers = Web(tx), {}
    for graph in web.graphs_named(ids):
        if graph.state != STAGED:
            answers[str(graph.id)] = _on_graph(web, graph, change)
    others = [id for id in ids if id not in answers]
    for (n,) in tx.all(tx.sql.opening.UNOPENED, (ids_json(others),)) if others else ():
        for node in web.numbered([n]):
            graph_of = web.graph(node)
            if graph_of is not None:
                open_early(web, graph_of, [n])
    file_graphs(web)
    web.flush()
    for queue, count in web.released.items():
        tx.wake(queue, count)
    return answers


def _on_graph(web: Web, graph: Graph, change: Change) -> str:
    tx, state = web.tx, graph.state
    if change.action is Action.CANCEL and state == WAITING:
        if not graph.stopping:
            web.stop(graph, "cancel", change.reason or "cancelled")
            put_up(tx, [Todo(Op.STOP, graph.n, 0, graph.n)])
    elif change.action is Action.RETRY and state in (FAILED, CANCELLED):
        _retry_all(web, graph)
    elif change.action is Action.DELETE and state != WAITING:
        drop(tx, graph.n)
        web.graphs.pop(graph.n)
    else:
        return str(STATES[state])
    return ""


def _retry_all(web: Web, graph: Graph) -> None:
    """Nothing stops it any more and its end waits again, at once; its jobs follow."""
    web.change_graph(graph)
    graph.stopping = graph.reason = graph.culprit = ""
    todos = [Todo(Op.RETRY, graph.n, 0, graph.n)]
    end = web.one(graph.id or "")
    if end is not None and end.over:
        wait_again(web, end)
        todos.append(Todo(Op.REOPEN, graph.n, end.n, graph.n))
        web.reopened.remove(end)
    put_up(web.tx, [*todos, Todo(Op.DECIDE, graph.n, 0, graph.n)])


def why_not(tx: Tx, action: Action, nodes: Sequence[int]) -> dict[int, str]:
    """Why an action that fits a member's state must not be; most may."""
    if action not in (Action.RETRY, Action.DELETE):
        return {}
    web, answers = Web(tx), {}
    for node in web.numbered(nodes):
        graph = web.graph(node)
        if graph is None:
            continue
        if action is Action.RETRY and node.state == SKIPPED:
            answers[node.n] = f"skipped; retry {node.culprit} instead"
        elif action is Action.RETRY and node.open == 0 and node.broken > node.spare and _stopped(web, node) is None:
            answers[node.n] = f"{STATES[node.state]}; retry {first_blame(web, node)} instead"
        # With todos, the graph may be under way again in a moment, and this be a member it waits for.
        elif action is Action.DELETE and (graph.under_way or (graph.over and is_busy(tx, graph))):
            answers[node.n] = "its workflow is under way"
    return answers


def retry(tx: Tx, nodes: Sequence[int]) -> set[int]:
    """Start members again. In a graph that was stopped that means all that ended badly, and is left to a todo; answers
    which ones are not."""
    step, done = Step(tx), set()
    for node in step.web.numbered(nodes):
        stopped = _stopped(step.web, node)
        if stopped is not None:  # all of it, or it would run before those it waits for
            _retry_all(step.web, stopped)
        else:
            units.restart(step.web, node, waits=node.open > 0)
            done.add(node.n)
    work_off(tx, step)
    return done


def _stopped(web: Web, node: Node) -> Graph | None:
    graph = web.graph(node)
    return graph if graph is not None and graph.stopping and not node.aftermath else None
