"""The nodes and graphs that one step has read: each once, and many together where it is known what is needed next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windlass.core.links import In, Out
from windlass.store.machine.graphs.nodes import GraphRow, NodeRow, graphs_of, ins_of, nodes_of, outs_of
from windlass.store.machine.tx import Tx, encode, ids_json


class Loaded:
    """What was read. A row that is here is the only one of its node or graph: a step changes it and sees what it
    changed."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.nodes: dict[str, NodeRow] = {}
        self.graphs: dict[int, GraphRow] = {}
        self._numbers: dict[int, NodeRow] = {}
        self._pages: set[tuple[int, int]] = set()
        self._outs: dict[int, list[Out]] = {}

    # -- nodes

    def load(self, ids: Iterable[str]) -> None:
        """Read these nodes, so that ``one`` need not ask for each of them."""
        missing = [id for id in dict.fromkeys(ids) if id not in self.nodes]
        if missing:
            self._know(*self.tx.one(self.tx.sql.nodes.BY_ID, (ids_json(missing),)))

    def one(self, id: str) -> NodeRow | None:
        self.load([id])
        return self.nodes.get(id)

    def numbered(self, numbers: Sequence[int]) -> list[NodeRow]:
        """The nodes with these numbers, those that are there."""
        missing = [n for n in dict.fromkeys(numbers) if n not in self._numbers]
        if missing:
            self._know(*self.tx.one(self.tx.sql.nodes.BY_NUMBER, (ids_json(missing),)))
        return [self._numbers[n] for n in numbers if n in self._numbers]

    def page(self, after: int, last: int, limit: int) -> list[NodeRow]:
        """At most so many nodes behind a number, up to another, in order."""
        if (after, last) in self._pages and last - after <= limit:
            return [self._numbers[n] for n in range(after + 1, last + 1) if n in self._numbers]
        found = self._know(*self.tx.one(self.tx.sql.nodes.PAGE, (after, last, limit)))
        return [self._numbers[node.n] for node in found]

    def read_pages(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Read all nodes behind a number, up to another, so that ``page`` need not ask for each of these pages."""
        missing = [place for place in ranges if place not in self._pages]
        if missing:
            self._know(*self.tx.one(self.tx.sql.nodes.BY_RANGES, (encode(missing).decode(),)))
            self._pages.update(missing)

    def knows_page(self, graph: int, after: int) -> bool:
        return graph in self.graphs and (after, self.graphs[graph].last) in self._pages

    def _know(self, nodes: str, graphs: str = "[]") -> list[NodeRow]:
        found = nodes_of(nodes)
        for node in found:
            if node.n not in self._numbers:
                self.nodes[node.id] = self._numbers[node.n] = node
        for graph in graphs_of(graphs):
            self.graphs.setdefault(graph.n, graph)
        return found

    def _forget(self, nodes: Iterable[int]) -> None:
        self._pages.clear()
        for n in nodes:
            if n in self._numbers:
                del self.nodes[self._numbers.pop(n).id]

    # -- graphs

    def graph(self, node: NodeRow) -> GraphRow | None:
        """The graph of a node: it was read with the node."""
        return self.graphs.get(node.graph)

    def graph_named(self, id: str) -> GraphRow | None:
        end = self.nodes.get(id)
        graph = self.graph(end) if end is not None else None
        if graph is not None and graph.id == id:
            return graph
        return next(iter(self.graphs_named([id])), None)

    def graphs_named(self, ids: Sequence[str]) -> list[GraphRow]:
        """Those of these ids that are graphs, also staged ones."""
        found = graphs_of(self.tx.value(self.tx.sql.nodes.GRAPHS_BY_ID, (ids_json(ids),)))
        return [self.graphs.setdefault(graph.n, graph) for graph in found]

    def graph_numbered(self, n: int) -> GraphRow | None:
        self.load_graphs([n])
        return self.graphs.get(n)

    def load_graphs(self, numbers: Iterable[int]) -> None:
        missing = [n for n in dict.fromkeys(numbers) if n not in self.graphs]
        if missing:
            for graph in graphs_of(self.tx.value(self.tx.sql.nodes.GRAPHS_BY_NUMBER, (ids_json(missing),))):
                self.graphs[graph.n] = graph

    # -- edges

    def load_outs(self, nodes: Iterable[NodeRow]) -> None:
        """Read the edges from these nodes, and the nodes they lead to."""
        missing = [node.n for node in nodes if node.edges and node.n not in self._outs]
        if missing:
            outs, targets = self.tx.one(self.tx.sql.nodes.OUTS, (ids_json(missing),))
            self._outs.update(outs_of(outs))
            # Their graphs are known, but for those of jobs that await a graph.
            away = {node.n for node in self._know(targets) if node.graph and node.graph not in self.graphs}
            if away:
                self._know(*self.tx.one(self.tx.sql.nodes.BY_NUMBER, (ids_json(away),)))

    def knows_outs(self, n: int) -> bool:
        return n in self._outs or (n in self._numbers and not self._numbers[n].edges)

    def outs_of(self, node: NodeRow) -> list[Out]:
        if node.n not in self._outs:
            self.load_outs([node])
        return self._outs.get(node.n, [])

    def ins_of(self, node: NodeRow) -> list[In]:
        found = ins_of(self.tx.value(self.tx.sql.nodes.INS, (ids_json([node.n]),)))
        return found[0][1] if found else []
