"""What every transaction begins and ends with."""

from __future__ import annotations

BEGIN = (
    "SELECT last, shift, ranks, heeded, (SELECT min(lease) FROM workers WHERE typeof(lease) = 'integer'), "
    "EXISTS (SELECT 1 FROM workers WHERE idle = 1), EXISTS (SELECT 1 FROM mailboxes WHERE follows = 1), "
    "EXISTS (SELECT 1 FROM graphs), EXISTS (SELECT 1 FROM todos), EXISTS (SELECT 1 FROM lanes), "
    "EXISTS (SELECT 1 FROM gates), EXISTS (SELECT 1 FROM uniques), (SELECT schema FROM windlass), "
    "(SELECT min(opens) FROM lanes WHERE opens > 0 AND typeof(opens) = 'integer') FROM clock"
)

COUNTED_IN = (
    "SELECT queue, many FROM json_each(?1) AS e CROSS JOIN counts ON task = '' AND queue = e.value AND what = ?2"
)
IDLE = "SELECT n, id, mark FROM workers WHERE idle = 1 AND dead = 0 AND n <> ? ORDER BY n"
FIRST_IDLE = "SELECT n, id FROM workers WHERE idle = 1 AND dead = 0 ORDER BY n LIMIT 1"
BUSY = "UPDATE workers SET idle = 0 WHERE n IN (SELECT value FROM json_each(?))"
EXTEND_LEASES = "UPDATE workers SET lease_until = lease_until + ?1 WHERE lease_until > ?2 AND ?1 > lease / 2.0"
FINISH = "INSERT INTO finish VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
FOLLOWERS = "SELECT name FROM mailboxes WHERE follows = 1"
COUNTED = "SELECT many FROM counts WHERE task = '' AND queue = ? AND what = ?"
PRESENCE = "SELECT body FROM presences WHERE worker = ?"
