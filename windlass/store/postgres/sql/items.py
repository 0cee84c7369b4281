"""Items. Their keys are compared by bytes: see the columns' collation."""

from __future__ import annotations

READ = """
SELECT i.shelf, i.key, i.body, i.until, i.version
FROM jsonb_array_elements($1::jsonb) AS e JOIN items AS i ON i.shelf = e ->> 0 AND i.key = e ->> 1
WHERE i.until = 0 OR i.until > $2
"""
WRITE = """
INSERT INTO items (shelf, key, version, until, body) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (shelf, key) DO UPDATE SET version = excluded.version, until = excluded.until, body = excluded.body
"""
TAKE_OFF = "DELETE FROM items WHERE shelf = $1 AND key = $2"
_PAGE = (
    "SELECT key, body, until, version FROM items WHERE shelf = $1 AND key {0} $2 AND ($3::text IS NULL OR key < $3) "
    "AND (until = 0 OR until > $4) ORDER BY key {1} LIMIT $5"
)
PAGE, PAGE_BEHIND = _PAGE.format(">=", "ASC"), _PAGE.format(">", "ASC")
PAGE_DOWN, PAGE_BEHIND_DOWN = _PAGE.format(">=", "DESC"), _PAGE.format(">", "DESC")
FORGET = """
DELETE FROM items WHERE (shelf, key) IN (
    SELECT shelf, key FROM items WHERE until > 0 AND until <= $1 ORDER BY until LIMIT $2
) RETURNING 1
"""
ANY_EXPIRES = "SELECT 1 FROM items WHERE until > 0 LIMIT 1"
