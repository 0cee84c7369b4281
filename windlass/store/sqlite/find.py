"""Listings: a page at a time, by acceptance, and never looking at more records than the bound allows."""

from __future__ import annotations

from typing import Any

from windlass.core.job import State
from windlass.core.limits import NO_LIMITS
from windlass.core.terms import queue_gate
from windlass.errors import StoreError
from windlass.store.base import MAX_BATCH, Page, Query, QueueInfo
from windlass.store.shared import CODE, STATES
from windlass.store.sqlite.codes import READY
from windlass.store.sqlite.jobs import JOB_COLUMNS, records
from windlass.store.sqlite.tx import Tx

# What an index can answer. The names are fixed text; values are always bound.
INDEXED = {
    State.SCHEDULED: "INDEXED BY jobs_due WHERE state = 1",
    State.READY: "INDEXED BY jobs_ready WHERE state = 2",
    State.RUNNING: "INDEXED BY jobs_running WHERE state = 3",
}


def find(tx: Tx, query: Query, limit: int | None = None) -> Page:
    limit = min(query.limit, limit or MAX_BATCH, MAX_BATCH)
    low, high = _range(tx, query)
    source, values = _source(tx, query)
    terms, more = _terms(query)
    order = "ASC" if query.oldest_first else "DESC"
    # The inner query walks an index or the table and is cut off at the bound; the outer one filters.
    walk = f"SELECT jobs.* FROM jobs {source} AND n > ? AND n < ? ORDER BY n {order} LIMIT ?"
    bound = (*values, low, high, tx.settings.scan_limit)
    rows = tx.all(
        f"SELECT {JOB_COLUMNS} FROM ({walk}) AS jobs WHERE {terms} ORDER BY n {order} LIMIT ?", (*bound, *more, limit)
    )
    page = Page(records(tx, rows))
    edge = "max" if query.oldest_first else "min"
    if len(rows) == limit:
        end = rows[-1][0] if rows else 0
    else:
        looked, end = tx.one(f"SELECT count(*), {edge}(n) FROM ({walk})", bound)
        page.partial = looked == tx.settings.scan_limit
        if not page.partial:
            return page
    beyond = (end, high) if query.oldest_first else (low, end)
    if tx.value(f"SELECT 1 FROM jobs {source} AND n > ? AND n < ? LIMIT 1", (*values, *beyond)):
        page.cursor = str(end)
    else:
        page.partial = False
    return page


def _source(tx: Tx, query: Query) -> tuple[str, tuple[Any, ...]]:
    """Where to walk: an index where one fits and does not have to be sorted beyond the bound, else the table."""
    only = query.states[0] if len(query.states) == 1 else None
    if only is State.FAILED and query.task:
        return "INDEXED BY jobs_failed_task WHERE state = 5 AND task = ?", (query.task,)
    if only is State.FAILED and query.fingerprint:
        return "INDEXED BY jobs_failed_fingerprint WHERE state = 5 AND fingerprint = ?", (query.fingerprint,)
    if only is State.FAILED:
        return "INDEXED BY jobs_failed_task WHERE state = 5", ()
    if query.worker:
        n = "(SELECT workers.n FROM workers WHERE workers.id = ?)"
        return f"INDEXED BY jobs_running WHERE state = 3 AND worker = {n}", (query.worker,)
    if only in INDEXED:
        count = tx.value("SELECT sum(jobs) FROM counts WHERE state = ?", (CODE[only],))
        if (count or 0) <= tx.settings.scan_limit:
            return INDEXED[only], ()
    return "WHERE true", ()


def _terms(query: Query) -> tuple[str, list[Any]]:
    terms = ["true"]
    values: list[Any] = []
    for column, wanted in (("queue", query.queue), ("task", query.task), ("fingerprint", query.fingerprint)):
        if wanted:
            terms.append(f"{column} = ?")
            values.append(wanted)
    if query.states:
        codes = ", ".join(str(CODE[state]) for state in query.states)
        terms.append(f"state IN ({codes})")
    if query.since:
        terms.append("enqueued_at >= ?")
        values.append(query.since)
    if query.until:
        terms.append("enqueued_at < ?")
        values.append(query.until)
    return " AND ".join(terms), values


def _range(tx: Tx, query: Query) -> tuple[int, int]:
    """The numbers the page must lie strictly between. Jobs are numbered in time, so instants become numbers."""
    low, high = 0, 1 << 62
    if query.since:
        low = max(low, _first_since(tx, query.since) - 1)
    if query.until:
        high = min(high, _first_since(tx, query.until))
    if query.after:
        if not query.after.isdigit():
            raise StoreError(f"cursor {query.after!r} is not one a listing gave out")
        after = int(query.after)
        low, high = (max(low, after), high) if query.oldest_first else (low, min(high, after))
    return low, high


def _first_since(tx: Tx, instant: int) -> int:
    """The lowest number accepted at or after an instant, by halving."""
    low, high = tx.one("SELECT coalesce(min(n), 1), coalesce(max(n), 0) + 1 FROM jobs")
    while low < high:
        middle = (low + high) // 2
        row = tx.one("SELECT n, enqueued_at FROM jobs WHERE n >= ? ORDER BY n LIMIT 1", (middle,))
        if row is None or row[1] >= instant:
            high = middle
        else:
            low = row[0] + 1
    return int(low)


def queues(tx: Tx) -> list[QueueInfo]:
    infos: dict[str, QueueInfo] = {}
    for queue, state, jobs in tx.all("SELECT queue, state, jobs FROM counts ORDER BY queue, state"):
        info = infos.setdefault(queue, QueueInfo(name=queue, counts={}))
        if jobs:
            info.counts[str(STATES[state])] = jobs
        if jobs and state == READY:
            info.oldest_ready = tx.now - _oldest_ready(tx, queue)
            info.lanes = (
                tx.value("SELECT count(*) FROM lanes WHERE queue = ? AND head > 0", (queue,)) if tx.lanes else 0
            )
        info.limits = tx.book.limits(queue_gate(queue)) if tx.gates else NO_LIMITS
    return list(infos.values())


def _oldest_ready(tx: Tx, queue: str) -> int:
    """When the oldest of the first ones was accepted: in ready order, set aside, waiting to run alone, in lanes."""
    oldest: int = tx.value(
        "SELECT min((SELECT enqueued_at FROM jobs WHERE state = 2 AND queue = ?1 AND hold = h.value "
        "ORDER BY place LIMIT 1)) FROM json_each('[0, 1, 2, 3]') AS h", (queue,)
    )  # fmt: skip
    return oldest
