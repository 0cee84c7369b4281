"""Pages of jobs."""

from __future__ import annotations

from windlass.store.sqlite.sql.rows import COLUMNS

THESE = f"SELECT {COLUMNS} FROM jobs WHERE n IN (SELECT value FROM json_each(?))"
FIRST_SINCE = "SELECT n, enqueued_at FROM jobs WHERE n >= ? ORDER BY n LIMIT 1"
# Each by itself: SQLite finds one end of a table at once, but reads all of it for both.
SMALLEST = "SELECT coalesce(min(n), 1) FROM jobs"
BEHIND_LARGEST = "SELECT coalesce(max(n), 0) + 1 FROM jobs"
