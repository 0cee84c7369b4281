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

AMONG = {
    SCHEDULED: "scheduled", READY: "ready", RUNNING: "running", FAILED: "failed", CANCELLED: "cancelled",
    SKIPPED: "skipped",
}  # fmt: skip
"""What indexes have, by state: see ``WalkSql.look``."""


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
        return _walk(tx, query, ["of worker"])
    sql = tx.sql.walks
    counts = dict(tx.all(sql.BY_STATE_IN, (query.queue,)) if query.queue else tx.all(sql.BY_STATE))
    wanted = [code for code in map(CODE.__getitem__, query.states or CODE) if counts.get(code)]
    if not wanted or (query.task and not tx.value(sql.KNOWN_TASK, (query.task,))):
        return None
    if wanted == [FAILED] and query.states and (query.task or query.fingerprint):
        by = "fingerprint" if query.fingerprint else "task"
        return _walk(tx, query, [f"of {by}"], ("states", by))
    if not all(code in AMONG for code in wanted):
        return _walk(tx, query)
    entries = counts if not query.queue else dict(tx.all(sql.BY_STATE)) | {READY: counts.get(READY, 0)}
    size = sum(entries[code] for code in wanted)
    if size > MOST:
        return _walk(tx, query)
    among = ["ready in" if code == READY and query.queue else AMONG[code] for code in wanted]
    walk = _walk(tx, query, among, ("states", "queue") if wanted == [READY] else ("states",))
    return walk if size <= FEW else walk._replace(probe=_walk(tx, query))


def _walk(tx: Tx, query: Query, among: Sequence[str] = (), implied: Sequence[str] = ()) -> Walk:
    """``implied``: what all jobs among which it looks have in common already."""
    equal = [name for name in ("queue", "task", "fingerprint") if getattr(query, name) and name not in implied]
    states = [CODE[state] for state in query.states] if "states" not in implied else []
    values = {name: getattr(query, name) for name in ("queue", "task", "fingerprint", "worker")}
    return Walk(tx.sql.walks.look(among, equal, states, query.oldest_first), values)
