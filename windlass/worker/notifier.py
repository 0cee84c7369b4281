"""The notifier of every worker whose app declares notifications: it finds what there is to tell, and makes jobs that
tell it.

One worker at a time leads, for a lease; which one does not matter. All decisions are one value in the store, the book,
written by compare-and-set: a worker that wrongly believes it leads cannot write it. The id of a handler's job is made
of the dead letter it is about, and the job is accepted before the book moves on; a notice is in the book before it is
sent. So a crash at any moment loses nothing and tells nothing twice. Jobs do the delivering, not this module.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from windlass.core.draft import Draft
from windlass.core.event import Entry, Event, expand
from windlass.core.job import Job, State, read_meta
from windlass.core.mute import MOST, NONE, Muted, decode
from windlass.core.mute import SHELF as MUTES
from windlass.core.notice import (
    DeadLetter,
    Notice,
    NoticeBook,
    dead_notice,
    is_on_record,
    late_notices,
    letter_of_event,
    letter_of_record,
    next_reminder,
    offer,
    remind,
)
from windlass.core.schedule import NAME_HEADER
from windlass.core.standstill import tell_of_queues, tell_of_schedules
from windlass.errors import StoreError
from windlass.operate.notices import QUEUE, TASK
from windlass.store.answers import MAX_BATCH, Accept
from windlass.store.base import Store
from windlass.store.items import Put, put_one, read_one
from windlass.store.jobs import Query
from windlass.store.shared import host_clock
from windlass.support.ids import new_id
from windlass.support.logs import Steady
from windlass.worker.standstill_watch import StandstillWatch

if TYPE_CHECKING:
    from windlass.app import Windlass

log = Steady(logging.getLogger("windlass.worker"))

SHELF, LEASE, BOOK = "notices", "lease", "book"
LEASE_MS = 6_000
RENEW, POLL, STANDBY, LOOK, SAVE = 2.0, 1.0, 3.0, 5.0, 10.0
"""Seconds: between renewals of the lease, looks at the events, tries to get the lease, looks at what stands still, and
writes of a cursor that passed nothing worth telling."""
PAGE, CHUNK = 100, 500
GAP = 1_000
"""Behind by more than so many events, it is checked that none of them was dropped meanwhile."""
RETRY_FIRST, RETRY_MAX = 0.5, 10.0

TRACE_HEADERS = ("traceparent", "tracestate")


class Superseded(Exception):
    """Another worker has written the book, so that worker leads."""


class Notifier:
    """``begin`` comes before the worker's first job; ``step`` tells what there is to tell; ``run`` repeats that."""

    def __init__(self, app: Windlass, store: Store, clock: Callable[[], int] = host_clock) -> None:
        self._app, self._notices, self._store, self._clock = app, app.notices, store, clock
        self._loop = asyncio.get_running_loop()
        self._me = f"{app.source} {new_id()}".encode()
        self._lease = self._version = 0
        self._renew_at = self._saved_at = 0.0
        self._book: NoticeBook | None = None
        self._cursor = 0
        self._is_sure = False
        wanted = {kind for rule in self._notices.rules.values() for kind in rule.on}
        self._heeds_queues, self._heeds_schedules = "stuck" in wanted, "schedule" in wanted
        self._kinds = ("failed", "schedule_fired") if self._heeds_schedules else ("failed",)
        self._lookout, self._look_at = StandstillWatch(store, clock), 0.0

    # -- life

    async def begin(self) -> None:
        """Start the book if it does not exist: jobs that are dead by then are not told of."""
        kept = await read_one(self._store, SHELF, BOOK)
        if not kept.version:
            newest = await self._store.events(-1)
            last = newest[-1] if newest else Entry(0, 0, [])
            book = NoticeBook(last.seq, last.at, await self._failures())
            await put_one(self._store, Put(shelf=SHELF, key=BOOK, body=_encode(book), expect=0))

    async def run(self) -> None:
        """Step until cancelled."""
        pause = RETRY_FIRST
        while True:
            try:
                wait, pause = await self.step(), RETRY_FIRST
            except StoreError as error:
                log.warning("notices cannot be seen to, will go on trying: %s", error)
                wait, pause = pause, min(pause * 2, RETRY_MAX)
            except Exception:
                # Any error is survived: if this task ended, nothing else would report that notices have stopped.
                log.exception("a bug in the notifier")
                wait, pause = pause, min(pause * 2, RETRY_MAX)
            await asyncio.sleep(wait)

    async def step(self) -> float:
        """Tell all there is to tell, if this worker leads. Answers the seconds until the next look."""
        try:
            if not await self._lead():
                return STANDBY
            await self._send_outbox()
            while await self._follow():
                await self._lead()
            await self._look()
            await self._remind()
        except Superseded:
            self._book = None
            return STANDBY
        return POLL

    async def catch_up(self) -> int:
        """Tell what there is. Answers the ms until withheld notices may be told, -1 for none. For callers that move the
        clock themselves.
        """
        await self.step()
        reminder = next_reminder(self._book, self._notices.rules.values()) if self._book is not None else 0
        return max(0, reminder - self._clock()) if reminder else -1

    async def stop(self) -> None:
        """Let another worker lead at once."""
        if self._lease:
            with suppress(StoreError):
                await put_one(self._store, Put(shelf=SHELF, key=LEASE, body=None, expect=self._lease))

    # -- leading

    async def _lead(self) -> bool:
        """Whether this worker leads. Its lease is renewed if that is due."""
        if self._book is not None and self._loop.time() < self._renew_at:
            return True
        for expect in dict.fromkeys((self._lease, 0)):
            put = Put(shelf=SHELF, key=LEASE, body=self._me, ttl=LEASE_MS, expect=expect)
            done, lease = await put_one(self._store, put)
            if done or lease.body == self._me:
                self._lease, self._renew_at = lease.version, self._loop.time() + RENEW
                if self._book is None:
                    await self._load()
                return True
        self._lease, self._book = 0, None
        return False

    async def _load(self) -> None:
        kept = await read_one(self._store, SHELF, BOOK)
        if not kept.version:
            await self.begin()
            kept = await read_one(self._store, SHELF, BOOK)
        self._book, self._version = _decode(kept.body), kept.version
        self._cursor, self._is_sure, self._saved_at = self._book.cursor, False, self._loop.time()

    def _draft_book(self) -> NoticeBook:
        """A copy of the book to write in: what is not committed is not decided."""
        if self._book is None:
            raise Superseded
        return _decode(_encode(self._book))

    async def _commit(self, book: NoticeBook) -> None:
        book.cursor = max(book.cursor, self._cursor)
        value = _encode(book)
        put = Put(shelf=SHELF, key=BOOK, body=value, expect=self._version)
        done, kept = await put_one(self._store, put)
        if not done and kept.body != value:
            raise Superseded
        self._book, self._version, self._saved_at = book, kept.version, self._loop.time()
        self._cursor = book.cursor

    # -- events

    async def _follow(self) -> bool:
        """Read the next events. Answers whether there may be more."""
        newest = await self._store.events(-1)
        if not newest or newest[-1].seq <= self._cursor:
            return False
        top, behind = newest[-1], newest[-1].seq - self._cursor
        entries = await self._store.events(self._cursor, PAGE, self._kinds)
        if (behind > GAP or not self._is_sure) and await self._has_lost(entries):
            await self._look_through(top)
        elif entries:
            await self._tell(entries, top)
        else:
            self._cursor = top.seq
            if self._loop.time() > self._saved_at + SAVE:
                book = self._draft_book()
                book.at = top.at
                await self._commit(book)
        self._is_sure = True
        return len(entries) == PAGE

    async def _has_lost(self, entries: Sequence[Entry]) -> bool:
        """Whether events behind the cursor were dropped before they were read, with failures among them."""
        first = await self._store.events(max(0, self._cursor - 1), 1)
        if (first and first[0].seq <= self._cursor) or self._book is None:
            return False  # the last entry that was read still exists
        read = sum(1 for entry in entries for event in expand(entry) if _is_death(event))
        return len(entries) == PAGE or await self._failures() != self._book.failed + read

    async def _failures(self) -> int:
        return sum(total.count for total in await self._store.totals() if total.kind == "failed")

    async def _tell(self, entries: Sequence[Entry], top: Entry) -> None:
        """Tell of everything in some entries, a bounded number of events at a time."""
        chunk: list[Event] = []
        for entry in entries:
            chunk += expand(entry)
            if len(chunk) >= CHUNK or entry is entries[-1]:
                book = self._draft_book()
                await self._tell_of(book, chunk)
                end = entry is entries[-1] and len(entries) < PAGE
                book.cursor, book.at = max(entry.seq, top.seq if end else 0), entry.at
                await self._commit(book)
                await self._send_outbox()
                chunk = []

    async def _tell_of(self, book: NoticeBook, events: Sequence[Event]) -> None:
        deaths = [event for event in events if _is_death(event)]
        book.failed += len(deaths)
        records = await self._records(deaths)
        muted = await self._muted() if deaths else NONE
        drafts: list[Draft] = []
        for event in deaths:
            record = records.get(event.job)
            meta = read_meta(record.meta if record is not None else b"{}")
            if self._notices.is_own(event.task, meta.correlation_id):
                continue
            schedule = meta.headers.get(NAME_HEADER, "")
            if record is not None and is_on_record(event, record):
                letter = letter_of_record(record, schedule)
            else:
                letter = letter_of_event(event, schedule)
            drafts += self._notices.letter_drafts(letter, _trace_of(meta.headers), event.cursor)
            self._offer_death(book, letter, muted)
        await self._insert(drafts)
        for notice in late_notices(self._app.name, events):
            self._offer(book, notice)

    async def _muted(self) -> Muted:
        """The warnings that operators have muted for now."""
        items = await self._store.shelf(MUTES, limit=MOST)
        return frozenset(decode((item.body for item in items), self._clock()))

    def _offer_death(self, book: NoticeBook, letter: DeadLetter, muted: Muted) -> None:
        """Offer a dead letter to the rules. In a muted queue no rule is told; handlers are called as ever."""
        if ("dead_growing", letter.queue) in muted:
            return
        for rule in self._notices.rules.values():
            notice = dead_notice(self._app.name, letter, bool(letter.schedule) and "schedule" in rule.on)
            if rule.wants(notice):
                offer(book, rule, notice, self._clock())

    def _offer(self, book: NoticeBook, notice: Notice) -> None:
        for rule in self._notices.rules.values():
            if rule.wants(notice):
                offer(book, rule, notice, self._clock())

    async def _records(self, deaths: Iterable[Event]) -> dict[str, Job]:
        ids, found = list(dict.fromkeys(event.job for event in deaths)), dict[str, Job]()
        for start in range(0, len(ids), MAX_BATCH):
            records = await self._store.get(ids[start : start + MAX_BATCH])
            found.update({record.id: record for record in records if record is not None})
        return found

    async def _look_through(self, top: Entry) -> None:
        """Events were dropped before they were read: read the dead letters themselves since then."""
        log.warning("notices are behind the events that are kept, and are made up from the dead letters")
        book, failures, after = self._draft_book(), await self._failures(), ""
        since, muted = book.at, await self._muted()
        while True:
            page = await self._store.find(Query(states=(State.FAILED,), after=after, limit=CHUNK))
            drafts: list[Draft] = []
            for record in page.jobs:
                meta = read_meta(record.meta)
                is_new = since <= record.finished_at <= top.at
                if is_new and not self._notices.is_own(record.task, meta.correlation_id):
                    letter = letter_of_record(record, meta.headers.get(NAME_HEADER, ""))
                    drafts += self._notices.letter_drafts(letter, _trace_of(meta.headers))
                    self._offer_death(book, letter, muted)
            await self._insert(drafts)
            if not page.cursor:
                break
            after = page.cursor
            await self._lead()
        book.cursor, book.at, book.failed = top.seq, top.at, failures
        await self._commit(book)
        await self._send_outbox()

    # -- what stands still

    async def _look(self) -> None:
        if self._loop.time() < self._look_at or not (self._heeds_queues or self._heeds_schedules):
            return
        self._look_at = self._loop.time() + LOOK
        queues = await self._lookout.queues() if self._heeds_queues else {}
        queues.pop(QUEUE, None)  # no worker could run the notice
        gone = await self._lookout.gone() if self._heeds_schedules else []
        book, rules, now = self._draft_book(), self._notices.rules.values(), self._clock()
        muted = await self._muted()
        tell_of_queues(book, rules, self._app.name, queues, now, muted)
        tell_of_schedules(book, rules, self._app.name, gone, now, muted)
        if book != self._book:
            await self._commit(book)
            await self._send_outbox()

    # -- jobs

    async def _remind(self) -> None:
        """Tell what was withheld, where the rate allows it again."""
        now, book = self._clock(), self._draft_book()
        if not 0 < next_reminder(book, self._notices.rules.values()) <= now:
            return
        for rule in self._notices.rules.values():
            remind(book, rule, now)
        await self._commit(book)
        await self._send_outbox()

    async def _send_outbox(self) -> None:
        """Insert the jobs of decided notices. One that another worker has sent already is a duplicate and is
        dropped.
        """
        if self._book is None or not self._book.outbox:
            return
        if TASK in self._app.tasks:
            await self._insert([self._notices.notice_draft(key, notice) for key, notice in self._book.outbox])
        book = self._draft_book()
        book.outbox = []
        await self._commit(book)

    async def _insert(self, drafts: Sequence[Draft]) -> None:
        """Insert jobs without the enqueue middleware: these calls are the worker's own, and no middleware may refuse
        them.
        """
        source, meta = self._app.connections.source, self._app.connections.plain_meta
        for start in range(0, len(drafts), MAX_BATCH):
            jobs = [draft.to_job(source, meta) for draft in drafts[start : start + MAX_BATCH]]
            for answer in await self._store.insert(jobs):
                if answer.status in (Accept.FULL, Accept.REFUSED):
                    raise StoreError(f"the queue of notices takes in no jobs: {answer.reason}")


def _is_death(event: Event) -> bool:
    return event.kind == "failed" and bool(event.task)


def _trace_of(headers: dict[str, str]) -> dict[str, str]:
    """The trace headers of the job a handler is about, so that the handler appears in the same trace."""
    return {name: headers[name] for name in TRACE_HEADERS if name in headers}


_encode = msgspec.json.encode
_decoder = msgspec.json.Decoder(NoticeBook)
_decode = _decoder.decode
