"""Jobs of every kind, damage done to one record of theirs in the store, and what must hold for all the others."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import msgspec

from tests.servers.redis import Connection
from windlass import Windlass, chain, chord, current

app = Windlass("damaged", "memory://", lease="10s", beat="0.15s", charts=False)
ran: Counter[str] = Counter()
"""How often the body of each job ran, by id."""


def _note() -> None:
    job = current()
    ran[job.id] += 1
    job.log("line")
    job.progress(50, "half")


@app.task
async def plain(n: int) -> int:
    _note()
    return n


@app.task
def threaded(n: int) -> int:
    _note()
    return n


@app.task(retries=0)
async def failing(n: int) -> int:
    _note()
    raise ValueError("as told")


@app.task(key=lambda n: "one key", ordered=True)
async def keyed(n: int) -> int:
    _note()
    return n


@app.task(unique=lambda n: f"unique {n}")
async def unique(n: int) -> int:
    _note()
    return n


@app.task
async def follow(before: Any, n: int) -> Any:
    _note()
    return n


@app.task
async def total(values: list[Any]) -> int:
    _note()
    return len(values)


def calls(n: int) -> list[Any]:
    """One of each kind, but for those of workflows."""
    late = plain.options(delay="30ms")
    return [plain.s(n), threaded.s(n), failing.s(n), keyed.s(n), keyed.s(n + 1), unique.s(n), late.s(n), plain.s(n + 2)]


def works(n: int) -> list[Any]:
    return [
        chain(plain.s(n), follow.s(n=1), follow.s(n=2)),
        chord([plain.s(n), threaded.s(n), plain.s(n)], total.s()),
    ]


VALUES: list[Any] = [b"\xc1\xff\x00\xfe", "{{nonsense", "", -7, 1 << 62, 1.5, None, "[1]", "null"]


def broken(value: bytes, chance: random.Random) -> bytes:
    """The bytes with a bit flipped, cut off, doubled, or others in their place."""
    how = chance.randrange(5)
    at = chance.randrange(len(value)) if value else 0
    if how == 0 and value:
        return value[:at] + bytes([value[at] ^ (1 << chance.randrange(8))]) + value[at + 1 :]
    if how == 1:
        return value[:at]
    if how == 2:
        return value + value[:at]
    if how == 3:
        return b"\xc1\xff\x00garbage\xfe"
    return msgspec.msgpack.encode([7] * 33)


# -- SQLite

TABLES = [
    *["jobs"] * 8, "nodes", "links", "parts", "graphs", "lines", "events", "lanes", "uniques", "items", "buckets",
    "counts",
]  # fmt: skip


NOT_THESE = {("buckets", "name"), ("buckets", "size")}


def damage_sqlite(path: Path, chance: random.Random) -> tuple[str, set[str]]:
    """One column of one row. What was done, and the ids of the jobs it may harm.

    Not a bucket's name or size: others of them are as good, and drop ended jobs as they are told to.
    """
    db = apsw.Connection(str(path))
    db.set_busy_timeout(20_000)
    try:
        table = chance.choice(TABLES)
        keys = [name for (name,) in db.execute("SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", (table,))]
        columns = [
            name
            for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))
            if name not in ("n", "seq")
        ]
        rows = list(db.execute(f"SELECT {', '.join(keys)} FROM {table}"))
        if not rows:
            return "nothing", set()
        row, column = chance.choice(rows), chance.choice([name for name in columns if (table, name) not in NOT_THESE])
        where = " AND ".join(f"{key} = ?" for key in keys)
        mine = _harmed(db, table, row)
        deleted = table in ("links", "parts", "lines", "events", "items") and chance.random() < 0.15
        text = chance.random() < 0.5
        [(old,)] = db.execute(f"SELECT CAST({column} AS BLOB) FROM {table} WHERE {where}", row)
        new: Any = broken(old or b"", chance) if text else chance.choice(VALUES)
        slot = "CAST(? AS TEXT)" if text else "?"
        said = f"{table} {row} {'deleted' if deleted else f'{column} = {new!r}'}"
        try:
            if deleted:
                db.execute(f"DELETE FROM {table} WHERE {where}", row)
            else:
                db.execute(f"UPDATE {table} SET {column} = {slot} WHERE {where}", (new, *row))
        except (apsw.ConstraintError, apsw.MismatchError):
            return "refused", set()
        return said, mine
    finally:
        db.close()


def _harmed(db: apsw.Connection, table: str, row: tuple[Any, ...]) -> set[str]:
    """The ids of the jobs a row belongs to: all of a graph's, since one end may be another's."""
    if table in ("jobs", "lines"):
        found = list(db.execute("SELECT id, node FROM jobs WHERE n = ?", row[:1]))
        graph = db.execute("SELECT graph FROM nodes WHERE n = ?", (found[0][1],)).get if found and found[0][1] else None
        return {id for id, _ in found} | (_members(db, graph) if graph else set())
    if table in ("nodes", "links", "parts"):
        return _members(db, db.execute("SELECT graph FROM nodes WHERE n = ?", row).get)
    return _members(db, row[0]) if table == "graphs" else set()


def _members(db: apsw.Connection, graph: Any) -> set[str]:
    return {id for (id,) in db.execute("SELECT id FROM nodes WHERE graph = ?", (graph,))}


# -- Redis

HASHES = ("jobs", "heads", "jobs", "heads", "progress", "links", "graphs")


def damage_redis(
    connection: Connection, tag: str, chance: random.Random, members: dict[str, set[str]]
) -> tuple[str, set[str]]:
    """One field of one record. What was done, and the ids of the jobs it may harm."""
    key = f"{tag}:{chance.choice(HASHES)}"
    if connection.command("TYPE", key) != "hash":
        return "nothing", set()
    fields = sorted(connection.command("HKEYS", key))
    field = chance.choice(fields)
    old = str(connection.command("HGET", key, field)).encode("utf-8", "surrogateescape")
    mine = members.get(field, {field})
    if chance.random() < 0.1:
        connection.command("HDEL", key, field)
        return f"{key} {field} deleted", mine
    new = broken(old, chance)
    connection.command("HSET", key, field, new)
    return f"{key} {field} = {new!r}", mine
