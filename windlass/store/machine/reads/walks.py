"""Where a listing looks: at the jobs in order of acceptance, or into an index that has few others than those it wants.

A walk sees numbers and the columns it compares, never payloads. How much it sees in one look is its caller's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.store.jobs import Query
from windlass.store.machine.codes import CANCELLED, FAILED, READY, RUNNING, SCHEDULED, SKIPPED
from windlass.store.machine.tx import Tx, decode
from windlass.store.shared import CODE

FEW = 2_000
"""So many numbers are sorted without further ado. Where an index has more, a look at as many jobs is tried first."""

MOST = 200_000
"""An index that has more is not sorted: so many jobs are wanted then that some should be met soon."""

# Statements are put together of fixed text and numbers; values are always bound.
TABLE = "SELECT n, {terms} AS fits FROM jobs WHERE n > :low AND n < :high ORDER BY n {order} LIMIT :size"
INDEX = (
    "SELECT w.n, {terms} AS fits FROM (SELECT n FROM ({source}) WHERE n > :low AND n < :high ORDER BY n {order} "
    "LIMIT :size) AS w CROSS JOIN jobs ON jobs.n = w.n"
)
ALL_OF = "SELECT n, 1 AS fits FROM ({source}) WHERE n > :low AND n < :high ORDER BY n {order} LIMIT :size"
LOOK = "SELECT json_group_array(n) FILTER (WHERE fits), count(*), {edge}(n) FROM ({walk})"

IN_STATE = {
    SCHEDULED: "SELECT n FROM jobs INDEXED BY jobs_due WHERE state = 1",
    READY: "SELECT n FROM jobs INDEXED BY jobs_ready WHERE state = 2",
    RUNNING: "SELECT n FROM jobs INDEXED BY jobs_running WHERE state = 3",
    FAILED: "SELECT n FROM jobs INDEXED BY jobs_failed_task WHERE state = 5",
    CANCELLED: "SELECT n FROM jobs INDEXED BY jobs_given_up WHERE state > 5 AND state = 6",
    SKIPPED: "SELECT n FROM jobs INDEXED BY jobs_given_up WHERE state > 5 AND state = 7",
}
READY_IN = f"{IN_STATE[READY]} AND queue = :queue"
OF_WORKER = f"{IN_STATE[RUNNING]} AND worker = (SELECT workers.n FROM workers WHERE workers.id = :worker)"
OF_TASK = f"{IN_STATE[FAILED]} AND task = :task"
OF_FAULT = "SELECT n FROM jobs INDEXED BY jobs_failed_fingerprint WHERE state = 5 AND fingerprint = :fingerprint"

BY_STATE = "SELECT what, sum(many) FROM counts WHERE task = '' GROUP BY what"
BY_STATE_IN = "SELECT what, many FROM counts WHERE task = '' AND queue = ?"
KNOWN_TASK = "SELECT 1 FROM counts WHERE task = ? LIMIT 1"


class Walk(NamedTuple):
    """``probe``: try this before, but not for long."""

    look_at: str
    values: dict[str, Any]
    probe: Walk | None = None

    def look(self, tx: Tx, low: int, high: int, size: int) -> tuple[list[int], int, int]:
        """The next ``size`` jobs between two numbers: those that fit, how many there were, and the last number."""
        fits, looked, last = tx.one(self.look_at, self.values | {"low": low, "high": high, "size": size})
        return decode(fits), looked, last or 0


def choose(tx: Tx, query: Query) -> Walk | None:
    """The walk that meets what is wanted soonest; None if there is nothing of that kind."""
    if query.worker:
        return _walk(query, OF_WORKER)
    counts = dict(tx.all(BY_STATE_IN, (query.queue,)) if query.queue else tx.all(BY_STATE))
    wanted = [code for code in map(CODE.__getitem__, query.states or CODE) if counts.get(code)]
    if not wanted or (query.task and not tx.value(KNOWN_TASK, (query.task,))):
        return None
    if wanted == [FAILED] and query.states and (query.task or query.fingerprint):
        by = "fingerprint" if query.fingerprint else "task"
        return _walk(query, OF_FAULT if query.fingerprint else OF_TASK, ("states", by))
    if not all(code in IN_STATE for code in wanted):
        return _walk(query)
    entries = counts if not query.queue else dict(tx.all(BY_STATE)) | {READY: counts.get(READY, 0)}
    size = sum(entries[code] for code in wanted)
    if size > MOST:
        return _walk(query)
    arms = [READY_IN if code == READY and query.queue else IN_STATE[code] for code in wanted]
    walk = _walk(query, " UNION ALL ".join(arms), ("states", "queue") if wanted == [READY] else ("states",))
    return walk if size <= FEW else walk._replace(probe=_walk(query))


def _walk(query: Query, source: str = "", implied: Sequence[str] = ()) -> Walk:
    """``implied``: what all jobs of the source have in common already."""
    edge, order = ("max", "ASC") if query.oldest_first else ("min", "DESC")
    named = [name for name in ("queue", "task", "fingerprint") if getattr(query, name) and name not in implied]
    terms = [f"{name} = :{name}" for name in named]
    if query.states and "states" not in implied:
        terms.append(f"state IN ({', '.join(str(CODE[state]) for state in query.states)})")
    form = TABLE if not source else INDEX if terms else ALL_OF
    walk = form.format(terms=f"({' AND '.join(terms) or 'true'})", order=order, source=source)
    values = {name: getattr(query, name) for name in ("queue", "task", "fingerprint", "worker")}
    return Walk(LOOK.format(edge=edge, walk=walk), values)
