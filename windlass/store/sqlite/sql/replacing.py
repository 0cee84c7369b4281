"""Calls that replace what has not started."""

from __future__ import annotations

REPLACE = (
    "UPDATE jobs SET payload = e.value ->> 1, meta = e.value ->> 2, version = e.value ->> 3, "
    "priority = e.value ->> 4 FROM json_each(?) AS e WHERE jobs.n = e.value ->> 0"
)
PUT_OFF = "UPDATE jobs SET due_at = e.value ->> 1 FROM json_each(?) AS e WHERE jobs.n = e.value ->> 0 AND node = 0"
