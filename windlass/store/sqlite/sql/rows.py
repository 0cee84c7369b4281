"""Jobs as rows, with their places in graphs."""

from __future__ import annotations

COLUMNS = (
    "jobs.n, jobs.id, task, version, queue, priority, state, payload, meta, run, epoch, attempt, crashes, snoozes, "
    "max_crashes, cancel, coalesce((SELECT workers.id FROM workers WHERE workers.n = jobs.worker), ''), reason, "
    "fingerprint, enqueued_at, due_at, expires_at, started_at, finished_at, result, error, progress, terms, node"
)
BY_ID = f"SELECT {COLUMNS} FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
PLACES = """
SELECT v.n, coalesce(g.id, ''), v.spare, v.shape, v.aftermath, l.ins, l.outs, v.awaits, v.replaced
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.n = w.value CROSS JOIN links AS l ON l.n = v.n
LEFT JOIN graphs AS g ON g.n = v.graph
"""
UNACCEPTED = """
SELECT v.n, v.id, v.state, v.run, v.reason, v.finished_at, v.result, v.error, p.body, g.created_at
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.id = w.value CROSS JOIN graphs AS g ON g.n = v.graph
LEFT JOIN parts AS p ON p.n = v.n
WHERE g.state >= 0 AND (v.shape > 0 OR p.body IS NOT NULL)
"""
