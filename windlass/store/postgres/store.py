"""The engine's own calls: opening and closing, the hot path, who listens, and what it promises."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import psycopg

from windlass.core.lifecycle import Transition
from windlass.errors import StoreClosed
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Clock, StoreSettings
from windlass.store.jobs import Deliver, ExchangeReply, SweepReply, Want
from windlass.store.machine.flow import exchange
from windlass.store.machine.jobs import sweeps
from windlass.store.machine.ops import Kind
from windlass.store.machine.store import MachineStore
from windlass.store.machine.tx import Tx
from windlass.store.postgres import mailboxes
from windlass.store.postgres.ear import Ear
from windlass.store.postgres.location import parse_url
from windlass.store.postgres.setup import SCHEMA
from windlass.store.postgres.thread import Database
from windlass.store.reads import StoreInfo
from windlass.store.shared import check_batch

READ, RELAXED, DURABLE = Kind.READ, Kind.RELAXED, Kind.DURABLE


class PostgresStore(MachineStore):
    """Jobs in a schema of a PostgreSQL database. For the form of the URL see ``location.parse_url``."""

    def __init__(self, url: str, settings: StoreSettings, clock: Clock | None = None) -> None:
        self.url = url
        self.location = parse_url(url, settings.name)
        database = Database(self.location, settings, clock)
        super().__init__(database)
        self._database: Database = database
        self._ear: Ear | None = None

    async def open(self) -> None:
        if self._database.closed:
            await asyncio.to_thread(self._database.start)

    async def close(self) -> None:
        ear = self._ear
        if ear is not None:
            if not self._database.closed:
                for name in list(ear.names):
                    await self.unlisten(name)
            await ear.close()
        await asyncio.to_thread(self._database.stop)

    async def exchange(self, worker: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
        check_batch(len(moves))
        # A claim lost in a crash of the server loses nothing but time; a settle must stay.
        kind = DURABLE if moves else RELAXED
        return await self._database.run(kind, lambda tx: exchange.exchange(tx, worker, seq, moves, want))

    async def sweep(self, limit: int = MAX_BATCH) -> SweepReply:
        def sweep(tx: Tx) -> SweepReply:
            reply = sweeps.sweep(tx, limit, lambda workers: ())
            mailboxes.sweep(tx, reply.dead_workers)
            return reply

        return await self._database.run(DURABLE, sweep)

    async def listen(self, name: str, deliver: Deliver) -> None:
        if self._database.closed:
            raise StoreClosed()
        if not self.location.listen:
            return
        if self._ear is None:
            self._ear = Ear(self.location, self._database.name)
        ear = self._ear
        if name not in ear.names:
            await self._database.run(RELAXED, lambda tx: mailboxes.register(tx, name, ear.channel))
        await ear.listen(name, deliver)

    async def unlisten(self, name: str) -> None:
        ear = self._ear
        if ear is None or name not in ear.names:
            return
        if ear.forget(name):
            self._ear = None
            await ear.close()
        await self._database.run(RELAXED, lambda tx: mailboxes.unregister(tx, name, ear.channel))

    async def info(self) -> StoreInfo:
        def look(tx: Tx) -> tuple[str, str, int]:
            version, commit = tx.one("SELECT current_setting('server_version'), current_setting('synchronous_commit')")
            return version, commit, tx.value("SELECT coalesce(sum(many), 0) FROM counts WHERE task = ''")

        version, commit, jobs = await self._database.run(READ, look)
        safe = commit != "off"
        return StoreInfo(
            engine="postgres", version=version,
            durability="an accepted job survives a crash of the server (synchronous_commit is on)" if safe else
            "a crash of the server may undo the last moments (synchronous_commit=off)",
            location=self.location.shown, warnings=[] if safe else ["synchronous_commit is off on this server"],
            details={"schema": str(SCHEMA), "jobs": str(jobs), "driver": f"psycopg {psycopg.__version__}"},
        )  # fmt: skip
