"""Ready jobs as claims read them: narrow rows are found by their index, and wide ones looked up."""

from __future__ import annotations

_COLUMNS = (
    "l.n, l.place, l.expires_at, j.expire_to, l.max_crashes, j.id, j.task, j.version, j.queue, j.priority, j.payload, "
    "j.meta, l.run, l.epoch, l.seq, l.attempt, l.crashes, l.snoozes, j.enqueued_at, l.error, j.node, l.due_at"
)
_MORE = "l.hold, j.number, j.lane, j.terms::text"
_JOB = f"json_build_array({_COLUMNS}, {_MORE})"


def _of(source: str, job: str = _JOB) -> str:
    return f"SELECT coalesce(json_agg({job}), '[]') FROM {source} JOIN jobs AS j ON j.n = l.n"


FROM_READY = _of(
    "(SELECT * FROM live WHERE state = 2 AND queue = $1 AND hold = 0 ORDER BY place LIMIT $2) AS l",
    f"json_build_array({_COLUMNS}) ORDER BY l.place",
)
FROM_ASIDE = _of(
    "jsonb_array_elements($1::jsonb) AS e CROSS JOIN LATERAL (SELECT * FROM live WHERE state = 2 AND hold = 1 "
    "AND queue = e ->> 0 AND task = e ->> 1 AND version = (e ->> 2)::int ORDER BY place LIMIT $2) AS l"
)
FROM_QUEUES = _of("""(
    SELECT l.* FROM jsonb_array_elements($1::jsonb) AS e CROSS JOIN LATERAL (
        SELECT * FROM live WHERE state = 2 AND hold = 3 AND queue = e ->> 0 AND coalesce(lane, 't' || task) = e ->> 1
            AND ((e ->> 2)::bigint = 0 OR n = (e ->> 2)::bigint) ORDER BY number, place LIMIT 1
    ) AS l
    UNION ALL
    SELECT l.* FROM jsonb_array_elements($2::jsonb) AS e CROSS JOIN LATERAL (
        SELECT * FROM live WHERE state = 2 AND hold = 3 AND queue = e ->> 0 AND coalesce(lane, 't' || task) = e ->> 1
        ORDER BY number, place LIMIT $3
    ) AS l
    UNION ALL
    SELECT l.* FROM names($4::jsonb) AS e CROSS JOIN LATERAL (
        SELECT * FROM live WHERE state = 2 AND queue = e AND hold = 0 ORDER BY place LIMIT $5
    ) AS l
) AS l""")
FROM_PLAIN = _of("(SELECT * FROM live WHERE state = 2 AND queue = $1 AND hold = 0 ORDER BY place LIMIT $2) AS l")
FIRST_SOLO = _of(
    "names($1::jsonb) AS e CROSS JOIN LATERAL (SELECT * FROM live WHERE state = 2 AND queue = e AND hold IN (1, 2) "
    "AND hold = 2 ORDER BY place LIMIT 1) AS l"
)
GRANTED = _of(
    "(SELECT * FROM live WHERE state = 3 AND worker = $1 AND seq = $2) AS l",
    f"json_build_array({_COLUMNS}, {_MORE}, l.started_at)",
)
