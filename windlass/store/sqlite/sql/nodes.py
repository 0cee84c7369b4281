"""Nodes and graphs: read as JSON, many at once, and written back in one go."""

from __future__ import annotations

from windlass.store.machine.graphs.nodes import NONE_SUCH

NODE = f"""json_array(v.n, v.graph, v.id, v.shape, v.spare, v.aftermath, v.open, v.broken, v.delay, v.at, v.expires_in,
    v.replaced, v.watched, v.source, v.edges, v.culprit, v.awaits, v.run, v.finished_at,
    iif(v.shape, v.state, coalesce(j.state, {NONE_SUCH})), coalesce(j.reason, v.reason), coalesce(j.n, 0),
    coalesce(j.task, ''), coalesce(j.queue, ''), coalesce(j.crashes, 0), coalesce(j.max_crashes, 0),
    coalesce(j.worker, 0), coalesce(j.cancel, 0), coalesce(j.bucket, 0))"""
GRAPH = (
    "json_array(g.n, g.id, g.state, g.nodes, g.opened, json_array(g.succeeded, g.failed, g.cancelled, g.skipped), "
    "g.fail_fast, g.looked_at, g.looked, g.finished_at, g.bucket, g.stopping, g.reason, g.culprit, g.name, g.parent, "
    "g.keep_done, g.keep_failed, g.place)"
)


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
PAGE = _with_graphs("(SELECT * FROM nodes WHERE n > ?1 AND n <= ?2 ORDER BY n LIMIT ?3) AS v", " ORDER BY v.n")
GRAPHS_BY_NUMBER = f"SELECT json_group_array({GRAPH}) FROM json_each(?) AS w CROSS JOIN graphs AS g ON g.n = w.value"
GRAPHS_BY_ID = f"SELECT json_group_array({GRAPH}) FROM json_each(?) AS w CROSS JOIN graphs AS g ON g.id = w.value"
INS = (
    "SELECT json_group_array(json_array(l.n, json(l.ins))) FROM json_each(?) AS w "
    "CROSS JOIN links AS l ON l.n = w.value"
)
_LINKED = "json_each(?1) AS w CROSS JOIN links AS l ON l.n = w.value"
OUTS = (
    f"SELECT (SELECT json_group_array(json_array(l.n, json(l.outs))) FROM {_LINKED}), json_group_array({NODE}) "
    f"FROM (SELECT DISTINCT o.value ->> 0 AS id FROM {_LINKED} CROSS JOIN json_each(l.outs) AS o) AS t "
    "CROSS JOIN nodes AS v ON v.id = t.id LEFT JOIN jobs AS j ON j.id = v.id AND j.node = v.n"
)
NEXT_DUE = "SELECT min(due_at) FROM jobs WHERE state = 1"
WATCHERS = "SELECT w.job, w.name FROM json_each(?) AS e CROSS JOIN watches AS w ON w.job = e.value"
UNWATCH = "DELETE FROM watches WHERE job IN (SELECT value FROM json_each(?))"
WEAVE = "INSERT INTO weave VALUES (?, ?, ?)"
UPROOT = "INSERT INTO uproot VALUES (?, ?, ?)"
FILE = "INSERT INTO file VALUES (?, ?, ?, ?, ?)"
AGAIN = (
    "UPDATE jobs SET run = run + 1, attempt = 0, crashes = 0, snoozes = 0, finished_at = 0, expires_at = 0, place = 0, "
    "bucket = 0, result = NULL, progress = NULL, reason = '', fingerprint = '' "
    "WHERE n IN (SELECT value FROM json_each(?))"
)
EXPIRE_AT = "UPDATE jobs SET expires_at = e.value ->> 1 FROM json_each(?) AS e WHERE jobs.n = e.value ->> 0"
CANCEL = "UPDATE jobs SET cancel = 1, reason = c.value ->> 1 FROM json_each(?) AS c WHERE jobs.n = c.value ->> 0"
ROUSE = "UPDATE workers SET idle = 0 WHERE n IN (SELECT value FROM json_each(?)) RETURNING id"
