"""Where a listing looks. Statements are put together of fixed text and numbers; values are always bound."""

from __future__ import annotations

from collections.abc import Sequence

BY_STATE = "SELECT what::int, sum(many) FROM counts WHERE task = '' GROUP BY what"
BY_STATE_IN = "SELECT what::int, many FROM counts WHERE task = '' AND queue = $1"
KNOWN_TASK = "SELECT 1 FROM counts WHERE task = $1 LIMIT 1"

_READY = " UNION ALL ".join(
    f"SELECT n FROM live WHERE state = 2 AND hold {hold}{{0}}" for hold in ("= 0", "IN (1, 2)", "= 3")
)
"""Jobs are in an index each by what holds them."""

_SOURCES = {
    "scheduled": "SELECT n FROM live WHERE state = 1",
    "ready": _READY.format(""),
    "ready in": _READY.format(" AND queue = %(queue)s"),
    "running": "SELECT n FROM live WHERE state = 3",
    "of worker": (
        "SELECT n FROM live WHERE state = 3 AND worker = (SELECT w.n FROM workers AS w WHERE w.id = %(worker)s)"
    ),
    "failed": "SELECT n FROM ended WHERE state = 5",
    "of task": "SELECT n FROM ended WHERE state = 5 AND task = %(task)s",
    "of fingerprint": "SELECT n FROM ended WHERE state = 5 AND fingerprint = %(fingerprint)s",
    "cancelled": "SELECT n FROM ended WHERE state > 5 AND state = 6",
    "skipped": "SELECT n FROM ended WHERE state > 5 AND state = 7",
}


def look(among: Sequence[str], equal: Sequence[str], states: Sequence[int], oldest_first: bool) -> str:
    edge, order = ("max", "ASC") if oldest_first else ("min", "DESC")
    terms = [f"j.{name} = %({name})s" for name in equal]
    if states:
        terms.append(f"j.state IN ({', '.join(map(str, states))})")
    source = " UNION ALL ".join(_SOURCES[name] for name in among) or "SELECT n FROM jobs"
    fits = " AND ".join(terms) or "true"
    joined = "JOIN whole AS j ON j.n = w.n" if terms else ""
    return (
        f"SELECT coalesce(json_agg(w.n) FILTER (WHERE {fits}), '[]'), count(*), {edge}(w.n) FROM ("
        f"SELECT n FROM ({source}) AS s WHERE n > %(low)s AND n < %(high)s ORDER BY n {order} LIMIT %(size)s"
        f") AS w {joined}"
    )
