"""Ready jobs as claims read them: one row for all of them, for each row would hand Python's lock back and forth."""

from __future__ import annotations

_COLUMNS = (
    "n, place, expires_at, expire_to, max_crashes, id, task, version, queue, priority, payload, meta, run, "
    "epoch, seq, attempt, crashes, snoozes, enqueued_at, error, node, due_at"
)
_MORE = "hold, number, lane, terms"

_JOB = f"json_array({', '.join('j.' + name for name in f'{_COLUMNS}, {_MORE}'.split(', '))})"
FROM_READY = (
    f"SELECT json_group_array(json_array({_COLUMNS})) FROM (SELECT * FROM jobs "
    "WHERE state = 2 AND queue = ?1 AND hold = 0 ORDER BY place LIMIT ?2)"
)
FROM_ASIDE = (
    f"SELECT json_group_array({_JOB}) FROM json_each(?1) AS e CROSS JOIN jobs AS j ON j.n IN "
    "(SELECT n FROM jobs WHERE state = 2 AND hold = 1 AND queue = e.value ->> 0 "
    "AND task = e.value ->> 1 AND version = e.value ->> 2 ORDER BY place LIMIT ?2)"
)
FROM_PLAIN = (
    f"SELECT json_group_array({_JOB}) FROM (SELECT * FROM jobs WHERE state = 2 AND queue = ?1 AND hold = 0 "
    "ORDER BY place LIMIT ?2) AS j"
)
FROM_QUEUES = f"""
SELECT json_group_array({_JOB}) FROM (
    SELECT (
        SELECT n FROM jobs WHERE state = 2 AND hold = 3 AND queue = e.value ->> 0
            AND coalesce(lane, 't' || task) = e.value ->> 1 AND (e.value ->> 2 = 0 OR n = e.value ->> 2)
        ORDER BY number, place LIMIT 1
    ) AS n FROM jsonb_each(?1) AS e
    UNION ALL
    SELECT i.n FROM jsonb_each(?2) AS e CROSS JOIN jobs AS i ON i.n IN (
        SELECT n FROM jobs WHERE state = 2 AND hold = 3 AND queue = e.value ->> 0
            AND coalesce(lane, 't' || task) = e.value ->> 1
        ORDER BY number, place LIMIT ?3
    )
    UNION ALL
    SELECT i.n FROM json_each(?4) AS e CROSS JOIN jobs AS i ON i.n IN (
        SELECT n FROM jobs WHERE state = 2 AND queue = e.value AND hold = 0 ORDER BY place LIMIT ?5
    )
) AS f CROSS JOIN jobs AS j ON j.n = f.n
"""
FIRST_SOLO = (
    f"SELECT json_group_array({_JOB}) FROM json_each(?) AS e CROSS JOIN jobs AS j ON j.n = "
    "(SELECT n FROM jobs WHERE state = 2 AND queue = e.value AND hold = 2 ORDER BY place LIMIT 1)"
)
GRANTED = (
    f"SELECT json_group_array(json_array({_COLUMNS}, {_MORE}, started_at)) FROM (SELECT * FROM jobs "
    "WHERE state = 3 AND worker = ? AND seq = ?)"
)
