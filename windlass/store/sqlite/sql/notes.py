"""What workers note of the jobs they run."""

from __future__ import annotations

FENCES = (
    "SELECT id, run, epoch, seq, n, task, queue, logged FROM jobs WHERE state = 3 AND worker = ? "
    "AND id IN (SELECT value FROM json_each(?))"
)
PROGRESS = "UPDATE jobs SET progress = ? WHERE n = ?"
ADD_LINES = "INSERT INTO lines SELECT ?1, ?2 + key, ?3, value ->> 0, value ->> 1 FROM json_each(?4)"
CUT_LINES = "DELETE FROM lines WHERE job = ? AND i < ?"
LOGGED = "UPDATE jobs SET logged = ? WHERE n = ?"
LINES = (
    "SELECT i, at, level, text FROM lines WHERE job = (SELECT n FROM jobs WHERE id = ?) AND i > ? ORDER BY i LIMIT ?"
)
