"""An exchange: the work is done by `settle` and `exchanged` in steps.sql."""

from __future__ import annotations

SETTLE = "INSERT INTO settle VALUES (?, ?, ?, ?, ?, ?, ?)"
# The groups stay JSON: they never become Python objects.
SETTLED = """
SELECT sum(moves), sum(watchers), max(node), max(limited), group_concat(event),
    json_group_array(json(news) ORDER BY first)
FROM (
    SELECT event, count(*) AS moves, sum(watched) AS watchers, max(node) AS node, min(i) AS first,
        max(hold = 3 OR terms IS NOT NULL) AS limited,
        json_array(event, ?, json_group_array(
            CASE WHEN delay IS NOT NULL THEN json_array(id, task, queue, json_object('delay', delay))
                 WHEN goes > 3 AND reason <> '' THEN json_array(id, task, queue, json_object('reason', reason))
                 ELSE json_array(id, task, queue) END
        )) AS news
    FROM moved GROUP BY event
)
"""
APPLIED = "SELECT json_group_array(i) FROM moved"
END = "INSERT INTO exchanged VALUES (?, ?, ?, ?, ?, ?, ?)"
