"""Graphs as they are read, and what they bring to claims."""

from __future__ import annotations

from windlass.store.postgres.sql.inherited import AT_HAND

_INFO = """
SELECT g.n, g.id, g.name, g.state, g.size, g.nodes, g.succeeded, g.failed, g.cancelled, g.skipped, g.reason, g.culprit,
    g.parent, g.stopping, g.meta, g.created_at, g.finished_at, v.reason, v.culprit
FROM {source} AS g JOIN nodes AS v ON v.id = g.id
"""
ONE = _INFO.format(source="(SELECT * FROM graphs WHERE id = $1 AND state >= 0)")
PAGE = _INFO.format(
    source="(SELECT * FROM graphs WHERE n < $1 AND state >= 0 "
    "AND ($2::text = '[]' OR state IN (SELECT numbers($2::jsonb))) ORDER BY n DESC LIMIT $3)"
) + " ORDER BY g.n DESC"  # fmt: skip
NUMBER = "SELECT n FROM graphs WHERE id = $1 AND state >= 0"
MEMBERS = "SELECT id FROM nodes WHERE n >= $1 AND n < $2 AND graph = $3 ORDER BY n"
ENTRY = """
SELECT v.awaits, v.replaced, l.ins FROM nodes AS v JOIN links AS l ON l.n = v.n
LEFT JOIN graphs AS g ON g.n = v.graph WHERE v.id = $1 AND coalesce(g.state, 0) >= 0
"""
INPUTS = """
SELECT v.id, coalesce(j.task, ''), coalesce(j.state, v.state), CASE WHEN v.replaced = 1 THEN 1 ELSE v.shape END,
    coalesce(j.result, v.result), coalesce(j.error, v.error), coalesce(j.reason, v.reason)
FROM names($1::jsonb) AS w JOIN nodes AS v ON v.id = w LEFT JOIN whole AS j ON j.id = v.id
"""
BEQUESTS = f"""
SELECT coalesce(json_agg(json_build_array(v.n, coalesce(g.id, ''), v.source, v.inject,
    CASE WHEN {AT_HAND.format("s")} THEN s.result WHEN {AT_HAND.format("t")} THEN t.result END,
    v.awaits, CASE WHEN v.aftermath = 1 THEN '' ELSE coalesce(g.stopping, '') END, coalesce(g.reason, ''))), '[]')
FROM numbers($1::jsonb) AS w JOIN nodes AS v ON v.n = w LEFT JOIN graphs AS g ON g.n = v.graph
LEFT JOIN whole AS s ON s.id = v.source LEFT JOIN nodes AS t ON t.id = v.source AND t.shape > 0
"""
