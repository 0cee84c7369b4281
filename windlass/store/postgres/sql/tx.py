"""What every transaction begins and ends with."""

from __future__ import annotations

BEGIN = (
    "SELECT last, shift, ranks, heeded, (SELECT min(lease) FROM workers), "
    "EXISTS (SELECT 1 FROM workers WHERE idle = 1), EXISTS (SELECT 1 FROM mailboxes WHERE follows = 1), "
    "EXISTS (SELECT 1 FROM graphs), EXISTS (SELECT 1 FROM todos), EXISTS (SELECT 1 FROM lanes), "
    "EXISTS (SELECT 1 FROM gates), EXISTS (SELECT 1 FROM uniques), (SELECT schema FROM windlass), "
    "(SELECT min(opens) FROM lanes WHERE opens > 0) FROM clock"
)
EXTEND_LEASES = "UPDATE workers SET lease_until = lease_until + $1 WHERE lease_until > $2 AND $1::bigint * 2 > lease"
FINISH = "SELECT finish($1, $2, $3, $4, $5::jsonb, $6, $7, $8)"
FOLLOWERS = "SELECT name FROM mailboxes WHERE follows = 1"
COUNTED = "SELECT many FROM counts WHERE task = '' AND queue = $1 AND what = $2::bigint::text"
COUNTED_IN = (
    "SELECT c.queue, c.many FROM jsonb_array_elements_text($1::jsonb) AS q "
    "JOIN counts AS c ON c.task = '' AND c.queue = q AND c.what = $2::bigint::text"
)
PRESENCE = "SELECT body FROM presences WHERE worker = $1"
IDLE = "SELECT n, id, mark FROM workers WHERE idle = 1 AND dead = 0 AND n <> $1 ORDER BY n"
FIRST_IDLE = "SELECT n, id FROM workers WHERE idle = 1 AND dead = 0 ORDER BY n LIMIT 1"
BUSY = "UPDATE workers SET idle = 0 WHERE n IN (SELECT v::bigint FROM jsonb_array_elements_text($1::jsonb) AS v)"
