"""Jobs of workers that are gone."""

from __future__ import annotations

OF_WORKER = "SELECT n FROM jobs WHERE state = 3 AND worker = ? LIMIT ?"
CLAIMS = (
    "SELECT n, id, task, queue, crashes, max_crashes, crash_delay, cancel, reason FROM jobs "
    "WHERE n IN (SELECT value FROM json_each(?)) ORDER BY place"
)
ANY_LEFT = "SELECT 1 FROM jobs WHERE state = 3 AND worker = ? LIMIT 1"
FORGET = "DELETE FROM workers WHERE n = ?"
FORGET_PRESENCE = "DELETE FROM presences WHERE worker = ?"
SILENCE = "SELECT iif(lease_until <= ?1, ?1 - beat_at, 0) FROM workers WHERE id = ?2"
