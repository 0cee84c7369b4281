"""Which graphs are to be looked after."""

from __future__ import annotations

STALE = "SELECT n FROM graphs WHERE state = -1 AND looked_at <= $1 LIMIT $2"
NEXT = "SELECT n FROM graphs WHERE state = 0 AND looked_at <= $1 ORDER BY looked_at LIMIT $2"
HAS_TODO = "SELECT EXISTS (SELECT 1 FROM todos WHERE graph = $1)::int"
TIMES = (
    "SELECT (SELECT min(looked_at) FROM graphs WHERE state = -1), (SELECT min(looked_at) FROM graphs WHERE state = 0)"
)
