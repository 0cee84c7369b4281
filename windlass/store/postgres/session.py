"""Connections to the server, and the one place where the driver's exceptions become Windlass's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import psycopg
from psycopg import errors, pq
from psycopg.adapt import Buffer, Loader
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import TextLoader

from windlass.errors import StoreError, StoreUnavailable, WindlassError
from windlass.store.postgres.location import Location

KEPT_ALIVE = {
    "keepalives": "1", "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3",
    "tcp_user_timeout": "10000", "connect_timeout": "10",
}  # fmt: skip

PASSING = (
    errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable, errors.QueryCanceled,
    errors.ReadOnlySqlTransaction, errors.CannotConnectNow, errors.AdminShutdown, errors.CrashShutdown,
    errors.TooManyConnections, errors.InsufficientResources, errors.OperatorIntervention,
)  # fmt: skip
"""What goes by, so that the same call may succeed a moment later."""


class _Int(Int8Dumper):
    """Integers and truth values are all of one type, so that a statement is planned once."""

    def dump(self, obj: Any) -> Buffer | None:
        return super().dump(int(obj))


class _Whole(Loader):
    """Sums come back as integers: nothing here has fractions."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data))


def connect(server: dict[str, str], name: str) -> psycopg.Connection[Any]:
    """A connection on which nothing is remembered between transactions, so that it may lead through a pooler."""
    db = psycopg.connect(**{**KEPT_ALIVE, "application_name": name, **server}, autocommit=True)  # type: ignore[arg-type]
    db.cursor_factory = psycopg.RawCursor
    db.adapters.register_dumper(int, _Int)
    db.adapters.register_dumper(bool, _Int)
    db.adapters.register_loader("numeric", _Whole)
    for kind in ("json", "jsonb"):
        db.adapters.register_loader(kind, TextLoader)
    return db


class Session:
    """What the machine runs its statements on."""

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self.db = db

    def execute(self, sql: str, values: Any = (), /) -> Iterator[Any]:
        if isinstance(values, Mapping):
            return iter(psycopg.Cursor(self.db).execute(sql, values))
        return iter(self.db.execute(sql, values or None))

    def executemany(self, sql: str, rows: Iterable[Any], /) -> None:
        with self.db.cursor() as cursor:
            cursor.executemany(sql, rows)

    @property
    def lost(self) -> bool:
        return self.db.closed or self.db.pgconn.status != pq.ConnStatus.OK


def mapped(error: Exception, location: Location) -> WindlassError:
    """What a caller is told of the driver's error."""
    if isinstance(error, WindlassError):
        return error
    said = str(error).strip().partition("\n")[0] or type(error).__name__
    if isinstance(error, (*PASSING, psycopg.OperationalError, psycopg.InterfaceError)):
        return StoreUnavailable(f"{location.shown}: {said}")
    return StoreError(f"{location.shown}: {said}")
