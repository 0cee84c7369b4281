"""Graphs in SQLite: all or nothing, what they leave behind, and what they cost those who have none."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.unit.store.sqlite.kit import opened, statements
from windlass.core.job import State
from windlass.core.keep import Keep
from windlass.core.lifecycle import Adopted
from windlass.core.links import Inject, Shape
from windlass.errors import StoreError
from windlass.store.jobs import Action
from windlass.store.machine.graphs import spreading, todos
from windlass.testing.conformance.bench import Bench, move, value
from windlass.testing.conformance.graph_drafts import (
    After,
    DraftNode,
    GraphDraft,
    chain,
    chord,
    failure,
    fan_out,
    group,
)
from windlass.testing.conformance.graph_stop import aftermath
from windlass.testing.conformance.outcomes import DEAD, DONE

OF_GRAPHS = ("graphs", "nodes", "links", "parts", "todos", "watches")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(tmp_path) as bench:
        yield bench


def rows(path: Path, sql: str) -> list[Any]:
    db = apsw.Connection(f"{path}/jobs.db")
    try:
        return list(db.execute(sql))
    finally:
        db.close()


def left_in(path: Path) -> dict[str, int]:
    counts = {table: rows(path, f"SELECT count(*) FROM {table}")[0][0] for table in (*OF_GRAPHS, "jobs")}
    return {table: count for table, count in counts.items() if count}


# -- all or nothing


@pytest.mark.parametrize("broken", ["spread", "decide"])
async def test_a_settle_and_what_it_means_are_one_write(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Dying anywhere between the settle and the release of what is behind it undoes both."""
    await bench.submit(chain("a", "b"))
    worker = await bench.worker()
    claim = await worker.take("a")

    def dies(*args: Any) -> int:
        raise apsw.IOError("the process died here")

    with monkeypatch.context() as patch:
        patch.setattr(spreading, broken, dies)
        with pytest.raises(StoreError):
            await worker.exchange([move(claim, DONE)])
    assert await bench.states("a", "b", "g") == ["running", "waiting", "waiting"]
    assert (await bench.graph()).counts == {}
    await worker.settle(claim, DONE)
    assert await bench.states("a", "b") == ["succeeded", "ready"]


async def test_a_graph_comes_in_whole_or_not_at_all(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*args: Any) -> None:
        raise apsw.IOError("the process died here")

    with monkeypatch.context() as patch:
        patch.setattr(todos.Step, "_keep", dies)
        with pytest.raises(StoreError):
            await bench.submit(chord("a", "b"))
    assert left_in(tmp_path) == {}
    await bench.submit(chord("a", "b"))
    assert (await bench.graph()).state is State.WAITING


async def test_todos_survive_whoever_put_them_up(tmp_path: Path) -> None:
    async with opened(tmp_path) as bench:
        plan = fan_out(1_200)
        assert (await bench.submit(plan)).more
    assert rows(tmp_path, "SELECT count(*) FROM todos") == [(1,)]
    async with opened(tmp_path) as bench:
        worker = await bench.worker()
        assert len(await bench.play(worker, total=200)) == 1_201
        assert (await bench.graph()).state is State.SUCCEEDED


async def test_many_ends_that_nothing_leads_to_again_do_not_wait_for_each_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(todos, "WORK", 4)
    ids = [f"g{n}" for n in range(12)]
    for id in ids:
        await bench.submit(GraphDraft(id).job(f"{id}.a").end(failure(f"{id}.a")))
    worker = await bench.worker()
    await bench.play(worker)
    assert await bench.states(*ids) == ["failed"] * 12
    assert (await bench.change(Action.RETRY, *ids)).changed == ids
    await bench.drain()
    assert await bench.states(*ids) == ["failed"] * 12


# -- what is left behind


def chord_behind(plan: GraphDraft) -> GraphDraft:
    """A callback that is a chord: it has a join of its own."""
    for id in ("c1", "c2"):
        plan.job(id, failure(plan.id, Inject.NONE), aftermath=True)
    plan._add(DraftNode("cj", (After("c1"), After("c2")), Shape.MANY, 0, True, {}))
    return plan.job("c3", "cj", aftermath=True)


Fate = dict[str, Any]
PLANS: dict[str, tuple[Callable[[], GraphDraft], Fate]] = {
    "a chain": (lambda: chain("a", "b", "c"), {}),
    "a chord": (lambda: chord(*(f"m{n}" for n in range(30))), {}),
    "a failed chord": (lambda: chord("a", "b", "c"), {"b": DEAD}),
    "callbacks": (lambda: aftermath(chain("a", "b")), {}),
    "callbacks of a failure": (lambda: aftermath(chain("a", "b")), {"a": DEAD}),
    "a chord as a callback": (lambda: chord_behind(chain("a")), {"a": DEAD}),
    "a wide fan": (lambda: fan_out(700), {}),
}


@pytest.mark.parametrize("name", PLANS)
async def test_nothing_is_left_of_a_workflow_that_is_not_kept(tmp_path: Path, name: str) -> None:
    make, fate = PLANS[name]
    async with opened(tmp_path, keep=Keep(count=0)) as bench:
        await bench.submit(make())
        client, worker = await bench.client(), await bench.worker()
        await bench.store.watch(client.name, ["g"])
        await bench.play(worker, fate, total=200)
        await bench.drain()
        assert left_in(tmp_path) == {}
        assert rows(tmp_path, "SELECT sum(size) FROM buckets") == [(0,)]
        assert rows(tmp_path, "SELECT sum(many) FROM counts WHERE task = ''") == [(0,)]


