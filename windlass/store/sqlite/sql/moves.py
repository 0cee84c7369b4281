"""Moves: the work is done by `shift` in steps.sql, which leaves `moved`."""

from __future__ import annotations

SHIFT = "INSERT INTO shift VALUES (?, ?, ?, ?, ?, ?)"
WRITTEN = (
    "SELECT max(watched = 1 AND goes > 3), max(iif(goes > 3, node, 0)), "
    "max(hold = 3 OR held = 3 OR terms IS NOT NULL) FROM moved"
)
ENDED = "SELECT json_group_array(json_array(node, was) ORDER BY i) FROM moved WHERE goes > 3 AND node > 0"
IN_LANES = """
SELECT json_group_array(json_array(job, queue, coalesce(lane, 't' || task), was, goes, hold, held, number,
    iif(goes > 3, coalesce(terms ->> 10, ''), '')) ORDER BY i)
FROM moved
WHERE hold = 3 OR held = 3 OR (goes > 3 AND terms ->> 10 <> '')
    OR (lane IS NOT NULL AND (substr(lane, 1, 1) IN ('o', 's')
        OR EXISTS (SELECT 1 FROM lanes WHERE state = 1
                   AND gate = 'key:' || moved.queue || ':' || substr(moved.lane, 2))))
"""
TOLD = (
    "SELECT json_group_array(json_array(w.name, m.id, m.goes, m.result, m.error, m.reason) ORDER BY m.i) "
    "FROM moved AS m JOIN watches AS w ON w.job = m.job WHERE m.watched = 1 AND m.goes > 3"
)
FORGET_TOLD = "DELETE FROM watches WHERE job IN (SELECT job FROM moved WHERE watched = 1 AND goes > 3)"
