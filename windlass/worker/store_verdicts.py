"""Logs, in one worker, what the store decided about jobs without a worker: quarantined, expired, or declared by no
worker.

After a sweep that did something, a worker reads the events behind the place up to which all were logged. That place is
an item: of many workers one moves it on, and that one logs. So each event is logged once; if the worker dies in
between, it is not logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic

import msgspec

from windlass.core.event import Entry, Event, expand
from windlass.core.job import Job
from windlass.core.lifecycle import EXPIRED
from windlass.errors import StoreError
from windlass.store.base import Store
from windlass.store.items import Item, Put, put_one, read_one
from windlass.store.jobs import SweepReply
from windlass.support.logs import Steady
from windlass.worker.joblog import JobLog, by_engine

log = Steady(logging.getLogger("windlass.worker"))

SHELF, TOLD = "notices", "told"
KINDS = ("failed", "cancelled")
PAGE, GET = 100, 500
EVERY = 60.0
"""Seconds after which it is looked without a sweep's word: a supervisor that buries its child sweeps nothing."""


class Verdicts:
    """``heed`` is called after every sweep; ``run`` logs what there is to log."""

    def __init__(self, store: Store, job_log: JobLog) -> None:
        self._store, self._log = store, job_log
        self._due = asyncio.Event()
        self._looked = monotonic()
        self._due.set()  # what happened while no worker looked

    def heed(self, reply: SweepReply) -> None:
        """Note that a sweep of this worker is done."""
        if reply.quarantined or reply.expired or reply.parked or monotonic() > self._looked + EVERY:
            self._due.set()

    async def run(self) -> None:
        """Log until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            self._looked = monotonic()
            try:
                while await self.step():
                    pass
            except StoreError as error:
                log.warning("what the store decided about jobs cannot be told now: %s", error)

    async def step(self) -> bool:
        """Log what one page of events says. Answers whether there may be more."""
        last = await read_one(self._store, SHELF, TOLD)
        newest = await self._store.events(-1)
        top = newest[-1].seq if newest else 0
        told = msgspec.json.decode(last.body, type=int) if last.version else top
        if last.version and told >= top:
            return False
        entries = await self._store.events(told, PAGE, KINDS) if told < top else []
        full = len(entries) == PAGE
        if not (await self._moved(last, entries[-1].seq if full else top)):
            return False  # another worker logs these
        await self._tell(entries)
        return full

    async def _moved(self, last: Item, seq: int) -> bool:
        put = Put(shelf=SHELF, key=TOLD, body=msgspec.json.encode(seq), expect=last.version)
        done, _ = await put_one(self._store, put)
        return done

    async def _tell(self, entries: Sequence[Entry]) -> None:
        events = [event for entry in entries for event in expand(entry) if _may_be_engines(event)]
        for start in range(0, len(events), GET):
            page = events[start : start + GET]
            for event, job in zip(page, await self._store.get([event.job for event in page]), strict=True):
                if job is not None and (event.kind == "cancelled" or by_engine(job)) and _is_of(event, job):
                    self._log.tell_of_record(event.kind, job, event.worker)


def _may_be_engines(event: Event) -> bool:
    return bool(event.task) and (event.kind == "failed" or (event.data or {}).get("reason") == EXPIRED)


def _is_of(event: Event, job: Job) -> bool:
    """Whether the event is about this run and life of the record, and not an earlier one."""
    return str(job.state) == event.kind
