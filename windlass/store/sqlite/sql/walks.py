"""Where a listing looks. Statements are put together of fixed text and numbers; values are always bound."""

from __future__ import annotations

from collections.abc import Sequence

_TABLE = "SELECT n, {terms} AS fits FROM jobs WHERE n > :low AND n < :high ORDER BY n {order} LIMIT :size"
_INDEX = (
    "SELECT w.n, {terms} AS fits FROM (SELECT n FROM ({source}) WHERE n > :low AND n < :high ORDER BY n {order} "
    "LIMIT :size) AS w CROSS JOIN jobs ON jobs.n = w.n"
)
_ALL_OF = "SELECT n, 1 AS fits FROM ({source}) WHERE n > :low AND n < :high ORDER BY n {order} LIMIT :size"
_LOOK = "SELECT json_group_array(n) FILTER (WHERE fits), count(*), {edge}(n) FROM ({walk})"

_READY = "SELECT n FROM jobs INDEXED BY jobs_ready WHERE state = 2"
_RUNNING = "SELECT n FROM jobs INDEXED BY jobs_running WHERE state = 3"
_FAILED = "SELECT n FROM jobs INDEXED BY jobs_failed_task WHERE state = 5"
_SOURCES = {
    "scheduled": "SELECT n FROM jobs INDEXED BY jobs_due WHERE state = 1",
    "ready": _READY,
    "ready in": f"{_READY} AND queue = :queue",
    "running": _RUNNING,
    "of worker": f"{_RUNNING} AND worker = (SELECT workers.n FROM workers WHERE workers.id = :worker)",
    "failed": _FAILED,
    "of task": f"{_FAILED} AND task = :task",
    "of fingerprint": (
        "SELECT n FROM jobs INDEXED BY jobs_failed_fingerprint WHERE state = 5 AND fingerprint = :fingerprint"
    ),
    "cancelled": "SELECT n FROM jobs INDEXED BY jobs_given_up WHERE state > 5 AND state = 6",
    "skipped": "SELECT n FROM jobs INDEXED BY jobs_given_up WHERE state > 5 AND state = 7",
}

BY_STATE = "SELECT what, sum(many) FROM counts WHERE task = '' GROUP BY what"
BY_STATE_IN = "SELECT what, many FROM counts WHERE task = '' AND queue = ?"
KNOWN_TASK = "SELECT 1 FROM counts WHERE task = ? LIMIT 1"


def look(among: Sequence[str], equal: Sequence[str], states: Sequence[int], oldest_first: bool) -> str:
    edge, order = ("max", "ASC") if oldest_first else ("min", "DESC")
    terms = [f"{name} = :{name}" for name in equal]
    if states:
        terms.append(f"state IN ({', '.join(map(str, states))})")
    form = _TABLE if not among else _INDEX if terms else _ALL_OF
    source = " UNION ALL ".join(_SOURCES[name] for name in among)
    walk = form.format(terms=f"({' AND '.join(terms) or 'true'})", order=order, source=source)
    return _LOOK.format(edge=edge, walk=walk)
