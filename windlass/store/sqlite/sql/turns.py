"""Queues as their turns come, and the gates of keys."""

from __future__ import annotations

LANES = """
SELECT e.key, coalesce((SELECT turn FROM turns WHERE queue = e.value), 0),
    (SELECT task FROM jobs WHERE state = 2 AND queue = e.value AND hold = 0 ORDER BY place LIMIT 1),
    (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 2 AND queue = e.value AND hold = 0 LIMIT ?3)),
    (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 2 AND queue = e.value AND hold = 3 LIMIT ?3)),
    (SELECT json_group_array(json_array(name, band, turn, holder, expected)) FROM (
        SELECT * FROM lanes WHERE queue = e.value AND state = 0 ORDER BY band, turn LIMIT ?2
    ))
FROM json_each(?1) AS e ORDER BY e.key
"""
PLAIN = (
    "SELECT j.n, j.queue, j.task FROM json_each(?1) AS e CROSS JOIN jobs AS j ON j.n IN "
    "(SELECT n FROM jobs WHERE state = 2 AND queue = e.value AND hold = 0 ORDER BY place LIMIT ?2)"
)
# The bound keeps the two queries apart: merged, each use of a column would look into the JSON.
KEYS = """
SELECT json_group_array(json_array(w.queue, w.key, (
    SELECT coalesce(sum(coalesce(terms ->> 6, 1)), 0) FROM jobs
    WHERE state = 3 AND queue = w.queue AND lane IS NOT NULL AND lane IN ('k' || w.key, 'o' || w.key, 's' || w.key)
), coalesce((SELECT tat FROM keys WHERE queue = w.queue AND key = w.key), 0)))
FROM (SELECT value ->> 0 AS queue, value ->> 1 AS key FROM jsonb_each(?1) LIMIT -1 OFFSET 0) AS w
"""
SAVE_KEYS = "INSERT OR REPLACE INTO keys SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)"