async def test_callbacks_run_though_their_workflow_is_not_kept(tmp_path: Path) -> None:
    async with opened(tmp_path, keep=Keep(count=0)) as bench:
        await bench.submit(chord_behind(chain("a")))
        worker = await bench.worker()
        assert await bench.play(worker, {"a": DEAD}) == ["a", "c1", "c2", "c3"]


@pytest.mark.parametrize("keep", [0, 100])
async def test_what_was_awaited_goes_with_whoever_awaited_it(tmp_path: Path, keep: int) -> None:
    async with opened(tmp_path, keep=Keep(count=keep)) as bench:
        await bench.add("p")
        worker = await bench.worker()
        await bench.stage(group("x", "y", id="inner", parent="p"))
        await worker.settle(await worker.take("p"), Adopted("inner", replaced=True))
        await bench.play(worker)
        await bench.drain()
        if keep:
            assert await bench.states("p", "inner") == ["succeeded", "succeeded"]
            await bench.change(Action.DELETE, "p")
            await bench.drain()
        assert left_in(tmp_path) == {}


async def test_a_deleted_workflow_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    await bench.submit(aftermath(chord("a", "b")))
    worker = await bench.worker()
    await bench.play(worker, {"a": DEAD})
    assert (await bench.change(Action.DELETE, "g")).changed == ["g"]
    await bench.drain()
    assert left_in(tmp_path) == {}
    assert rows(tmp_path, "SELECT sum(size) FROM buckets") == [(0,)]


async def test_a_bucket_weighs_what_is_in_it(tmp_path: Path) -> None:
    async with opened(tmp_path, keep=Keep(count=9)) as bench:
        worker = await bench.worker()
        for n in range(4):
            await bench.submit(chain(f"a{n}", f"b{n}", id=f"g{n}"))
            await bench.play(worker, {f"a{n}": DEAD} if n == 3 else {})
        await bench.change(Action.RETRY, "g3")
        await bench.play(worker)
        await bench.drain()
        found = "SELECT sum(g.nodes), b.size FROM graphs AS g JOIN buckets AS b ON b.n = g.bucket GROUP BY b.n"
        assert rows(tmp_path, found) == [(9, 9)]
        assert [info.id for info in (await bench.store.graphs()).graphs] == ["g3", "g2", "g1"]


# -- what it costs


def about_graphs(sql: str) -> bool:
    return re.search(r"\b(graphs|nodes|links|parts|todos)\b", sql) is not None and "FROM clock" not in sql


async def test_a_job_of_its_own_costs_no_statement_about_graphs(bench: Bench) -> None:
    worker = await bench.worker()
    with statements(bench) as alone:
        await bench.add("j1", "j2")
        claims = await worker.claim()
        await worker.exchange([move(claim, DONE) for claim in claims])
    assert not [sql for sql in alone if about_graphs(sql)]
    await bench.submit(GraphDraft().job("later", delay=60_000).end("later"))
    with statements(bench) as beside:
        await bench.add("j3", "j4")
        claims = await worker.claim()
        await worker.exchange([move(claim, DONE) for claim in claims])
    assert len([sql for sql in beside if about_graphs(sql)]) == 1, "an id may be that of a node"


@pytest.mark.parametrize("width", [10, 200])
async def test_a_step_costs_the_same_few_statements_however_many_end_in_it(bench: Bench, width: int) -> None:
    await bench.submit(chord(*(f"m{n}" for n in range(width))))
    worker = await bench.worker()
    claims = await worker.claim(width)
    assert len(claims) == width
    with statements(bench) as seen:
        await worker.exchange([move(claim, value(claim.id)) for claim in claims], want=1)
    assert "body" in worker.held
    assert len(seen) < 35, seen


async def test_chains_that_go_on_side_by_side_share_their_statements(bench: Bench) -> None:
    for n in range(50):
        await bench.submit(chain(f"a{n}", f"b{n}", id=f"g{n}"))
    worker = await bench.worker()
    for last in ("a", "b"):
        claims = await worker.claim(50)
        assert {claim.id[0] for claim in claims} == {last}
        with statements(bench) as seen:
            await worker.exchange([move(claim, value(claim.id)) for claim in claims], want=0)
        ends = 50 if last == "b" else 0  # each end asks for its value, and is filed
        assert len(seen) < 35 + 10 * ends, seen


async def test_a_join_with_many_edges_is_written_in_small(bench: Bench, tmp_path: Path) -> None:
    """Its row is written for every job before it: the edges must not be in it."""
    plan = GraphDraft()
    ids = [f"member-with-a-long-id-{n:03}" for n in range(250)]
    for id in ids:
        plan.job(id)
    await bench.submit(plan.end(*ids, shape=Shape.MANY))
    columns = [row[1] for row in rows(tmp_path, "PRAGMA table_info(nodes)")]
    size = " + ".join(f"coalesce(octet_length({column}), 0)" for column in columns)
    assert rows(tmp_path, f"SELECT {size} FROM nodes WHERE id = 'g'")[0][0] < 100
