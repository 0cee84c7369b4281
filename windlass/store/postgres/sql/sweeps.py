"""Sweeping."""

from __future__ import annotations

LATE = (
    "SELECT n, id, mark, (dead = 1 OR lease_until <= $1)::int FROM workers "
    "WHERE dead = 1 OR lease_until <= $1 OR beat_at + lease / 3 < $1 ORDER BY n"
)
TOO_OLD = (
    "SELECT n, size, age FROM buckets WHERE size > 0 AND age >= 0 AND age + (SELECT finished_at FROM ended "
    "WHERE bucket = buckets.n AND bucket > 0 ORDER BY place LIMIT 1) <= $1"
)
PRUNE = "SELECT prune($1, $2::int, $3, $4, $5)"
SIZE = "SELECT size FROM buckets WHERE n = $1"
TIMES = (
    "SELECT (SELECT min(lease_until) FROM workers), "
    "(SELECT min(expires_at) FROM live WHERE expires_at > 0 AND state < 3)"
)
