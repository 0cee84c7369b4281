"""Workflows on real worker processes, which are killed in the middle: nothing hangs, no body runs twice for nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.servers.redis import fresh_prefix
from tests.worker.graphs import Tasks, caller, value_of
from tests.worker.helpers import Fleet, Ledger, eventually, within
from windlass import Windlass, chain, chord, group


@pytest.fixture(params=["sqlite", "redis"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Worker processes of ``tests.worker.graphs:app`` on a store of their own."""
    file = f"sqlite:///{tmp_path}/fleet.db?durability=normal"
    url = file if request.param == "sqlite" else request.getfixturevalue("redis7").url
    env = {"E2E_NAME": fresh_prefix(), "E2E_URL": url, "E2E_LEDGER": str(tmp_path / "ledger")}
    fleet = Fleet("tests.worker.graphs:app", tmp_path, env)
    yield fleet
    fleet.end()


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[Windlass]:
    app = caller(fleet.env["E2E_NAME"], fleet.env["E2E_URL"])
    yield app
    await app.close()


@pytest.fixture
def t(app: Windlass) -> Tasks:
    return Tasks(app)


async def test_every_kind_of_work_on_worker_processes(fleet: Fleet, t: Tasks) -> None:
    fleet.start(children=1, concurrency=10)
    fleet.start(children=1, concurrency=10)
    assert await value_of(chain(t.add.s(1, 2), t.double.s(), t.square.s(), t.in_second.s())) == 136
    assert await value_of(chord([t.replaced_in_child.s(i) for i in range(3)], t.total_in_child.s())) == 12
    assert await value_of(group(t.waits_in_child.s(2), t.waits_in_thread.s(2), t.waits_on_loop.s(0))) == [
        [1, 2, 2], [1, 2, 2], [0],
    ]  # fmt: skip


async def test_a_worker_killed_in_the_middle_of_a_chord(fleet: Fleet, t: Tasks, ledger: Ledger) -> None:
    victim = fleet.start(concurrency=4)
    handle = await chord([t.slow.s(i, 0.1) for i in range(60)], t.total.s()).enqueue()
    await eventually(lambda: len(ledger.lines("slept")) >= 4)
    fleet.start(concurrency=4)
    victim.kill()
    assert await within(handle, 40) == sum(range(60))
    assert len(ledger.lines("total")) == 1
    assert len(ledger.jobs("slept")) == 60


async def test_all_workers_killed_and_new_ones_finish_the_workflow(fleet: Fleet, t: Tasks, ledger: Ledger) -> None:
    victim = fleet.start(concurrency=2)
    work = chain(t.slow.s(1, 0.05), group(t.slow.s(0.2), t.slow.s(0.2)), t.total.s())
    handle = await work.enqueue()
    await eventually(lambda: len(ledger.lines("slow")) >= 2)
    victim.kill()
    victim.wait()
    fleet.start(concurrency=2)
    assert await within(handle, 40) == 2


@pytest.mark.parametrize("task", ["replaced_on_loop", "replaced_in_child"])
async def test_a_worker_that_dies_between_staging_and_settling(fleet: Fleet, t: Tasks, task: str) -> None:
    victim = fleet.start({"WINDLASS_FAILPOINTS": "after_stage:kill"}, children=1, concurrency=2)
    handle = await getattr(t, task).enqueue(20)
    await eventually(lambda: not victim.alive)
    fleet.start(children=1, concurrency=2)
    assert await within(handle, 40) == 42
    info = await handle.info()
    assert info is not None
    assert info.crashes == 1
