"""Listings: a page at a time, by acceptance, and never looking at more records than the bounds allow."""

from __future__ import annotations

import time

from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Query
from windlass.store.machine.jobs.rows import jobs_of
from windlass.store.machine.reads.walks import FEW, choose
from windlass.store.machine.tx import Tx, ids_json
from windlass.store.reads import Page

FIRST_LOOK = 256
"""Most pages are filled by so many jobs; each further look is larger."""

PATIENCE = 0.05
"""A listing that has looked at as many jobs as one call should goes on for so many seconds: a few jobs among very many
are met in fewer pages then. Nobody waits for it meanwhile, for it only reads."""


def find(tx: Tx, query: Query, limit: int | None = None, patience: float = PATIENCE) -> Page:
    limit = min(query.limit, limit or MAX_BATCH, MAX_BATCH)
    low, high = _range(tx, query)
    chosen = choose(tx, query)
    if chosen is None or limit <= 0:
        return Page()
    found: list[int] = []
    page = Page()
    walk, looked, until = chosen.probe or chosen, 0, time.monotonic() + patience
    size = FIRST_LOOK
    while True:
        size = min(size, tx.settings.scan_limit)
        fits, seen, end = walk.look(tx, low, high, size)
        found += sorted(fits, reverse=not query.oldest_first)[: limit - len(found)]
        full = len(found) == limit
        if not full and seen < size:
            break
        end = found[-1] if full else end
        low, high = (end, high) if query.oldest_first else (low, end)
        looked += seen
        page.partial = not full and looked >= tx.settings.scan_limit and time.monotonic() >= until
        if full or page.partial:
            if walk.look(tx, low, high, 1)[1]:
                page.cursor = str(end)
            else:
                page.partial = False
            break
        size *= 4
        if walk is not chosen and looked >= FEW:
            walk, size = chosen, FIRST_LOOK
    rows = tx.all(tx.sql.find.THESE, (ids_json(found),))
    page.jobs = jobs_of(tx, sorted(rows, key=lambda row: int(row[0]), reverse=not query.oldest_first))
    return page


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
    low, high = tx.value(tx.sql.find.SMALLEST), tx.value(tx.sql.find.BEHIND_LARGEST)
    while low < high:
        middle = (low + high) // 2
        row = tx.one(tx.sql.find.FIRST_SINCE, (middle,))
        if row is None or row[1] >= instant:
            high = middle
        else:
            low = row[0] + 1
    return int(low)
