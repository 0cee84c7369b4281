"""Nodes and graphs as a step sees them, and the statements that read and change them. What a step does with them is in
``web``."""

from __future__ import annotations

import msgspec

from windlass.core.links import In, Out
from windlass.store.machine.codes import FIRST_TERMINAL, WAITING

NONE_SUCH = -1
"""The state of a job that has no record: it is not accepted yet, or gone."""

STAGED, DROPPED = -1, -2
"""States of graphs that nobody sees."""


class Node(msgspec.Struct, array_like=True):
    """A job or join as its graph knows it; the order of the fields is the order of NODE."""

    n: int
    graph: int
    id: str
    shape: int
    spare: int
    aftermath: int
    open: int
    broken: int
    delay: int
    at: int
    expires_in: int
    replaced: int
    watched: int
    source: str
    edges: str
    culprit: str
    awaits: str
    run: int
    finished_at: int
    state: int
    reason: str
    job: int = 0
    task: str = ""
    queue: str = ""
    crashes: int = 0
    max_crashes: int = 0
    worker: int = 0
    cancel: int = 0
    bucket: int = 0

    @property
    def over(self) -> bool:
        return self.state >= FIRST_TERMINAL

    @property
    def spread(self) -> bool:
        """Whether all edges from it are decided."""
        return "0" not in self.edges


NODE = f"""json_array(v.n, v.graph, v.id, v.shape, v.spare, v.aftermath, v.open, v.broken, v.delay, v.at, v.expires_in,
    v.replaced, v.watched, v.source, v.edges, v.culprit, v.awaits, v.run, v.finished_at,
    iif(v.shape, v.state, coalesce(j.state, {NONE_SUCH})), coalesce(j.reason, v.reason), coalesce(j.n, 0),
    coalesce(j.task, ''), coalesce(j.queue, ''), coalesce(j.crashes, 0), coalesce(j.max_crashes, 0),
    coalesce(j.worker, 0), coalesce(j.cancel, 0), coalesce(j.bucket, 0))"""


class Graph(msgspec.Struct, array_like=True):
    """A graph as a step sees it; the order of the fields is the order of GRAPH."""

    n: int
    id: str | None
    state: int
    nodes: int
    opened: int
    counts: list[int]
    fail_fast: int
    looked_at: int
    looked: int
    finished_at: int
    bucket: int
    stopping: str
    reason: str
    culprit: str
    name: str
    parent: str
    keep_done: str
    keep_failed: str
    place: int

    @property
    def under_way(self) -> bool:
        return self.state == WAITING

    @property
    def over(self) -> bool:
        return self.state >= FIRST_TERMINAL

    @property
    def last(self) -> int:
        """The number of its last node."""
        return self.n + self.nodes


GRAPH = (
    "json_array(g.n, g.id, g.state, g.nodes, g.opened, json_array(g.succeeded, g.failed, g.cancelled, g.skipped), "
    "g.fail_fast, g.looked_at, g.looked, g.finished_at, g.bucket, g.stopping, g.reason, g.culprit, g.name, g.parent, "
    "g.keep_done, g.keep_failed, g.place)"
)
GRAPHS_BY_NUMBER = f"SELECT json_group_array({GRAPH}) FROM json_each(?) AS w CROSS JOIN graphs AS g ON g.n = w.value"
GRAPHS_BY_ID = f"SELECT json_group_array({GRAPH}) FROM json_each(?) AS w CROSS JOIN graphs AS g ON g.id = w.value"


def _with_graphs(source: str, order: str = "") -> str:
    """Nodes and the graphs they are of."""
    return (
        f"SELECT json_group_array({NODE}{order}), "
        f"(SELECT json_group_array({GRAPH}) FROM graphs AS g WHERE g.n IN (SELECT v.graph FROM {source})) "
        f"FROM {source} LEFT JOIN jobs AS j ON j.id = v.id AND j.node = v.n"
    )


BY_ID = _with_graphs("json_each(?1) AS w CROSS JOIN nodes AS v ON v.id = w.value")
BY_NUMBER = _with_graphs("json_each(?1) AS w CROSS JOIN nodes AS v ON v.n = w.value")
BY_RANGES = _with_graphs("json_each(?1) AS w CROSS JOIN nodes AS v ON v.n > w.value ->> 0 AND v.n <= w.value ->> 1")
BY_RANGE = _with_graphs("(SELECT * FROM nodes WHERE n > ?1 AND n <= ?2 ORDER BY n LIMIT ?3) AS v", " ORDER BY v.n")
INS = (
    "SELECT json_group_array(json_array(l.n, json(l.ins))) FROM json_each(?) AS w "
    "CROSS JOIN links AS l ON l.n = w.value"
)
LINKED = "json_each(?1) AS w CROSS JOIN links AS l ON l.n = w.value"
BEHIND = (
    f"SELECT (SELECT json_group_array(json_array(l.n, json(l.outs))) FROM {LINKED}), json_group_array({NODE}) "
    f"FROM (SELECT DISTINCT o.value ->> 0 AS id FROM {LINKED} CROSS JOIN json_each(l.outs) AS o) AS t "
    "CROSS JOIN nodes AS v ON v.id = t.id LEFT JOIN jobs AS j ON j.id = v.id AND j.node = v.n"
)
"""The edges from nodes, and the nodes they lead to."""
WATCHES = "SELECT w.job, w.name FROM json_each(?) AS e CROSS JOIN watches AS w ON w.job = e.value"
CANCEL = "UPDATE jobs SET cancel = 1, reason = c.value ->> 1 FROM json_each(?) AS c WHERE jobs.n = c.value ->> 0"
ROUSE = "UPDATE workers SET idle = 0 WHERE n IN (SELECT value FROM json_each(?)) RETURNING id"
UNWATCH = "DELETE FROM watches WHERE job IN (SELECT value FROM json_each(?))"
AGAIN = (
    "UPDATE jobs SET run = run + 1, attempt = 0, crashes = 0, snoozes = 0, finished_at = 0, expires_at = 0, place = 0, "
    "bucket = 0, result = NULL, progress = NULL, reason = '', fingerprint = '' "
    "WHERE n IN (SELECT value FROM json_each(?))"
)

graphs_of = msgspec.json.Decoder(list[Graph]).decode
nodes_of = msgspec.json.Decoder(list[Node]).decode
outs_of = msgspec.json.Decoder(list[tuple[int, list[Out]]]).decode
ins_of = msgspec.json.Decoder(list[tuple[int, list[In]]]).decode
