"""The lives of workers."""

from __future__ import annotations

BEATEN = "SELECT n, dead, lease_until, mark FROM workers WHERE id = ?"
RUNNING = "SELECT n, id, seq FROM jobs WHERE state = 3 AND worker = ?"
ADD = "INSERT INTO workers (id, lease, lease_until, beat_at, mark) VALUES (?, ?, ?, ?, ?) RETURNING n"
SAY = "INSERT INTO presences VALUES (?, ?) ON CONFLICT DO UPDATE SET body = excluded.body"
DEAD = "UPDATE workers SET dead = 1 WHERE n = ?"
RENEW = "UPDATE workers SET lease = ?, lease_until = ?, beat_at = ?, mark = ? WHERE n = ?"
HAS_WORK = """
SELECT q.value, EXISTS (SELECT 1 FROM jobs WHERE state = 2 AND queue = q.value AND hold IN (0, 2)),
    EXISTS (SELECT 1 FROM lanes WHERE queue = q.value AND state = 0)
FROM json_each(?) AS q WHERE EXISTS (SELECT 1 FROM jobs WHERE state = 2 AND queue = q.value)
"""
