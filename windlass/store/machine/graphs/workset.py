"""The working set of one step on graphs: nodes and graphs are read once, changed here, and written back together.

It applies what ``spreading`` and the others decide, and decides nothing itself. What it changes, and what that means
for others, is noted; ``flush`` writes the changes, and ``todos`` puts up the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.core.graph import because
from windlass.core.job import State
from windlass.core.lifecycle import EXPIRED
from windlass.store.machine.codes import FIRST_TERMINAL, READY, SCHEDULED, WAITING
from windlass.store.machine.graphs.inherited import InheritedError, InheritedValue
from windlass.store.machine.graphs.loaded import Loaded
from windlass.store.machine.graphs.nodes import DROPPED, GraphRow, NodeRow
from windlass.store.machine.graphs.unsaved import JobMove, JoinMove, Unsaved
from windlass.store.machine.tx import Tx
from windlass.store.shared import STATES


class Workset(Loaded):
    """Nodes and graphs of one step, and what becomes of them."""

    def __init__(self, tx: Tx) -> None:
        super().__init__(tx)
        self.unsaved = Unsaved(tx)
        self.inherited, self.released, self.event = (
            self.unsaved.inherited, self.unsaved.released, self.unsaved.event,
        )  # fmt: skip
        self.ended: list[NodeRow] = []
        self.reopened: list[NodeRow] = []
        self.stopped: list[GraphRow] = []
        self.doomed: list[int] = []
        """What was done here and means something for others, which is still to be put up as todos."""
        self.gone_jobs: dict[int, NodeRow] = {}
        self.gone_nodes: dict[int, NodeRow] = {}
        self.gone_graphs: list[int] = []
        """What is to be deleted: jobs with their nodes, nodes that are no jobs, and graphs."""
        self.resumed: list[tuple[int, int]] = []
        """Buckets from which a graph was taken, with its nodes, as it is under way again."""
        self.closing: dict[int, GraphRow] = {}
        """Graphs that are over, or that nobody awaits any more, and are to be kept for themselves."""
        self.hurried: list[NodeRow] = []
        """Jobs that need not wait, and are to be opened before their turn: then nobody would know that any more."""

    # -- nodes

    def change(self, node: NodeRow) -> NodeRow:
        """A node's counters, edges or culprit change."""
        self.unsaved.nodes[node.n] = node
        return node

    def blame_itself(self, node: NodeRow) -> None:
        """A node ended, and not because of another; whoever gives it up says otherwise."""
        if node.culprit:
            self.change(node).culprit = ""

    def count(self, node: NodeRow, change: int) -> None:
        """A job of a graph ended, or started again."""
        graph = self.graph(node)
        if graph is not None:
            self.change_graph(graph)
            if not node.aftermath:
                graph.counts[node.state - FIRST_TERMINAL] += change

    # -- jobs

    def move(self, node: NodeRow, to: int, due: int = 0) -> None:
        """A job becomes waiting, scheduled or ready."""
        self.unsaved.move(JobMove(node, to, due, node.crashes))
        node.state = to
        if to == READY:
            self.released[node.queue] += 1
        elif to == SCHEDULED:
            self.unsaved.due.append((due, node.queue))

    def end(
        self, node: NodeRow, state: int, reason: str, error: InheritedError | None = None,
        value: InheritedValue | None = None,
    ) -> None:  # fmt: skip
        """A job ends without having run, or with the value of a graph."""
        if node.state == WAITING and node.awaits:
            self.abandon(node, reason)
        self.unsaved.move(
            JobMove(node, state, 0, node.crashes, reason, error or InheritedError(), value or InheritedValue())
        )
        self.inherited.becomes(node.id, value, error)
        node.state, node.reason, node.cancel = state, reason, 0
        self.blame_itself(node)
        self.count(node, 1)
        self.ended.append(node)
        self.event(str(STATES[state]), [node.id, node.task, node.queue], reason)

    def again(self, node: NodeRow) -> None:
        """A job begins a new run; where it goes must be said by ``move``."""
        self.unsaved.again(node)
        self.inherited.becomes(node.id)
        node.reason, node.crashes = "", 0

    def abandon(self, node: NodeRow, reason: str) -> None:
        """A job that waited for a graph has ended: the graph goes with it."""
        graph = self.graph_named(node.awaits)
        if graph is not None and graph.under_way:
            if reason == EXPIRED:  # the job's time has passed, not that of the graph's jobs
                reason = because(node.task, node.id, State.CANCELLED, expired=True)
            self.stop(graph, "cancel", reason or "cancelled")

    def cancel_running(self, node: NodeRow, reason: str) -> None:
        """Ask a job's worker to stop it."""
        node.cancel = 1
        self.unsaved.cancelling.append((node.job, reason, node.worker))

    def expire_at(self, node: NodeRow, instant: int) -> None:
        self.unsaved.expiring.append((node.job, instant))

    def file(self, node: NodeRow) -> None:
        """A job is put into its bucket."""
        self.unsaved.filing.append(node.job)

    # -- joins

    def move_join(
        self, node: NodeRow, state: int, reason: str, value: InheritedValue | None = None,
        error: InheritedError | None = None,
    ) -> None:  # fmt: skip
        """A join ends, or waits again."""
        node.state, node.reason = state, reason
        node.finished_at = self.tx.now if node.over else 0
        join = JoinMove(node, state, reason, value or InheritedValue(), error or InheritedError())
        self.unsaved.join(join)
        self.inherited.becomes(node.id, join.value, join.error)
        if node.over:
            self.ended.append(node)

    # -- graphs

    def change_graph(self, graph: GraphRow) -> GraphRow:
        """Something moved in a graph: an audit of it that is under way has to begin anew."""
        graph.looked = 0
        self.unsaved.graphs[graph.n] = graph
        return graph

    def stop(self, graph: GraphRow, how: str, reason: str, culprit: str = "") -> None:
        """Nothing of a graph starts from now on; what is there already is for the todo that goes over it."""
        if not graph.stopping:
            self.change_graph(graph)
            graph.stopping, graph.reason, graph.culprit = how, reason, culprit
            self.stopped.append(graph)

    def doom(self, graph: GraphRow) -> None:
        """A graph was taken out of sight, with all that was still to be written about it."""
        graph.id, graph.state, graph.bucket = None, DROPPED, 0
        self.graphs[graph.n] = graph
        self.unsaved.graphs.pop(graph.n, None)
        self.doomed.append(graph.n)

    # -- all

    def flush(self) -> None:
        """Write what has changed. Nodes stay known."""
        self.unsaved.flush()

    def forget(self, nodes: Iterable[int]) -> None:
        """These nodes were changed by other means: they are read again when they are needed."""
        self.flush()
        self._forget(nodes)
