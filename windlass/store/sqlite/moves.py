"""The store's own moves of jobs, and telling whoever watches them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from windlass.core.job import Finished
from windlass.store.base import INLINE_MAX
from windlass.store.shared import STATES
from windlass.store.sqlite.codes import SUCCEEDED, maybe_bytes
from windlass.store.sqlite.tx import Tx, Values, decode, encode


def shift(tx: Tx, rows: Iterable[Values]) -> None:
    """Move jobs that are known to be where they should be: see `shift` in steps.sql for a row."""
    rows = list(rows)
    if rows and write(tx, rows):
        tx.ended += decode(tx.value(ENDED))


def write(tx: Tx, rows: Sequence[Values], gathering: Container[str] = ()) -> bool:
    """The same for at least one job, whatever that means for graphs: True if it means something.

    ``gathering``: ids of those that succeed with a value that is not their own, but a graph's.
    """
    tx.run(
        "INSERT INTO shift VALUES (?, ?, ?, ?, ?)",
        (tx.now, tx.take_ranks(len(rows)), tx.memo.done, tx.memo.failed, encode(rows).decode()),
    )
    watched, in_graphs = tx.one("SELECT max(watched = 1 AND goes > 3), max(iif(goes > 3, node, 0)) FROM moved")
    if watched:
        tell_watchers(tx, gathering)
    return bool(in_graphs)


ENDED = "SELECT json_group_array(json_array(node, was) ORDER BY i) FROM moved WHERE goes > 3 AND node > 0"


def tell_watchers(tx: Tx, gathering: Container[str] = ()) -> None:
    """Tell the watchers of the jobs in `moved` that have ended, and forget the watches.

    A bucket of few may have dropped a job already, so its outcome is read from `moved`.
    """
    told: list[Any] = decode(tx.value(
        "SELECT json_group_array(json_array(w.name, m.id, m.goes, m.result, m.error, m.reason) ORDER BY m.i) "
        "FROM moved AS m JOIN watches AS w ON w.job = m.job WHERE m.watched = 1 AND m.goes > 3"
    ))  # fmt: skip
    for name, id, state, result, error, reason in told:
        tx.tell(name, finished(id, state, result, error, reason or "", id in gathering))
    tx.run("DELETE FROM watches WHERE job IN (SELECT job FROM moved WHERE watched = 1 AND goes > 3)")


def finished(
    id: str, state: int, result: str | None, error: str | None, reason: str, gathers: bool = False
) -> Finished:
    """``gathers``: its value is that of other nodes, and has to be put together where it has none at hand."""
    outcome, failure = maybe_bytes(result), maybe_bytes(error)
    elsewhere = gathers and state == SUCCEEDED and outcome is None
    if elsewhere or len(outcome or b"") + len(failure or b"") > INLINE_MAX:
        return Finished(id, STATES[state], reason=reason, inline=False)
    return Finished(id, STATES[state], outcome, failure, reason)
