"""What workers are told."""

from __future__ import annotations

WORKER = "SELECT n, id, seq, dead, mark, refused FROM workers WHERE id = $1"
VIEW = """
SELECT (SELECT min(due_at) FROM live WHERE state = 1),
    EXISTS (SELECT 1 FROM live WHERE state = 3 AND worker = $1 AND hold = 2)::int,
    EXISTS (SELECT 1 FROM names($2::jsonb) AS q CROSS JOIN LATERAL (
        SELECT 1 FROM live WHERE state = 2 AND queue = q AND hold IN (1, 2) LIMIT 1) AS found)::int,
    (SELECT coalesce(json_agg(j.id), '[]') FROM live AS l JOIN jobs AS j ON j.n = l.n
     WHERE l.state = 3 AND l.worker = $1 AND l.cancel > 0)
"""
