"""Queues as their turns come, and the gates of keys."""

from __future__ import annotations

LANES = """
SELECT e.i - 1, coalesce((SELECT turn FROM turns WHERE queue = e.q), 0),
    (SELECT task FROM live WHERE state = 2 AND queue = e.q AND hold = 0 ORDER BY place LIMIT 1),
    (SELECT count(*) FROM (SELECT 1 FROM live WHERE state = 2 AND queue = e.q AND hold = 0 LIMIT $3) AS a),
    (SELECT count(*) FROM (SELECT 1 FROM live WHERE state = 2 AND queue = e.q AND hold = 3 LIMIT $3) AS b),
    (SELECT coalesce(json_agg(json_build_array(name, band, turn, holder, expected) ORDER BY band, turn), '[]') FROM (
        SELECT * FROM lanes WHERE queue = e.q AND state = 0 ORDER BY band, turn LIMIT $2
    ) AS c)
FROM jsonb_array_elements_text($1::jsonb) WITH ORDINALITY AS e (q, i) ORDER BY e.i
"""
PLAIN = (
    "SELECT l.n, l.queue, l.task FROM names($1::jsonb) AS e CROSS JOIN LATERAL "
    "(SELECT * FROM live WHERE state = 2 AND queue = e AND hold = 0 ORDER BY place LIMIT $2) AS l"
)
KEYS = """
SELECT coalesce(json_agg(json_build_array(v ->> 0, v ->> 1,
    (SELECT coalesce(sum(units), 0) FROM live WHERE state = 3 AND queue = v ->> 0 AND lane IS NOT NULL
     AND lane IN ('k' || (v ->> 1), 'o' || (v ->> 1), 's' || (v ->> 1))),
    coalesce((SELECT tat FROM keys WHERE queue = v ->> 0 AND key = v ->> 1), 0))), '[]')
FROM jsonb_array_elements($1::jsonb) AS v
"""
SAVE_KEYS = """
INSERT INTO keys SELECT v ->> 0, v ->> 1, (v ->> 2)::bigint FROM jsonb_array_elements($1::jsonb) AS v
ON CONFLICT (queue, key) DO UPDATE SET tat = excluded.tat
"""
