"""What time does to jobs."""

from __future__ import annotations

DUE = (
    "SELECT n, queue, due_at, crashes, max_crashes FROM live WHERE state = 1 AND due_at <= $1 "
    "ORDER BY due_at, n LIMIT $2"
)
EXPIRED = (
    "SELECT l.n, j.expire_to, l.crashes, l.max_crashes, j.id, j.task, j.queue FROM (SELECT * FROM live "
    "WHERE expires_at > 0 AND state < 3 AND expires_at <= $1 ORDER BY expires_at LIMIT $2) AS l "
    "JOIN jobs AS j ON j.n = l.n ORDER BY l.expires_at"
)
