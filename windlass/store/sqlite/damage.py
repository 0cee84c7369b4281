"""Which rows of the file can be read, and what is put in place of what cannot: for each table, as SQL.

A row is sound when each of its values has the type of its column and says something its readers understand. Nobody
asks while all goes well: see ``mending``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import apsw
import msgspec

from windlass.core.event import Group
from windlass.core.keep import read_bucket
from windlass.core.limits import Limits
from windlass.core.links import In, Out
from windlass.core.terms import Terms
from windlass.store.jobs import Presence
from windlass.store.machine.codes import to_bytes
from windlass.store.machine.graphs.opening import UnopenedJob

UNREADABLE = (ValueError, TypeError, msgspec.MsgspecError)


def _json(type: Any) -> Callable[[str], object]:
    return msgspec.json.Decoder(type).decode


READERS: dict[str, Callable[[str], object]] = {
    "text": len, "bytes": to_bytes, "bucket": read_bucket, "terms": _json(Terms), "ins": _json(list[In]),
    "outs": _json(list[Out]), "body": _json(UnopenedJob), "presence": _json(Presence), "groups": _json(list[Group]),
    "limits": _json(Limits), "ids": _json(list[str]),
}  # fmt: skip


def readable(*asked: Any) -> bool:
    """Whether bytes are text, and its reader (the first argument) understands it. The SQL below knows this function."""
    how, value = asked
    try:
        READERS[how]((value or b"").decode())
    except UNREADABLE:
        return False
    return True


def teach(db: apsw.Connection) -> None:
    """Let the SQL below ask."""
    db.create_scalar_function("readable", readable, 2, deterministic=True)


INSTANT = "{0} BETWEEN 0 AND 253402300799999"
"""Those that a calendar has."""

LARGEST = 1 << 62
"""What is larger cannot be added to."""

FLAG = "{0} IN (0, 1)"
STATE = "{0} BETWEEN 0 AND 7"


class Table(NamedTuple):
    """``reads``: what reads a text, if not people. ``checks``: what else is to be true of a column. ``instead``: what
    damaged columns hold from then on, if not the default of their type; without any, the row goes."""

    reads: Mapping[str, str] = {}
    checks: Mapping[str, str] = {}
    instead: Mapping[str, str] | None = None


TABLES: dict[str, Table] = {
    "jobs": Table(
        {
            "terms": "terms", "keep_done": "bucket", "keep_failed": "bucket", "progress": "bytes", "payload": "bytes",
            "meta": "bytes", "result": "bytes", "error": "bytes",
        },
        {
            "state": STATE, "hold": "{0} BETWEEN 0 AND 3", "priority": "{0} BETWEEN 0 AND 9",
            "expire_to": "{0} IN (5, 6)", "cancel": "{0} BETWEEN 0 AND 2", "watched": FLAG,
            "max_crashes": "{0} > 0", "version": "{0} > 0",
            "run": "{0} > 0", "place": "{0} >= 0",
            **dict.fromkeys(("enqueued_at", "due_at", "expires_at", "started_at", "finished_at", "aside_at"), INSTANT),
        },
        {
            "state": "2", "run": "1", "priority": "5", "version": "1", "max_crashes": "3", "expire_to": "6",
            "task": "'windlass.corrupt'", "payload": "'null'", "meta": "'{}'",
            "id": "coalesce((SELECT v.id FROM nodes AS v WHERE v.n = jobs.node AND typeof(v.id) = 'text'), "
            "'damaged-' || jobs.n)",
        },
    ),
    "nodes": Table(
        {"result": "bytes", "error": "bytes"},
        {
            "shape": "{0} BETWEEN 0 AND 2", "state": STATE, "aftermath": FLAG, "replaced": FLAG, "watched": FLAG,
            "inject": "{0} BETWEEN 0 AND 4", "edges": "NOT {0} GLOB '*[^012]*'", "finished_at": INSTANT,
        },
        {
            "id": "coalesce((SELECT j.id FROM jobs AS j WHERE j.node = nodes.n), 'damaged-' || nodes.n)",
            "graph": "coalesce((SELECT g.n FROM graphs AS g WHERE g.n < nodes.n AND nodes.n <= g.n + g.nodes "
            "ORDER BY g.n DESC LIMIT 1), 0)",
            "shape": "NOT EXISTS (SELECT 1 FROM jobs AS j WHERE j.node = nodes.n) "
            "AND NOT EXISTS (SELECT 1 FROM parts AS p WHERE p.n = nodes.n)",
            "run": "1",
        },
    ),
    "links": Table({"ins": "ins", "outs": "outs"}, {}, {"ins": "'[]'", "outs": "'[]'"}),
    "parts": Table({"body": "body"}),
    "graphs": Table(
        {"meta": "bytes"},
        {"state": "{0} BETWEEN -2 AND 7", "fail_fast": FLAG, "created_at": INSTANT, "finished_at": INSTANT,
         "nodes": "{0} > 0", "id": "({0} IS NOT NULL OR state = -2)"},
        {
            "state": "coalesce((SELECT v.state FROM nodes AS v WHERE v.id = graphs.id), 0)",
            "nodes": "(SELECT count(*) FROM nodes AS v WHERE v.graph = graphs.n)",
            "opened": "nodes", "size": "nodes", "staged": "nodes", "id": "'damaged-' || graphs.n", "meta": "'{}'",
        },
    ),
    "workers": Table(
        {"refused": "ids"}, {"idle": FLAG, "dead": FLAG, "lease": "{0} > 0"},
        {
            "id": "'damaged-' || workers.n", "lease": "15000", "refused": "'[]'",
            "lease_until": "(SELECT last + 15000 FROM clock)", "beat_at": "(SELECT last FROM clock)",
        },
    ),
    "presences": Table({"body": "presence"}),
    "events": Table({"groups": "groups"}, {}, {"groups": "'[]'", "kinds": "','"}),
    "lines": Table({}, {"at": INSTANT}, {"level": "'error'", "text": "'(this line is damaged)'"}),
    "gates": Table({"declared": "limits", "tuned": "limits"}, {}, {"declared": "'{}'", "tuned": "'{}'", "note": "x''"}),
    "buckets": Table(
        {"name": "bucket"}, {
            "most": "{0} IN (-1, CAST(buckets.name AS INTEGER))",
            "age": "{0} IN (-1, CAST(substr(buckets.name, instr(buckets.name, '|') + 1) AS INTEGER))",
        },
        {
            "name": "'-1|-1|damaged-' || buckets.n", "most": "-1", "age": "-1",
            "size": "(SELECT count(*) FROM jobs WHERE bucket = buckets.n AND bucket > 0)",
        },
    ),
    "lanes": Table(
        {},
        {
            "state": "{0} BETWEEN 0 AND 4 AND ({0} <> 1 OR lanes.gate IS NOT NULL) AND ({0} <> 2 OR lanes.holder > 0) "
            "AND ({0} <> 3 OR substr(lanes.name, 1, 1) = 's') AND ({0} <> 4 OR lanes.head = 0)",
            "holder": "({0} = 0 OR lanes.state = 2 OR EXISTS (SELECT 1 FROM jobs WHERE jobs.n = lanes.holder))",
        },
    ),
    "counts": Table(
        {},
        {
            "many": "{0} BETWEEN -(1 << 53) AND (1 << 53)",
            "what": "iif(counts.task = '', typeof({0}) = 'integer' AND {0} BETWEEN 0 AND 7, typeof({0}) = 'text' AND "
            "readable('text', CAST({0} AS BLOB)))",
        },
    ),
    "logs": Table(
        {}, {},
        {
            "name": "'damaged-' || logs.n",
            "last": "coalesce((SELECT max(place) FROM records WHERE place >> 44 = logs.n) - (logs.n << 44), 0)",
            "many": "(SELECT count(*) FROM records WHERE place >> 44 = logs.n)",
            "size": "(SELECT coalesce(sum(length(body)), 0) FROM records WHERE place >> 44 = logs.n)",
        },
    ),
    # Who follows a log must get past it, so it is there and says nothing.
    "records": Table({}, {"at": INSTANT}, {"log": "records.place >> 44", "n": "-records.place"}),
    **{
        name: Table()
        for name in ("turns", "keys", "uniques", "items", "followers", "todos", "undeclared",
                     "mailboxes", "watches")
    },
}  # fmt: skip
"""Those that others lean on come first."""

DEFAULTS = {"INTEGER": "0", "TEXT": "''", "BLOB": "x''"}


class Checked(NamedTuple):
    """A table as SQL: what is true of a sound row, its contents as JSON, and how damaged columns are replaced."""

    sound: str
    record: str
    replace: str


def columns(db: apsw.Connection, table: str) -> list[tuple[str, str, bool, str | None]]:
    """Name, type, whether it may be NULL, and default of each column."""
    rows = db.execute('SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)', (table,))
    return [(name, type, not (strict or key), default) for name, type, strict, default, key in rows]


def checked(db: apsw.Connection, table: str) -> Checked:
    return _checked(table, tuple(columns(db, table)))


@cache
def _checked(table: str, found: tuple[tuple[str, str, bool, str | None], ...]) -> Checked:
    spec = TABLES[table]
    sound = {name: _sound(spec, f"{table}.{name}", name, type, may_be_null) for name, type, may_be_null, _ in found}
    parts = [f"'{name}', {_literal(f'{table}.{name}')}" for name, *_ in found]
    record = f"json_object({', '.join(parts)})"
    values = []
    for name, type, may_be_null, default in found:
        other = (spec.instead or {}).get(name) or default or ("NULL" if may_be_null else DEFAULTS.get(type, "0"))
        values.append(f"{name} = iif({sound[name]}, {table}.{name}, {other})")
    return Checked(
        " AND ".join(f"({one})" for one in sound.values()), record, f"UPDATE OR REPLACE {table} SET {', '.join(values)}"
    )


def _sound(spec: Table, column: str, name: str, type: str, may_be_null: bool) -> str:
    checks = []
    if type:
        checks.append(f"typeof({column}) = '{type.lower()}'")
    if type == "INTEGER":
        checks.append(f"{column} BETWEEN -{LARGEST} AND {LARGEST}")
    if type == "TEXT":
        checks.append(f"readable('{spec.reads.get(name, 'text')}', CAST({column} AS BLOB))")
    if name in spec.checks:
        checks.append(f"({spec.checks[name].format(column)})")
    rule = " AND ".join(checks) or "true"
    return f"coalesce({f'{column} IS NULL OR ({rule})' if may_be_null else rule}, 0)"


def _literal(column: str) -> str:
    """A value as SQL writes it, exactly; bytes that are no text as hexadecimal digits."""
    return (
        f"CASE WHEN typeof({column}) = 'text' AND NOT readable('text', CAST({column} AS BLOB)) "
        f"THEN 'CAST(' || quote(CAST({column} AS BLOB)) || ' AS TEXT)' ELSE quote({column}) END"
    )
