"""Jobs of workers that are gone."""

from __future__ import annotations

OF_WORKER = "SELECT n FROM live WHERE state = 3 AND worker = $1 LIMIT CASE WHEN $2::bigint >= 0 THEN $2 END"
CLAIMS = (
    "SELECT n, id, task, queue, crashes, max_crashes, crash_delay, cancel, reason FROM whole "
    "WHERE n IN (SELECT numbers($1::jsonb)) ORDER BY place"
)
ANY_LEFT = "SELECT 1 FROM live WHERE state = 3 AND worker = $1 LIMIT 1"
FORGET = "DELETE FROM workers WHERE n = $1"
FORGET_PRESENCE = "DELETE FROM presences WHERE worker = $1"
SILENCE = "SELECT CASE WHEN lease_until <= $1 THEN $1 - beat_at ELSE 0 END FROM workers WHERE id = $2"
