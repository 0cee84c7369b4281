"""What workers note of the jobs they run."""

from __future__ import annotations

FENCES = (
    "SELECT j.id, l.run, l.epoch, l.seq, l.n, j.task, j.queue, l.logged FROM jobs AS j JOIN live AS l ON l.n = j.n "
    "WHERE l.state = 3 AND l.worker + 0 = $1 AND j.id IN (SELECT names($2::jsonb))"
)
PROGRESS = "UPDATE live SET progress = $1 WHERE n = $2"
ADD_LINES = (
    "INSERT INTO lines SELECT $1, $2::bigint + i - 1, $3, v ->> 0, v ->> 1 "
    "FROM jsonb_array_elements($4::jsonb) WITH ORDINALITY AS e (v, i)"
)
CUT_LINES = "DELETE FROM lines WHERE job = $1 AND i < $2"
LOGGED = "UPDATE live SET logged = $1 WHERE n = $2"
LINES = (
    "SELECT i, at, level, text FROM lines WHERE job = (SELECT n FROM jobs WHERE id = $1) AND i > $2 ORDER BY i LIMIT $3"
)
