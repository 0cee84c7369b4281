"""Which graphs are to be looked after."""

from __future__ import annotations

STALE = "SELECT n FROM graphs WHERE state = -1 AND looked_at <= ? LIMIT ?"
NEXT = "SELECT n FROM graphs WHERE state = 0 AND looked_at <= ? ORDER BY looked_at LIMIT ?"
HAS_TODO = "SELECT EXISTS (SELECT 1 FROM todos WHERE graph = ?)"
TIMES = (
    "SELECT (SELECT min(looked_at) FROM graphs WHERE state = -1), (SELECT min(looked_at) FROM graphs WHERE state = 0)"
)
