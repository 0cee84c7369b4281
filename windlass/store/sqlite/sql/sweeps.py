"""Sweeping."""

from __future__ import annotations

LATE = (
    "SELECT n, id, mark, dead OR lease_until <= ?1 FROM workers "
    "WHERE dead OR lease_until <= ?1 OR beat_at + lease / 3 < ?1 ORDER BY n"
)
# A damaged age must not drop anything: it has to be that of the name.
TOO_OLD = (
    "SELECT n, size, age FROM buckets WHERE size > 0 AND age >= 0 "
    "AND age = CAST(substr(name, instr(name, '|') + 1) AS INTEGER) AND age + (SELECT finished_at FROM jobs "
    "WHERE bucket = buckets.n AND bucket > 0 ORDER BY place LIMIT 1) <= ?"
)
PRUNE = "INSERT INTO prune VALUES (?, ?, ?, ?, ?)"
SIZE = "SELECT size FROM buckets WHERE n = ?"
TIMES = (
    "SELECT (SELECT min(lease_until) FROM workers), "
    "(SELECT min(expires_at) FROM jobs WHERE expires_at > 0 AND state < 3)"
)
