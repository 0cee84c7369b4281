"""The schema of an app: made where there is none, migrated where it is old; and the functions of this release.

The functions have a schema of their own, named by the hash of their text: processes of two releases call each what they
were written with. Whoever comes first makes what is missing, under a lock.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Any

import psycopg

from windlass.errors import StoreError, StoreOutdated
from windlass.store.postgres.location import Location, quoted

SCHEMA = 1
OURS = 0x57494E44
"""The first half of the key of our advisory locks, which keeps them apart from the application's."""


@cache
def read_sql(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def functions_of(schema: str) -> str:
    """The schema in which this release keeps its functions."""
    return f"{schema}_{hashlib.blake2b(read_sql('functions.sql').encode(), digest_size=5).hexdigest()}"


def lock_key(schema: str) -> int:
    """The second half of the key of an app's lock."""
    return int.from_bytes(hashlib.blake2b(schema.encode(), digest_size=4).digest(), signed=True)


def search_path(location: Location) -> str:
    return f"{quoted(functions_of(location.schema))}, {quoted(location.schema)}, pg_catalog"


def prepare(db: psycopg.Connection[Any], location: Location) -> None:
    """Make what is missing. Costs one look where nothing is."""
    if _found(db, location) == (SCHEMA, True):
        return
    with db.transaction():
        db.execute(f"SELECT pg_advisory_xact_lock({OURS}, {lock_key(location.schema)})")
        version, functions = _found(db, location)
        if version is None:
            db.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(location.schema)}")
            db.execute(f"SET LOCAL search_path = {quoted(location.schema)}")
            db.execute(read_sql("tables.sql"))
            db.execute("INSERT INTO windlass VALUES (1, $1)", (SCHEMA,))
            db.execute("INSERT INTO clock VALUES (1, 0, 0, 0, 0)")
        elif version > SCHEMA:
            raise StoreOutdated(
                f"{location.shown} has version {version} and this Windlass knows {SCHEMA}: upgrade Windlass in this "
                "process"
            )
        elif version < SCHEMA:
            raise StoreError(f"{location.shown} has version {version}, which this Windlass cannot migrate")
        if not functions:
            name = quoted(functions_of(location.schema))
            db.execute(f"CREATE SCHEMA {name}")
            db.execute(f"SET LOCAL search_path = {search_path(location)}")
            db.execute(read_sql("functions.sql"))


def _found(db: psycopg.Connection[Any], location: Location) -> tuple[int | None, bool]:
    """The version of the tables, None where there are none; and whether this release's functions are there."""
    tables, functions = db.execute(
        "SELECT to_regclass($1)::oid, to_regnamespace($2)::oid",
        (f"{quoted(location.schema)}.windlass", quoted(functions_of(location.schema))),
    ).fetchone() or (None, None)
    if tables is None:
        return None, functions is not None
    row = db.execute(f"SELECT schema FROM {quoted(location.schema)}.windlass").fetchone()
    return (row[0] if row else None), functions is not None
