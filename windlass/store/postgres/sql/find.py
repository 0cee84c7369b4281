"""Pages of jobs."""

from __future__ import annotations

from windlass.store.postgres.sql.rows import COLUMNS

THESE = f"SELECT {COLUMNS} FROM whole AS j WHERE n IN (SELECT numbers($1::jsonb))"
FIRST_SINCE = "SELECT n, enqueued_at FROM jobs WHERE n >= $1 ORDER BY n LIMIT 1"
SMALLEST = "SELECT coalesce(min(n), 1) FROM jobs"
BEHIND_LARGEST = "SELECT coalesce(max(n), 0) + 1 FROM jobs"
