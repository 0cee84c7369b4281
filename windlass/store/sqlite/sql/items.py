"""Items: text is compared by its UTF-8 bytes, which is the order of code points."""

from __future__ import annotations

READ = """
SELECT i.shelf, i.key, i.body, i.until, i.version
FROM json_each(?) AS e CROSS JOIN items AS i ON i.shelf = e.value ->> 0 AND i.key = e.value ->> 1
WHERE i.until = 0 OR i.until > ?
"""
WRITE = "INSERT OR REPLACE INTO items (shelf, key, version, until, body) VALUES (?, ?, ?, ?, ?)"
TAKE_OFF = "DELETE FROM items WHERE shelf = ? AND key = ?"
# Every text is smaller than bytes: that is the end of a shelf.
_PAGE = (
    "SELECT key, body, until, version FROM items WHERE shelf = ?1 AND key {0} ?2 AND key < coalesce(?3, x'') "
    "AND (until = 0 OR until > ?4) ORDER BY key {1} LIMIT ?5"
)
PAGE, PAGE_BEHIND = _PAGE.format(">=", "ASC"), _PAGE.format(">", "ASC")
PAGE_DOWN, PAGE_BEHIND_DOWN = _PAGE.format(">=", "DESC"), _PAGE.format(">", "DESC")
FORGET = """
DELETE FROM items WHERE (shelf, key) IN (
    SELECT shelf, key FROM items WHERE until > 0 AND until <= ? ORDER BY until LIMIT ?
) RETURNING 1
"""
ANY_EXPIRES = "SELECT 1 FROM items WHERE until > 0 LIMIT 1"
