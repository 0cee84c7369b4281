"""Nodes and graphs: read as JSON, many at once, and written back in one go."""

from __future__ import annotations

from windlass.store.machine.graphs.nodes import NONE_SUCH

NODE = f"""json_build_array(v.n, v.graph, v.id, v.shape, v.spare, v.aftermath, v.open, v.broken, v.delay, v.at,
    v.expires_in, v.replaced, v.watched, v.source, v.edges, v.culprit, v.awaits, v.run, v.finished_at,
    CASE WHEN v.shape > 0 THEN v.state ELSE coalesce(j.state, {NONE_SUCH}) END, coalesce(j.reason, v.reason),
    coalesce(j.n, 0), coalesce(j.task, ''), coalesce(j.queue, ''), coalesce(j.crashes, 0), coalesce(j.max_crashes, 0),
    coalesce(j.worker, 0), coalesce(j.cancel, 0), coalesce(j.bucket, 0))"""
GRAPH = (
    "json_build_array(g.n, g.id, g.state, g.nodes, g.opened, json_build_array(g.succeeded, g.failed, g.cancelled, "
    "g.skipped), g.fail_fast, g.looked_at, g.looked, g.finished_at, g.bucket, g.stopping, g.reason, g.culprit, g.name, "
    "g.parent, g.keep_done, g.keep_failed, g.place)"
)
_JOB = "LEFT JOIN whole AS j ON j.id = v.id AND j.node = v.n"


def _with_graphs(source: str, order: str = "") -> str:
    """Nodes and the graphs they are of."""
    return (
        f"WITH these AS MATERIALIZED (SELECT v.* FROM {source}) SELECT coalesce(json_agg({NODE}{order}), '[]'), "
        f"(SELECT coalesce(json_agg({GRAPH}), '[]') FROM graphs AS g WHERE g.n IN (SELECT graph FROM these)) "
        f"FROM these AS v {_JOB}"
    )


BY_ID = _with_graphs("names($1::jsonb) AS w JOIN nodes AS v ON v.id = w")
BY_NUMBER = _with_graphs("numbers($1::jsonb) AS w JOIN nodes AS v ON v.n = w")
BY_RANGES = _with_graphs(
    "jsonb_array_elements($1::jsonb) AS w JOIN nodes AS v ON v.n > (w ->> 0)::bigint AND v.n <= (w ->> 1)::bigint"
)
PAGE = _with_graphs("(SELECT * FROM nodes WHERE n > $1 AND n <= $2 ORDER BY n LIMIT $3) AS v", " ORDER BY v.n")
GRAPHS_BY_NUMBER = f"SELECT coalesce(json_agg({GRAPH}), '[]') FROM numbers($1::jsonb) AS w JOIN graphs AS g ON g.n = w"
GRAPHS_BY_ID = f"SELECT coalesce(json_agg({GRAPH}), '[]') FROM names($1::jsonb) AS w JOIN graphs AS g ON g.id = w"
INS = (
    "SELECT coalesce(json_agg(json_build_array(l.n, l.ins::json)), '[]') FROM numbers($1::jsonb) AS w "
    "JOIN links AS l ON l.n = w"
)
OUTS = (
    "WITH linked AS MATERIALIZED (SELECT l.n, l.outs::json AS outs FROM numbers($1::jsonb) AS w "
    "JOIN links AS l ON l.n = w) "
    "SELECT (SELECT coalesce(json_agg(json_build_array(n, outs)), '[]') FROM linked), "
    f"(SELECT coalesce(json_agg({NODE}), '[]') "
    "FROM (SELECT DISTINCT o ->> 0 AS id FROM linked CROSS JOIN LATERAL json_array_elements(outs) AS o) AS t "
    f"JOIN nodes AS v ON v.id = t.id {_JOB})"
)
NEXT_DUE = "SELECT min(due_at) FROM live WHERE state = 1"
WATCHERS = "SELECT w.job, w.name FROM watches AS w WHERE w.job IN (SELECT numbers($1::jsonb))"
UNWATCH = "DELETE FROM watches WHERE job IN (SELECT numbers($1::jsonb))"
WEAVE = "SELECT weave($1::jsonb, $2::jsonb, $3::jsonb)"
UPROOT = "SELECT uproot($1::jsonb, $2::jsonb, $3::jsonb)"
FILE = "SELECT file($1, $2, $3, $4, $5::jsonb)"
AGAIN = "SELECT again($1::jsonb)"
EXPIRE_AT = (
    "UPDATE live SET expires_at = (e ->> 1)::bigint FROM jsonb_array_elements($1::jsonb) AS e "
    "WHERE n = (e ->> 0)::bigint"
)
CANCEL = (
    "UPDATE live SET cancel = 1, reason = c ->> 1 FROM jsonb_array_elements($1::jsonb) AS c WHERE n = (c ->> 0)::bigint"
)
ROUSE = "UPDATE workers SET idle = 0 WHERE n IN (SELECT numbers($1::jsonb)) RETURNING id"
