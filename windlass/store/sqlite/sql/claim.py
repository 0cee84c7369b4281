"""What a claim asks besides the jobs themselves, and what it writes. `granted` and `turned` are steps of steps.sql."""

from __future__ import annotations

BUSY = "SELECT 1 FROM jobs WHERE state = 3 AND worker = ? LIMIT 1"
RESERVED = "SELECT 1 FROM workers WHERE reserved = ? AND n <> ? AND dead = 0 AND lease_until > ?"
SET_ASIDE = "UPDATE jobs SET hold = 1, aside_at = ? WHERE n IN (SELECT value FROM json_each(?))"
GRANT = "INSERT INTO granted VALUES (?, ?, ?, ?)"
TURN = "INSERT INTO turned VALUES (?, ?, ?, ?, ?, ?)"
LEFT = "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM jobs WHERE state = 2 AND queue = value AND hold = 0)"
CLAIMABLE = (
    "SELECT value, (SELECT count(*) FROM (SELECT 1 FROM lanes WHERE queue = value AND state = 0 LIMIT ?2)) "
    "+ (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 2 AND queue = value AND hold < 3 LIMIT ?2)) "
    "FROM json_each(?1)"
)
