"""Logs. A record's place is the number of its log, shifted, and its position in it: a log is a range of one table."""

from __future__ import annotations

_COLUMNS = "n, name, last, many, size, keep_age, keep_count, keep_size"

READ = f"SELECT {_COLUMNS} FROM logs WHERE name = ?"
READ_ALL = f"SELECT {_COLUMNS} FROM logs ORDER BY name"
READ_KEPT = f"SELECT {_COLUMNS} FROM logs WHERE many > 0 AND keep_age + keep_count + keep_size > 0"
MAKE = f"INSERT INTO logs (name) VALUES (?) RETURNING {_COLUMNS}"
WRITE = "UPDATE logs SET last = ?, many = ?, size = ? WHERE n = ?"
RETAIN = "UPDATE logs SET keep_age = ?, keep_count = ?, keep_size = ? WHERE n = ?"
LENGTH = "SELECT max(n) FROM records WHERE log = ? AND stream = ?"
APPEND = "INSERT INTO records (place, log, stream, n, at, body) VALUES (?, ?, ?, ?, ?, ?)"
OLDEST = "SELECT place, at, length(body) FROM records WHERE place > ? AND place <= ? ORDER BY place LIMIT ?"
PRUNE = "DELETE FROM records WHERE place > ? AND place <= ?"
_PAGE = """
SELECT place, stream, n, at, body FROM (
    SELECT place, stream, n, at, body, sum(length(body)) OVER (ORDER BY place) - length(body) AS before
    FROM (SELECT * FROM records WHERE {0} ORDER BY place LIMIT ?)
) WHERE before < ?
"""
OF_LOG = _PAGE.format("place > ? AND place <= ?")
OF_STREAM = _PAGE.format("log = ? AND stream = ? AND n > ?")
FIRST_OF_STREAM = "SELECT min(n) FROM records WHERE log = ? AND stream = ?"
AT = "SELECT at FROM records WHERE place = ?"
AT_IN_STREAM = "SELECT at FROM records WHERE log = ? AND stream = ? AND n = ?"
FOLLOWERS = "SELECT name FROM followers WHERE log = ?"
FOLLOW = "INSERT OR IGNORE INTO followers VALUES (?, ?)"
UNFOLLOW = "DELETE FROM followers WHERE name = ? AND log IN (SELECT value FROM json_each(?))"
UNFOLLOW_ALL = "DELETE FROM followers WHERE name IN (SELECT value FROM json_each(?))"
