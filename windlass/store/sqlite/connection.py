"""Opening the file: pragmas, schema, procedures; and the one place where the driver's exceptions become Windlass's."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import apsw

from windlass.errors import StoreError, StoreUnavailable, WindlassError
from windlass.store.sqlite.damage import teach

SCHEMA = 5
OLDEST = 4
"""The version of schema.sql. A higher one was written by a newer Windlass; one from OLDEST on is migrated."""

CACHE_KIB = 32_768
LOG_KEPT = 64 << 20
"""A log that had to grow beyond this many bytes is cut back when it starts anew."""
STATEMENTS_CACHED = 200

BUSY = (apsw.BusyError, apsw.LockedError)
BROKEN = (
    apsw.CantOpenError, apsw.CorruptError, apsw.IOError, apsw.NotADBError, apsw.ReadOnlyError, apsw.AuthError,
    apsw.PermissionsError, apsw.NoLFSError, apsw.ProtocolError,
)  # fmt: skip
"""After these the connection itself is suspect and is opened anew."""
NOT_DAMAGE = (*BUSY, *BROKEN, apsw.FullError, apsw.InterruptError, WindlassError, MemoryError)
"""Whatever else fails a call may come from one record that cannot be read."""


def read_sql(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


SHORT_TRIES = 8


class Patience:
    """How to wait for a lock. SQLite asks it at every try.

    SQLite's own way sleeps for up to 100 ms between tries, so whoever meets a few busy writers hardly ever finds the
    lock free. The jitter keeps two processes from meeting in step.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.until = seconds, 0.0

    def start(self, seconds: float | None = None) -> None:
        self.until = time.monotonic() + (self.seconds if seconds is None else seconds)

    @contextmanager
    def none(self) -> Iterator[None]:
        """No waiting at all, for a while."""
        seconds, self.seconds = self.seconds, 0.0
        try:
            yield
        finally:
            self.seconds = seconds

    def __call__(self, tries: int) -> bool:
        if time.monotonic() >= self.until:
            return False
        # A lone writer is done in a fraction of a millisecond; only where many are at it is it worth standing back.
        time.sleep(random.uniform(0.00002, 0.0001) if tries < SHORT_TRIES else random.uniform(0.0002, 0.0015))
        return True

    def through(self, work: Callable[[], object]) -> None:
        """Do it, again while it is locked; also where SQLite does not ask but gives up at once."""
        self.start()
        while True:
            try:
                work()
            except BUSY:
                if not self(0):
                    raise
            else:
                return


def connect(path: Path, patience: Patience, clock: Callable[[], int]) -> apsw.Connection:
    """An open connection to a file with the right schema, made if it was missing."""
    try:
        db = apsw.Connection(str(path), statementcachesize=STATEMENTS_CACHED)
    except apsw.Error as error:
        raise mapped(error, path) from error
    try:
        db.set_busy_handler(patience)
        patience.through(lambda: _prepare(db, clock))
    except apsw.Error as error:
        db.close()
        raise mapped(error, path) from error
    except WindlassError:
        db.close()
        raise
    return db


def _prepare(db: apsw.Connection, clock: Callable[[], int]) -> None:
    if db.pragma("journal_mode", "wal") != "wal":
        raise StoreError("SQLite could not switch the file to write-ahead logging")
    db.pragma("cache_size", -CACHE_KIB)
    db.pragma("temp_store", "memory")
    # Plans must not depend on bound values: where a partial index is in play, SQLite would compile again at every call.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # Checkpoints are made by the thread when callers have been answered, not by whoever happens to commit.
    db.wal_autocheckpoint(0)
    db.pragma("journal_size_limit", LOG_KEPT)
    db.execute("BEGIN IMMEDIATE")
    try:
        _check_schema(db, clock)
        db.execute("COMMIT")
    except BaseException:
        if not db.get_autocommit():
            db.execute("ROLLBACK")
        raise
    db.execute(read_sql("steps.sql"))
    teach(db)


def _check_schema(db: apsw.Connection, clock: Callable[[], int]) -> None:
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if "windlass" not in tables:
        if tables:
            raise StoreError(f"{db.filename} is a database of something else (tables {', '.join(sorted(tables)[:5])})")
        db.execute(read_sql("schema.sql"))
        db.execute("INSERT INTO windlass VALUES (1, ?, 0, 0, 0, 0)", (SCHEMA,))
        db.execute("INSERT INTO clock VALUES (1, ?, 0, 0, 0)", (clock(),))
        return
    version = db.execute("SELECT schema FROM windlass").get
    if version > SCHEMA:
        raise StoreError(
            f"{db.filename} has schema {version} and this Windlass knows {SCHEMA}: upgrade Windlass in this process"
        )
    if version < OLDEST:
        raise StoreError(f"{db.filename} has schema {version}, of before the first release: begin with a new file")
    for number in range(version + 1, SCHEMA + 1):
        db.execute(read_sql(f"migrations/{number}.sql"))


def mapped(error: Exception, path: Path) -> Exception:
    """The exception a caller gets for one of the driver's."""
    if not isinstance(error, apsw.Error):
        return error
    text = str(error)
    if isinstance(error, BUSY):
        return StoreUnavailable(f"{path} was locked by other processes for longer than the timeout ({text})")
    if isinstance(error, apsw.FullError):
        return StoreError(f"the disk or the quota under {path} is full ({text})")
    if isinstance(error, apsw.NotADBError):
        return StoreError(f"{path} is not a SQLite database ({text})")
    if isinstance(error, apsw.CorruptError):
        return StoreError(f"{path} is damaged ({text}); restore a backup, or salvage it with sqlite3's .recover")
    if isinstance(error, apsw.ReadOnlyError):
        return StoreError(f"{path} cannot be written: the file or its directory is read-only ({text})")
    if isinstance(error, apsw.CantOpenError):
        return StoreError(f"{path} cannot be opened: check that it and its directory may be written ({text})")
    return StoreError(f"{path}: {text}")
