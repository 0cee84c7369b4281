"""What time does to jobs."""

from __future__ import annotations

DUE = (
    "SELECT n, queue, due_at, crashes, max_crashes FROM jobs WHERE state = 1 AND due_at <= ? ORDER BY due_at, n LIMIT ?"
)
EXPIRED = (
    "SELECT n, expire_to, crashes, max_crashes, id, task, queue FROM jobs "
    "WHERE expires_at > 0 AND state < 3 AND expires_at <= ? ORDER BY expires_at LIMIT ?"
)
