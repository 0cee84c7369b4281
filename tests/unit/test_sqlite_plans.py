"""The cost of a job must not depend on the backlog: no statement of a procedure may read all jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw
import pytest

from windlass.store.sqlite import claim, exchange, settle
from windlass.store.sqlite.connection import read_sql


def statements() -> Iterator[tuple[str, str]]:
    sql = re.sub(r"--.*", "", read_sql("steps.sql"))
    for name, body in re.findall(r"CREATE TEMP TRIGGER (\w+)_body.*?BEGIN(.*?)\nEND;", sql, re.DOTALL):
        for n, statement in enumerate(part for part in body.split(";\n") if part.strip()):
            yield f"{name}-{n}", re.sub(r"NEW\.(\w+)", r":\1", statement).strip().removesuffix(";")
    yield "ready", claim.FROM_READY
    yield "aside", claim.FROM_ASIDE
    yield "solo", claim.FIRST_SOLO
    yield "view", exchange.VIEW
    yield "settled", settle.SETTLED


@pytest.fixture(scope="module")
def db() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute(read_sql("schema.sql"))
    db.execute(read_sql("steps.sql"))
    return db


@pytest.mark.parametrize("sql", [pytest.param(sql, id=name) for name, sql in statements()])
def test_no_step_reads_all_jobs(db: apsw.Connection, sql: str) -> None:
    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", _values(sql))]
    scans = [line for line in plan if re.match(r"SCAN (jobs|j|logs|watches)\b", line)]
    assert not scans, plan


def _values(sql: str) -> object:
    names = re.findall(r":(\w+)", sql)
    return dict.fromkeys(names, 1) if names else [1] * len(set(re.findall(r"\?\d*", sql)))
