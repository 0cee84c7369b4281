"""The thread of a store's connection: it takes all operations that are pending and makes them one transaction.

The machine's rules are synchronous, and many small operations share a commit. Each operation succeeds or fails alone.
What could not be begun because the connection was lost is tried again on a new one for a while; what may have been
committed is for the caller to repeat, which is safe.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg

from windlass.core.job import Finished
from windlass.errors import StoreClosed, StoreError
from windlass.store.base import Clock, StoreSettings
from windlass.store.machine.ops import Kind, Op, resolve
from windlass.store.machine.tx import Memo, Tx
from windlass.store.postgres.letters import pack
from windlass.store.postgres.location import Location
from windlass.store.postgres.mailboxes import channels
from windlass.store.postgres.session import PASSING, Session, connect, mapped
from windlass.store.postgres.setup import OURS, lock_key, prepare, search_path
from windlass.store.postgres.tx import ServerTx

log = logging.getLogger("windlass.store")

T = TypeVar("T")

GROUP = 64
"""Operations in one transaction at most, so that none waits for ever."""

TRIES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.0, 1.0)
"""Seconds to wait before each try of what failed over something that goes by."""

FIXED = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; "
"""Plans that do not depend on what statistics say of tables that are empty one moment and full the next."""


class InDoubt(Exception):
    """The connection was lost while the commit was under way."""


class Database:
    """A connection with its thread."""

    def __init__(self, location: Location, settings: StoreSettings, clock: Clock | None) -> None:
        self.location, self.clock, self.memo = location, clock, Memo(settings)
        self.name = f"windlass {settings.name}"
        self.closed = True
        self.commits = 0
        self._ops: queue.SimpleQueue[Op | None] = queue.SimpleQueue()
        self._life = threading.Lock()
        self._thread: threading.Thread | None = None
        self._session: Session | None = None
        path, key = search_path(location), f"{OURS}, {lock_key(location.schema)}"
        timeout = f"SET LOCAL statement_timeout = {int(location.timeout * 1000)}; "
        common = f"SET LOCAL search_path = {path}; {timeout}{FIXED}"
        instant = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        lock = f"SELECT pg_advisory_xact_lock({key}); {instant}"
        self._begin = {
            Kind.READ: f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {common}{instant}",
            Kind.RELAXED: f"BEGIN ISOLATION LEVEL READ COMMITTED; {common}SET LOCAL synchronous_commit = off; {lock}",
            Kind.DURABLE: f"BEGIN ISOLATION LEVEL READ COMMITTED; {common}{lock}",
        }

    # -- for its users

    def start(self) -> None:
        """Connect, make what is missing, and start the thread. Raises what is wrong."""
        with self._life:
            if not self.closed:
                return
            try:
                self._connect()
            except Exception as error:
                raise mapped(error, self.location) from error
            self.closed = False
            self._thread = threading.Thread(target=self._serve, name="windlass-postgres", daemon=True)
            self._thread.start()

    async def run(self, kind: Kind, work: Callable[[Tx], T], brief: bool = False) -> T:
        """In the next transaction. All are made on the thread, however ``brief``."""
        if self.closed:
            raise StoreClosed()
        op = Op(kind, work, asyncio.get_running_loop())
        self._ops.put(op)
        assert op.future is not None
        answer: T = await op.future
        return answer

    def stop(self) -> None:
        """Finish what is pending, close the connection, end the thread. Blocks for as long as that takes."""
        with self._life:
            self.closed = True
            if self._thread is not None:
                self._ops.put(None)
                self._thread.join()
                self._thread = None

    # -- on the thread

    def _serve(self) -> None:
        last = False
        while not last:
            batch, last = self._take()
            if batch:
                self._group(batch)
        self._disconnect()
        while not self._ops.empty():  # sent while the store was being closed
            op = self._ops.get()
            if op is not None:
                op.error = StoreClosed()
                resolve([op])

    def _take(self) -> tuple[list[Op], bool]:
        """Everything pending, at least one; True with it when there is nothing to come."""
        op = self._ops.get()
        batch: list[Op] = []
        while op is not None:
            batch.append(op)
            if len(batch) == GROUP:
                break
            try:
                op = self._ops.get_nowait()
            except queue.Empty:
                break
        return batch, op is None

    def _group(self, batch: list[Op]) -> None:
        """All of a batch in one transaction; if that fails, each in its own, so that one cannot harm the others."""
        batch = [op for op in batch if op.future is None or not op.future.cancelled()]
        error = self._attempt(batch) if batch else None
        if error is not None:
            for op in batch:
                again = error if len(batch) == 1 or isinstance(error, InDoubt) else self._attempt([op])
                if again is not None:
                    op.error = mapped(again.__cause__ if isinstance(again, InDoubt) else again, self.location)  # type: ignore[arg-type]
        resolve(batch)

    def _attempt(self, batch: list[Op]) -> Exception | None:
        """One transaction over the batch, and after its commit the mail. The error that undid it, if one did."""
        kind = max(op.kind for op in batch)
        failed: Exception | None = None
        for pause in TRIES:
            time.sleep(pause)
            try:
                tx = self._transact(kind, batch)
            except InDoubt as error:
                self._disconnect()
                return error
            except Exception as error:
                self._undo()
                if not isinstance(error, (*PASSING, psycopg.OperationalError, psycopg.InterfaceError)):
                    return error
                failed = error
            else:
                if tx.mail:
                    self._send(tx.mail)
                return None
        return failed

    def _transact(self, kind: Kind, batch: list[Op]) -> Tx:
        session = self._session or self._connect()
        db = session.db
        begun = db.execute(self._begin[kind])
        while begun.nextset():
            pass
        (instant,) = begun.fetchone() or (0,)
        tx = ServerTx(session, self.memo, instant if self.clock is None else self.clock())
        if kind:
            tx.extend_leases()
        for op in batch:
            op.error = None
            try:
                op.answer = op.work(tx)
            except StoreError as error:  # refused before anything was written
                op.error = error
        if kind:
            tx.finish()
            self._addresses(tx)
        try:
            db.execute("COMMIT")
        except psycopg.Error as error:
            if kind and session.lost:
                raise InDoubt() from error
            raise
        self.commits += 1
        return tx

    def _addresses(self, tx: Tx) -> None:
        """Names become channels inside the transaction, so that a name which just listened is not missed."""
        if tx.mail:
            paths = channels(tx, tx.mail)
            letters: dict[str, list[Finished]] = {}
            for name, items in tx.mail.items():
                if name in paths:
                    letters[f"{paths[name]} {name}"] = items
            tx.mail = letters

    def _send(self, mail: dict[str, list[Finished]]) -> None:
        """After the commit: a NOTIFY inside would make all commits of the server wait for each other."""
        channels: dict[str, list[tuple[str, list[Finished]]]] = {}
        for address, items in mail.items():
            channel, _, name = address.partition(" ")
            channels.setdefault(channel, []).append((name, items))
        rows = [(channel, letter) for channel, found in channels.items() for letter in pack(found)]
        assert self._session is not None
        try:
            self._session.db.execute(
                "SELECT pg_notify(c, l) FROM unnest($1::text[], $2::text[]) AS u (c, l)",
                ([channel for channel, _ in rows], [letter for _, letter in rows]),
            )
        except psycopg.Error as error:
            log.info("a wake-up was lost, who waits will look again: %s", error)
            self._undo()

    # -- the connection

    def _connect(self) -> Session:
        db = connect(self.location.server, self.name)
        try:
            prepare(db, self.location)
        except BaseException:
            db.close()
            raise
        self._session = Session(db)
        return self._session

    def _undo(self) -> None:
        session = self._session
        if session is None:
            return
        try:
            if session.lost:
                self._disconnect()
            elif session.db.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                session.db.execute("ROLLBACK")
        except psycopg.Error:
            self._disconnect()

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.db.close()
