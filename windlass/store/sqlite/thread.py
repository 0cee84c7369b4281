"""The database thread: the only user of a store's connection. It takes all that is pending and makes it one commit.

Group commit is why a busy store is faster, not slower: operations that arrive while a commit is on its way share the
next one. Each operation still succeeds or fails alone. The thread knows transactions, not jobs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from windlass.errors import StoreClosed, StoreError
from windlass.store.base import Clock, StoreSettings
from windlass.store.machine.ops import Kind, Op, resolve
from windlass.store.machine.tx import Memo
from windlass.store.sqlite import mailboxes
from windlass.store.sqlite.connection import BROKEN, BUSY, NOT_DAMAGE, Patience, connect, mapped
from windlass.store.sqlite.location import Location, check_location
from windlass.store.sqlite.mailbox import Mailbox, Outbox
from windlass.store.sqlite.mending import mend
from windlass.store.sqlite.tx import FileTx

log = logging.getLogger("windlass.store")

T = TypeVar("T")

GROUP = 64
"""Operations in one transaction at most, so that none waits for ever."""

CHECKPOINT_PAGES = 2_000
"""From this length on the log is copied back into the file; longer logs mean fewer, larger copies."""

RESTART_PAGES = 8_000
"""From this length on writers are held up for the copy: under constant load of several it would never finish."""

QUICK_DISK = 0.001
"""A commit that takes no longer on average may be waited for on an event loop, which saves a switch to another thread
and back: 65 to 100 microseconds of 250 to 460 where it was measured."""

RESTART_PATIENCE = 0.5
"""Seconds writers are held up for readers at most, when the log is to start anew."""

RETRY_SENDING = 0.005
FORK_PATIENCE = 10.0
PAUSES = 20
"""So many times as long as looking for damage took in vain, nobody looks for it again."""

STAYS_CHECKED = 1.0
"""Seconds after which it is looked at again whether the path still leads to the open file."""


class Database:
    """A connection with its thread. ``run`` is called on event loops, ``run_here`` on other threads."""

    def __init__(self, location: Location, settings: StoreSettings, clock: Clock) -> None:
        self.location, self.clock, self.memo = location, clock, Memo(settings)
        self._patience = Patience(location.timeout)
        self._reset()

    def _reset(self) -> None:
        self.closed = True
        self.commits = 0
        self.mailboxes: dict[str, Mailbox] = {}
        self._ops: queue.SimpleQueue[Op | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._life = threading.Lock()
        self._held_for_fork = False
        self._thread: threading.Thread | None = None
        self._outbox: Outbox | None = None
        self._db: apsw.Connection | None = None
        self._file = (0, 0)
        self._checked = 0.0
        self._synchronous = 0
        self._disk_seconds = 2 * QUICK_DISK  # taken for slow until it was seen to be quick
        self._log_pages = self._copied_pages = 0
        self._mend_again = 0.0

    # -- on event loops

    def start(self) -> None:
        """Open the file and start the thread. Raises what is wrong with the file."""
        with self._life:  # whoever gives up waiting for this may stop it while it goes on
            check_location(self.location.path)
            with self._lock:
                self._connection()
            self._outbox = Outbox()
            self.closed = False
            self._thread = threading.Thread(target=self._serve, name="windlass-sqlite", daemon=True)
            self._thread.start()
            _living.add(self)

    async def run(self, kind: Kind, work: Callable[[FileTx], T], brief: bool = False) -> T:
        """In the next group commit. What is ``brief`` may run on the loop's own thread, unless the disk is slow."""
        if self.closed:
            raise StoreClosed()
        quick = kind is not Kind.DURABLE or self._disk_seconds < QUICK_DISK
        if brief and quick and (done := self._at_once(kind, work)):
            if done.error is not None:
                raise done.error
            result: T = done.answer
            return result
        op = Op(kind, work, asyncio.get_running_loop())
        self._ops.put(op)
        assert op.future is not None
        answer: T = await op.future
        return answer

    def _at_once(self, kind: Kind, work: Callable[[FileTx], Any]) -> Op | None:
        """Done on this thread if nobody has to be waited for, which saves two switches of threads; else None."""
        if not self._ops.empty() or not self._lock.acquire(blocking=False):
            return None
        try:
            op = Op(kind, work, None)
            with self._patience.none():
                error = self._attempt([op])
        finally:
            self._lock.release()
        self._mail_left()
        if error is not None:
            return None  # the database thread waits for a lock, and mends what is damaged
        return op

    def _mail_left(self) -> None:
        """Another thread than the database's has sent mail: what is left of it is for that one to try again."""
        if self._outbox is not None and self._outbox.pending:
            self._ops.put(Op(Kind.READ, lambda tx: None, None))

    def run_here(self, kind: Kind, work: Callable[[FileTx], T]) -> T:
        """For threads without a loop: on this very thread if the file is free, else in the next group commit."""
        if self.closed:
            raise StoreClosed()
        op = Op(kind, work, None)
        if self._lock.acquire(blocking=False):
            try:
                if self.closed:
                    raise StoreClosed()
                self._group([op])
                self._checkpoint()
            finally:
                self._lock.release()
            self._mail_left()
        else:
            op.done = threading.Event()
            self._ops.put(op)
            op.done.wait()
        if op.error is not None:
            raise op.error
        answer: T = op.answer
        return answer

    def stop(self) -> None:
        """Finish what is pending, close the file, end the thread. Blocks for as long as that takes."""
        with self._life:
            self.closed = True
            _living.discard(self)
            if self._thread is not None:
                self._ops.put(None)
                self._thread.join()
                self._thread = None

    # -- on the thread

    def _serve(self) -> None:
        while True:
            batch, last = self._take()
            if batch:
                with self._lock:
                    self._group(batch)
                    self._checkpoint()
            if last:
                break
        with self._lock:
            self._disconnect()
        if self._outbox is not None:
            self._outbox.again()
            self._outbox.close()
        while not self._ops.empty():  # sent while the store was being closed
            op = self._ops.get()
            if op is not None:
                op.error = StoreClosed()
                resolve([op])

    def _take(self) -> tuple[list[Op], bool]:
        """Everything pending, at least one; True with it when there is nothing to come."""
        outbox = self._outbox
        assert outbox is not None
        try:
            op = self._ops.get(timeout=RETRY_SENDING if outbox.pending else None)
        except queue.Empty:
            with self._lock:
                outbox.again()
            return [], False
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
                error = error if len(batch) == 1 else self._attempt([op])
                if error is not None:
                    error = self._mend(op, error)
                op.error = op.error if error is None else mapped(error, self.location.path)
                resolve([op])
            return
        resolve(batch)

    def _mend(self, op: Op, error: Exception) -> Exception | None:
        """A call failed over what it read, or was asked: put aside what is damaged, and make it again."""
        started = time.monotonic()
        if isinstance(error, NOT_DAMAGE) or started < self._mend_again:
            return error
        failed = self._attempt([Op(Kind.DURABLE, mend, None)])
        if failed is not None:
            log.error("damaged records could not be put aside", exc_info=failed)
        now = time.monotonic()
        again = self._attempt([op])  # also if nothing was found: another process may have been quicker
        if again is not None:
            # All of the file was looked at: whoever only asks for nonsense must not have that done over and over.
            self._mend_again = now + PAUSES * (now - started)
        return again

    def _attempt(self, batch: list[Op]) -> Exception | None:
        """One transaction over the batch, and after its commit the mail. The error that undid it, if one did."""
        kind = max(op.kind for op in batch)
        try:
            tx = self._transact(kind, batch)
        except Exception as error:
            self._undo(error)
            return error
        except BaseException as error:  # Ctrl-C in a thread that runs its operation itself
            self._undo(error)
            raise
        if kind and tx.mail:
            self._send(tx)
        return None

    def _transact(self, kind: Kind, batch: list[Op]) -> FileTx:
        db = self._connection()
        if not kind:
            # A look at one moment, also when it takes several statements.
            self._patience.start()
            db.execute("BEGIN")
        else:
            self._sync(db, kind)
            self._patience.through(lambda: db.execute("BEGIN IMMEDIATE"))
        tx = FileTx(db, self.memo, self.clock())
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
        started = time.perf_counter()
        db.execute("COMMIT")
        if kind is Kind.DURABLE:
            self._disk_seconds += (time.perf_counter() - started - self._disk_seconds) / 8
        self.commits += 1
        return tx

    def _sync(self, db: apsw.Connection, kind: Kind) -> None:
        """Wait for the disk at commit, or not. SQLite takes this outside of transactions only."""
        wanted = 2 if kind is Kind.DURABLE and self.location.durability == "full" else 1
        if wanted != self._synchronous:
            db.execute("PRAGMA synchronous = FULL" if wanted == 2 else "PRAGMA synchronous = NORMAL")
            self._synchronous = wanted

    def _undo(self, error: BaseException) -> None:
        db = self._db
        if db is None:
            return
        try:
            if not db.get_autocommit():
                db.execute("ROLLBACK")
        except apsw.Error:
            self._disconnect()
        if isinstance(error, BROKEN):
            self._disconnect()

    def _connection(self) -> apsw.Connection:
        if self._db is not None and not self._stays():
            self._disconnect()
        if self._db is None:
            self._db = connect(self.location.path, self._patience, self.clock)
            self._db.set_wal_hook(self._committed)
            self._file, self._checked, self._synchronous = self._identity(), time.monotonic(), 0
        return self._db

    def _stays(self) -> bool:
        """Whether the path still leads to the open file. A deleted file would go on working, unseen by all others."""
        now = time.monotonic()
        if now < self._checked + STAYS_CHECKED:
            return True
        self._checked = now
        return self._identity() == self._file

    def _identity(self) -> tuple[int, int]:
        try:
            found = os.stat(self.location.path)
        except OSError:
            return 0, 0
        return found.st_dev, found.st_ino

    def _committed(self, db: apsw.Connection, name: str, pages: int) -> int:
        self._log_pages = pages
        return 0

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            try:
                db.close()
            except apsw.Error:
                _abandoned.append(db)

    def _checkpoint(self) -> None:
        """Keep the log short, after the callers have been answered."""
        if self._log_pages < self._copied_pages:  # it has started anew since
            self._copied_pages = 0
        if self._db is None or self._log_pages < self._copied_pages + CHECKPOINT_PAGES:
            return
        self._copied_pages = self._log_pages
        try:
            self._patience.start(RESTART_PATIENCE)
            restart = self._log_pages > RESTART_PAGES
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART if restart else apsw.SQLITE_CHECKPOINT_PASSIVE)
        except BUSY:
            return  # a reader is in the way, or somebody else is at it: a later commit tries again
        except apsw.Error as error:
            self._undo(error)

    # -- mail

    def _addresses(self, tx: FileTx) -> None:
        """Names become paths inside the transaction, so that a name which just listened is not missed."""
        if tx.mail:
            paths = mailboxes.paths(tx, tx.mail)
            tx.mail = {paths[name]: items for name, items in tx.mail.items() if name in paths}

    def _send(self, tx: FileTx) -> None:
        outbox = self._outbox
        assert outbox is not None
        for path, items in tx.mail.items():
            outbox.post(path, items)
        if outbox.gone:
            paths, outbox.gone = outbox.gone, []
            self._ops.put(Op(Kind.RELAXED, lambda later: mailboxes.forget_paths(later, paths), None))

    # -- fork

    def before_fork(self) -> None:
        """Close the file: SQLite's own bookkeeping of locks must not be copied into a child with a connection in it."""
        self._held_for_fork = self._lock.acquire(timeout=FORK_PATIENCE)
        if self._held_for_fork:
            self._disconnect()

    def after_fork_in_parent(self) -> None:
        if self._held_for_fork:
            self._held_for_fork = False
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """The thread stayed in the parent. What was not closed in time is kept, never closed: it is the parent's."""
        if self._db is not None:
            _abandoned.append(self._db)
        if self._outbox is not None:
            self._outbox.close()
        for box in self.mailboxes.values():
            box.abandon()
        self._reset()


_living: weakref.WeakSet[Database] = weakref.WeakSet()
_forking: list[Database] = []
_abandoned: list[apsw.Connection] = []


def _before_fork() -> None:
    _forking[:] = list(_living)
    for database in _forking:
        database.before_fork()


def _after_fork_in_parent() -> None:
    while _forking:
        _forking.pop().after_fork_in_parent()


def _after_fork_in_child() -> None:
    while _forking:
        _forking.pop().after_fork_in_child()
    _living.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
