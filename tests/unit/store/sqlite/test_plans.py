"""The cost of a job must not depend on the backlog: no statement of a procedure may read all jobs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from itertools import product
from types import ModuleType

import apsw
import pytest

from windlass.store.sqlite import sql as folder
from windlass.store.sqlite.connection import read_sql
from windlass.store.sqlite.sql import book, news, walks

MODULES = [
    importlib.import_module(f"{folder.__name__}.{found.name}") for found in pkgutil.iter_modules(folder.__path__)
]
PARTS = [], ["of worker"], ["of task"], ["of fingerprint"], ["ready in"]
WHOLES = ["scheduled", "ready", "running"], ["failed", "cancelled", "skipped"]
VARIANTS: dict[Callable[..., str], list[tuple[object, ...]]] = {
    news.newest: [(0,), (1,), (2,)],
    news.behind: [(0,), (1,), (2,)],
    walks.look: list(product(PARTS + WHOLES, ([], ["queue", "task"]), ([], [2, 3]), (True, False))),
}
"""Statements that are put together: each function of the modules, with what it is asked."""

SCANS = {
    "todos-first": "the first rows of a table, in its own order",
    "todos-any": "whether a table has any row",
    "asides-all": "the first entry of an index, from where it jumps on",
    "book-running": "all running jobs, by their index: their units are counted",
    "tx-begin": "whether a table has any row",
    "summaries-faults": "all dead letters, in nothing but their index: they are counted",
    "summaries-lanes": "all lanes: they are counted",
    **{
        f"walks-look-{n}": "indexes that are no longer than `choose` allows"
        for n, (among, *_) in enumerate(VARIANTS[walks.look])
        if among in WHOLES
    },
}
"""What may begin at an end of a table or of an index, and why."""

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
    for module in MODULES:
        for name, value in vars(module).items():
            if (
                name[0] != "_"
                and isinstance(value, str)
                and re.match(r"\s*(SELECT|UPDATE|INSERT|DELETE|WITH) [^{]*$", value)
            ):
                yield f"{_short(module)}-{name.lower()}", value
        for function in _functions(module):
            for n, asked in enumerate(VARIANTS[function]):
                yield f"{_short(module)}-{function.__name__}-{n}", function(*asked)


def _short(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _functions(module: ModuleType) -> list[Callable[..., str]]:
    """Those that answer statements."""
    found = inspect.getmembers(module, inspect.isfunction)
    return [function for name, function in found if name[0] != "_" and function.__module__ == module.__name__]


@pytest.fixture(scope="module")
def db() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute(read_sql("schema.sql"))
    db.execute(read_sql("steps.sql"))
    return db


@pytest.mark.parametrize("sql", [pytest.param(sql, id=name) for name, sql in statements() if name not in SCANS])
def test_no_step_reads_all_jobs(db: apsw.Connection, sql: str) -> None:
    scans = list(_scans(db, sql))
    assert not scans, scans


@pytest.mark.parametrize("name", SCANS)
def test_what_may_scan_is_a_statement_that_does(db: apsw.Connection, name: str) -> None:
    assert list(_scans(db, dict(statements())[name]))


def _scans(db: apsw.Connection, sql: str) -> Iterator[str]:
    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", _values(sql))]
    plan = [line for line in plan if not any(what in line for what in NO_TABLES)]
    # A range that was cut out of a table before is named like the table; it is bounded.
    ranges = {line.split()[1] for line in plan if line.startswith("CO-ROUTINE")}
    return (line for line in plan if re.match(rf"SCAN ({TABLES}|v|g)\b", line) and line.split()[1] not in ranges)


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
        "candidates-from_queues",
        "turns-keys",
        "turns-lanes",
        "relane-0",
        "views-view",
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
