"""What workers are told. Every statement costs a hand-over of Python's lock, so it is asked for at once."""

from __future__ import annotations

WORKER = "SELECT n, id, seq, dead, mark, refused FROM workers WHERE id = ?"
VIEW = """
SELECT (SELECT min(due_at) FROM jobs WHERE state = 1),
    EXISTS (SELECT 1 FROM jobs WHERE state = 3 AND worker = ?1 AND cancel IN (0, 1) AND hold = 2),
    EXISTS (SELECT 1 FROM json_each(?2) AS q CROSS JOIN jobs ON state = 2 AND queue = q.value AND hold IN (1, 2)),
    (SELECT json_group_array(id) FROM jobs WHERE state = 3 AND worker = ?1 AND cancel = 1)
"""
