"""The cost of a job must not depend on the backlog: no statement of a procedure may read all jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw
import pytest

from windlass.store.machine.flow import book, candidates, gates, lanes, turns, uniques
from windlass.store.machine.items import logs
from windlass.store.machine.jobs import intake, moves, replacing, room
from windlass.store.machine.jobs import records as jobs
from windlass.store.sqlite import exchange, settle, watches, workers
from windlass.store.sqlite.connection import read_sql
from windlass.store.sqlite.sql import (
    audits,
    inherited,
    items,
    lookups,
    nodes,
    opening,
    retention,
    staging,
    todos,
)

OF_GRAPHS = (audits, inherited, jobs, lookups, nodes, opening, retention, settle, staging, todos, watches)
OF_GATES = (exchange, gates, intake, items, lanes, logs, moves, replacing, room, turns, uniques, workers)
TABLES = "jobs|j|lines|records|items|i|watches|nodes|graphs|links|l|parts|p|todos|s|t|lanes|keys|uniques|u|h|b"
NO_TABLES = ("VIRTUAL TABLE", "INDEX lanes_void")
"""JSON, and an index of nothing but what is about to go."""
BOUNDED = ("todos-first", "todos-any")
"""They stop after so many rows of a table that they read in its own order."""


def statements() -> Iterator[tuple[str, str]]:
    sql = re.sub(r"--.*", "", read_sql("steps.sql"))
    for name, body in re.findall(r"CREATE TEMP TRIGGER (\w+)_body.*?BEGIN(.*?)\nEND;", sql, re.DOTALL):
        for n, statement in enumerate(part for part in body.split(";\n") if part.strip()):
            yield f"{name}-{n}", re.sub(r"NEW\.(\w+)", r":\1", statement).strip().removesuffix(";")
    for name in ("FROM_READY", "FROM_PLAIN", "FROM_ASIDE", "FIRST_SOLO", "GRANTED"):
        yield name.lower(), getattr(candidates, name)
    for module in OF_GRAPHS + OF_GATES:
        short = module.__name__.rpartition(".")[2]
        for name, value in vars(module).items():
            id, is_meant = f"{short}-{name.lower()}", isinstance(value, str) and not name.startswith("_")
            if is_meant and id not in BOUNDED and re.match(r"\s*(SELECT|UPDATE|INSERT|DELETE) [^{]*$", value):
                yield id, value


@pytest.fixture(scope="module")
def db() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute(read_sql("schema.sql"))
    db.execute(read_sql("steps.sql"))
    return db


@pytest.mark.parametrize("sql", [pytest.param(sql, id=name) for name, sql in statements()])
def test_no_step_reads_all_jobs(db: apsw.Connection, sql: str) -> None:
    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", _values(sql))]
    plan = [line for line in plan if not any(what in line for what in NO_TABLES)]
    # A range that was cut out of a table before is named like the table; it is bounded.
    ranges = {line.split()[1] for line in plan if line.startswith("CO-ROUTINE")}
    scans = [line for line in plan if re.match(rf"SCAN ({TABLES}|v|g)\b", line) and line.split()[1] not in ranges]
    assert not scans, plan


def test_the_statements_of_graphs_are_among_them() -> None:
    names = {name for name, _ in statements()}
    assert {
        "nodes-by_id",
        "weave-2",
        "lookups-bequests",
        "audits-next",
        "retention-oldest",
        "file-1",
        "lanes-look",
        "turns-heads",
        "turns-keys",
        "relane-0",
        "exchange-view",
    } <= names


def test_what_runs_is_found_by_what_runs(db: apsw.Connection) -> None:
    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {book.RUNNING}")]
    assert plan[0] == "SCAN jobs USING INDEX jobs_running"


def _values(sql: str) -> object:
    names = re.findall(r":(\w+)", sql)
    if names:
        return dict.fromkeys(names, 1)
    numbered = set(re.findall(r"\?\d+", sql))
    return [1] * (len(numbered) or sql.count("?"))
