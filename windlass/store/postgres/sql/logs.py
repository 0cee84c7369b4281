"""Logs. A record's place is the number of its log, shifted, and its position in it: a log is a range of one table."""

from __future__ import annotations

_COLUMNS = "n, name, last, many, size, keep_age, keep_count, keep_size"

READ = f"SELECT {_COLUMNS} FROM logs WHERE name = $1"
READ_ALL = f"SELECT {_COLUMNS} FROM logs ORDER BY name"
READ_KEPT = f"SELECT {_COLUMNS} FROM logs WHERE many > 0 AND keep_age + keep_count + keep_size > 0"
MAKE = f"INSERT INTO logs (name) VALUES ($1) RETURNING {_COLUMNS}"
WRITE = "UPDATE logs SET last = $1, many = $2, size = $3 WHERE n = $4"
RETAIN = "UPDATE logs SET keep_age = $1, keep_count = $2, keep_size = $3 WHERE n = $4"
LENGTH = "SELECT max(n) FROM records WHERE log = $1 AND stream = $2"
APPEND = "INSERT INTO records (place, log, stream, n, at, body) VALUES ($1, $2, $3, $4, $5, $6)"
OLDEST = "SELECT place, at, length(body) FROM records WHERE place > $1 AND place <= $2 ORDER BY place LIMIT $3"
PRUNE = "DELETE FROM records WHERE place > $1 AND place <= $2"
_PAGE = """
SELECT place, stream, n, at, body FROM (
    SELECT place, stream, n, at, body, sum(length(body)) OVER (ORDER BY place) - length(body) AS before
    FROM (SELECT * FROM records WHERE {0} ORDER BY place LIMIT {1}) AS page
) AS sized WHERE before < {2} ORDER BY place
"""
OF_LOG = _PAGE.format("place > $1 AND place <= $2", "$3", "$4")
OF_STREAM = _PAGE.format("log = $1 AND stream = $2 AND n > $3", "$4", "$5")
FIRST_OF_STREAM = "SELECT min(n) FROM records WHERE log = $1 AND stream = $2"
AT = "SELECT at FROM records WHERE place = $1"
AT_IN_STREAM = "SELECT at FROM records WHERE log = $1 AND stream = $2 AND n = $3"
FOLLOWERS = "SELECT name FROM followers WHERE log = $1"
FOLLOW = "INSERT INTO followers VALUES ($1, $2) ON CONFLICT DO NOTHING"
UNFOLLOW = "DELETE FROM followers WHERE name = $1 AND log IN (SELECT names($2::jsonb))"
UNFOLLOW_ALL = "DELETE FROM followers WHERE name IN (SELECT names($1::jsonb))"
