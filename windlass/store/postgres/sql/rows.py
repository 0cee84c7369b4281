"""Jobs as rows, with their places in graphs."""

from __future__ import annotations

COLUMNS = (
    "j.n, j.id, j.task, j.version, j.queue, j.priority, j.state, j.payload, j.meta, j.run, j.epoch, j.attempt, "
    "j.crashes, j.snoozes, j.max_crashes, j.cancel, "
    "coalesce((SELECT w.id FROM workers AS w WHERE w.n = j.worker), ''), j.reason, "
    "j.fingerprint, j.enqueued_at, j.due_at, j.expires_at, j.started_at, j.finished_at, j.result, j.error, "
    "j.progress, j.terms, j.node"
)
BY_ID = f"SELECT {COLUMNS} FROM whole AS j WHERE id IN (SELECT names($1::jsonb))"
PLACES = """
SELECT v.n, coalesce(g.id, ''), v.spare, v.shape, v.aftermath, l.ins, l.outs, v.awaits, v.replaced
FROM numbers($1::jsonb) AS w JOIN nodes AS v ON v.n = w JOIN links AS l ON l.n = v.n
LEFT JOIN graphs AS g ON g.n = v.graph
"""
UNACCEPTED = """
SELECT v.n, v.id, v.state, v.run, v.reason, v.finished_at, v.result, v.error, p.body, g.created_at
FROM names($1::jsonb) AS w JOIN nodes AS v ON v.id = w JOIN graphs AS g ON g.n = v.graph
LEFT JOIN parts AS p ON p.n = v.n
WHERE g.state >= 0 AND (v.shape > 0 OR p.body IS NOT NULL)
"""
