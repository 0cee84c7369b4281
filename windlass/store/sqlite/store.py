"""The engine's own calls: opening and closing, the hot path, who listens, and what it promises."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import apsw

from windlass.core.job import NewJob
from windlass.core.lifecycle import Transition
from windlass.errors import StoreClosed, StoreError
from windlass.store.answers import MAX_BATCH, Answer
from windlass.store.base import Clock, StoreSettings
from windlass.store.jobs import (
    Deliver,
    ExchangeReply,
    SweepReply,
    Want,
)
from windlass.store.machine.flow import exchange
from windlass.store.machine.jobs import intake
from windlass.store.machine.ops import Kind
from windlass.store.machine.store import BRIEF, MachineStore
from windlass.store.machine.tx import Tx
from windlass.store.reads import StoreInfo
from windlass.store.shared import check_batch, host_clock
from windlass.store.sqlite import mailboxes, mending, sweeps
from windlass.store.sqlite.connection import SCHEMA
from windlass.store.sqlite.location import parse_url
from windlass.store.sqlite.mailbox import HAVE_SOCKETS, Mailbox
from windlass.store.sqlite.thread import Database

READ, RELAXED, DURABLE = Kind.READ, Kind.RELAXED, Kind.DURABLE

PROMISES = {
    "full": "an accepted job survives a power cut (synchronous=FULL)",
    "normal": "an accepted job survives the death of every process; a power cut may undo the last moments "
    "(synchronous=NORMAL)",
}


class SQLiteStore(MachineStore):
    """Jobs in one local file. For the form of the URL see ``location.parse_url``."""

    def __init__(self, url: str, settings: StoreSettings, clock: Clock = host_clock) -> None:
        self.url = url
        self.location = parse_url(url)
        database = Database(self.location, settings, clock)
        super().__init__(database)
        self._database: Database = database

    async def open(self) -> None:
        if self._database.closed:
            await asyncio.to_thread(self._database.start)

    async def close(self) -> None:
        if not self._database.closed:
            for name in list(self._database.mailboxes):
                with contextlib.suppress(StoreError):  # a file that cannot be written must not keep it open
                    await self.unlisten(name)
        await asyncio.to_thread(self._database.stop)

    def insert_here(self, jobs: Sequence[NewJob]) -> list[Answer]:
        check_batch(len(jobs))
        return self._database.run_here(DURABLE, lambda tx: intake.insert(tx, jobs))

    async def exchange(self, worker: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
        check_batch(len(moves))
        # A claim lost in a power cut loses nothing, since the worker is gone too; a settle must stay.
        kind = DURABLE if moves else RELAXED
        brief = want.total <= BRIEF and (want.idle or not (moves or self._database.memo.todos))
        return await self._database.run(kind, lambda tx: exchange.exchange(tx, worker, seq, moves, want), brief)

    async def sweep(self, limit: int = MAX_BATCH) -> SweepReply:
        return await self._database.run(DURABLE, lambda tx: sweeps.sweep(tx, limit))

    async def listen(self, name: str, deliver: Deliver) -> None:
        if name in self._database.mailboxes:
            self._database.mailboxes[name].deliver = deliver
            return
        if self._database.closed:
            raise StoreClosed()
        if not HAVE_SOCKETS:
            return
        box = self._database.mailboxes[name] = Mailbox(deliver)
        await self._database.run(RELAXED, lambda tx: mailboxes.register(tx, name, box.path))

    async def unlisten(self, name: str) -> None:
        box = self._database.mailboxes.pop(name, None)
        if box is not None:
            box.close()
            await self._database.run(RELAXED, lambda tx: mailboxes.unregister(tx, name, box.path))

    async def info(self) -> StoreInfo:
        details, corrupt = await self._database.run(READ, lambda tx: (details_of(tx), mending.aside(tx)))
        full = self.location.durability == "full"
        warnings = [] if full else ["a power cut may undo the last moments (durability=normal)"]
        if corrupt:
            warnings.append(
                f"{corrupt} damaged records were put aside in the table corrupt; their jobs are dead letters"
            )
        return StoreInfo(
            engine="sqlite", version=apsw.sqlite_lib_version(), durability=PROMISES[self.location.durability],
            location=str(self.location.path), warnings=warnings,
            details=details | {"synchronous": self.location.durability, "timeout": f"{self.location.timeout:g} s"},
        )  # fmt: skip


def details_of(tx: Tx) -> dict[str, str]:
    pages, size = tx.one("SELECT page_count, page_size FROM pragma_page_count, pragma_page_size")
    return {
        "schema": str(SCHEMA),
        "journal": str(tx.value("PRAGMA journal_mode")),
        "size": f"{pages * size} bytes",
        "jobs": str(tx.value("SELECT coalesce(sum(many), 0) FROM counts WHERE task = ''")),
        "driver": f"apsw {apsw.apsw_version()}",
    }
