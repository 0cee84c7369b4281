"""Moves: the work is done by ``shift`` in functions.sql, which leaves ``moved``."""

from __future__ import annotations

SHIFT = "SELECT shift($1, $2, $3, $4, $5::jsonb, $6::jsonb)"
WRITTEN = (
    "SELECT coalesce(bool_or(watched = 1 AND goes > 3), false)::int, coalesce(max(node) FILTER (WHERE goes > 3), 0), "
    "coalesce(bool_or(hold = 3 OR held = 3 OR terms IS NOT NULL), false)::int FROM moved"
)
ENDED = "SELECT coalesce(json_agg(json_build_array(node, was) ORDER BY i), '[]') FROM moved WHERE goes > 3 AND node > 0"
IN_LANES = """
SELECT coalesce(json_agg(json_build_array(job, queue, coalesce(lane, 't' || task), was, goes, hold, held, number,
    CASE WHEN goes > 3 THEN coalesce(terms ->> 10, '') ELSE '' END) ORDER BY i), '[]')
FROM moved
WHERE hold = 3 OR held = 3 OR (goes > 3 AND terms ->> 10 <> '') OR is_strict(lane)
    OR (lane IS NOT NULL AND EXISTS (
        SELECT 1 FROM lanes WHERE state = 1 AND gate = 'key:' || moved.queue || ':' || substr(moved.lane, 2)))
"""
TOLD = (
    "SELECT coalesce(json_agg(json_build_array(w.name, m.id, m.goes, m.result, m.error, m.reason) ORDER BY m.i), '[]') "
    "FROM moved AS m JOIN watches AS w ON w.job = m.job WHERE m.watched = 1 AND m.goes > 3"
)
FORGET_TOLD = "DELETE FROM watches WHERE job IN (SELECT job FROM moved WHERE watched = 1 AND goes > 3)"
