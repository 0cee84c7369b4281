"""Graphs as they are read, and what they bring to claims."""

from __future__ import annotations

from windlass.store.sqlite.sql.inherited import AT_HAND

_INFO = """
SELECT g.n, g.id, g.name, g.state, g.size, g.nodes, g.succeeded, g.failed, g.cancelled, g.skipped, g.reason, g.culprit,
    g.parent, g.stopping, g.meta, g.created_at, g.finished_at, v.reason, v.culprit
FROM {source} AS g CROSS JOIN nodes AS v ON v.id = g.id
"""
ONE = _INFO.format(source="(SELECT * FROM graphs WHERE id = ? AND state >= 0)")
PAGE = _INFO.format(
    source="(SELECT * FROM graphs WHERE n < ?1 AND state >= 0 "
    "AND (?2 = '[]' OR state IN (SELECT value FROM json_each(?2))) ORDER BY n DESC LIMIT ?3)"
) + " ORDER BY g.n DESC"  # fmt: skip
NUMBER = "SELECT n FROM graphs WHERE id = ? AND state >= 0"
MEMBERS = "SELECT id FROM nodes WHERE n >= ? AND n < ? AND graph = ? ORDER BY n"
ENTRY = """
SELECT v.awaits, v.replaced, l.ins FROM nodes AS v CROSS JOIN links AS l ON l.n = v.n
LEFT JOIN graphs AS g ON g.n = v.graph WHERE v.id = ? AND coalesce(g.state, 0) >= 0
"""
INPUTS = """
SELECT v.id, coalesce(j.task, ''), coalesce(j.state, v.state), iif(v.replaced, 1, v.shape),
    coalesce(j.result, v.result), coalesce(j.error, v.error), coalesce(j.reason, v.reason)
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.id = w.value LEFT JOIN jobs AS j ON j.id = v.id
"""
BEQUESTS = f"""
SELECT json_group_array(json_array(v.n, coalesce(g.id, ''), v.source, v.inject,
    CASE WHEN {AT_HAND.format("s")} THEN s.result WHEN {AT_HAND.format("t")} THEN t.result END,
    v.awaits, iif(v.aftermath, '', coalesce(g.stopping, '')), coalesce(g.reason, '')))
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.n = w.value LEFT JOIN graphs AS g ON g.n = v.graph
LEFT JOIN jobs AS s ON s.id = v.source LEFT JOIN nodes AS t ON t.id = v.source AND t.shape > 0
"""
