"""What a claim asks besides the jobs themselves, and what it writes, by functions of functions.sql."""

from __future__ import annotations

BUSY = "SELECT 1 FROM live WHERE state = 3 AND worker = $1 LIMIT 1"
RESERVED = "SELECT 1 FROM workers WHERE reserved = $1 AND n <> $2 AND dead = 0 AND lease_until > $3"
SET_ASIDE = "UPDATE live SET hold = 1, aside_at = $1 WHERE n IN (SELECT numbers($2::jsonb))"
GRANT = "SELECT granted($1, $2, $3, $4::jsonb)"
TURN = "SELECT turned($1, $2, $3, $4::jsonb, $5::jsonb, $6::jsonb)"
LEFT = (
    "SELECT q FROM names($1::jsonb) AS q WHERE EXISTS (SELECT 1 FROM live WHERE state = 2 AND queue = q AND hold = 0)"
)
CLAIMABLE = """
SELECT q, (SELECT count(*) FROM (SELECT 1 FROM lanes WHERE queue = q AND state = 0 LIMIT $2) AS a)
    + (SELECT count(*) FROM (SELECT 1 FROM live WHERE state = 2 AND queue = q AND hold = 0 LIMIT $2) AS b)
    + (SELECT count(*) FROM (SELECT 1 FROM live WHERE state = 2 AND queue = q AND hold IN (1, 2) LIMIT $2) AS c)
FROM names($1::jsonb) AS q
"""
