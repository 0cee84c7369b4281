"""An exchange: the work is done by ``settle`` and ``exchanged`` in functions.sql."""

from __future__ import annotations

SETTLE = "SELECT settle($1, $2, $3, $4, $5, $6::jsonb, $7::jsonb)"
SETTLED = """
SELECT coalesce(sum(moves), 0), coalesce(sum(watchers), 0), coalesce(max(node), 0), coalesce(max(limited), 0),
    string_agg(event, ',' ORDER BY first), coalesce(json_agg(news ORDER BY first), '[]')
FROM (
    SELECT event, count(*) AS moves, sum(watched) AS watchers, max(node) AS node, min(i) AS first,
        bool_or(hold = 3 OR terms IS NOT NULL)::int AS limited,
        json_build_array(event, $1::text, json_agg(
            CASE WHEN delay IS NOT NULL THEN json_build_array(id, task, queue, json_build_object('delay', delay))
                 WHEN goes > 3 AND reason <> ''
                     THEN json_build_array(id, task, queue, json_build_object('reason', reason))
                 ELSE json_build_array(id, task, queue) END ORDER BY i
        )) AS news
    FROM moved GROUP BY event
) AS kinds
"""
APPLIED = "SELECT coalesce(json_agg(i), '[]') FROM moved"
END = "SELECT exchanged($1, $2, $3, $4, $5, $6, $7::jsonb)"
