"""A damaged record harms its own job alone: all others run once, every way to look works, and nothing is stuck.

``DAMAGED_CASES`` is how many records each engine gets damaged; `make faults` gives them 2,000.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers.redis import RedisServer, fresh_prefix
from tests.thorough import played
from tests.worker import damaged
from tests.worker.damaged import app, calls, ran, works
from tests.worker.helpers import eventually
from windlass import State
from windlass.console.console import Console
from windlass.core.job import Job
from windlass.store import make_store
from windlass.store.base import Store
from windlass.store.jobs import Query
from windlass.worker.service import Worker

CASES = played(24, 60)


class Site:
    """An app on one engine, whose worker serves for a whole test."""

    def __init__(self, url: str, path: Path, server: RedisServer | None, prefix: str) -> None:
        self.loop, self.path, self.server, self.tag = asyncio.Runner(), path, server, f"{{{prefix}}}"

        def factory() -> Store:
            given = msgspec.structs.replace(app.settings.for_store(app.name), audit_every=300)
            return make_store(url, given)

        app.connections.store_factory = factory
        self._around = app.worker(concurrency=20)
        self.worker: Worker = self.loop.run(self._around.__aenter__())
        self.id = self.worker.id
        self.said: list[str] = []
        """All the damage so far: a wrong number may show its effect later."""

    def close(self) -> None:
        self.loop.run(self._around.__aexit__(None, None, None))
        self.loop.run(app.close())
        app.connections.store_factory = None
        self.loop.close()

    async def send(self, n: int) -> tuple[list[str], dict[str, set[str]]]:
        """Jobs of every kind. All their ids, and by id those of the same workflow."""
        ids = [handle.id for handle in await app.enqueue_many(calls(n))]
        groups: dict[str, set[str]] = {}
        store = (await app.client()).store
        for work in works(n):
            flow = await work.enqueue()
            members = {job.id for job in await store.members(flow.id)}
            groups.update(dict.fromkeys(members, members))
            ids += sorted(members)
        return ids, groups

    async def survive(self, seed: int, ended_first: bool) -> None:
        """Damage one record of jobs that wait, or of some that have ended, and see what becomes of all."""
        chance = random.Random(seed)
        store = (await app.client()).store
        self.worker.pump.quiet = not ended_first
        ids, groups = await self.send(seed % 1000 * 10)
        if ended_first:
            await self.all_over(store, ids, set(), "before any damage")
            self.worker.pump.quiet = True
            more, others = await self.send(seed % 1000 * 10 + 5)
            ids, groups = ids + more, groups | others
        said, harmed = self.damage(chance, groups)
        self.said.append(said)
        self.worker.pump.quiet = False
        self.worker.pump.poke()
        await self.all_over(store, ids, harmed, said)
        await self.check(store, ids, harmed, said)

    def damage(self, chance: random.Random, groups: dict[str, set[str]]) -> tuple[str, set[str]]:
        if self.server is None:
            return damaged.damage_sqlite(self.path, chance)
        with self.server.connect() as connection:
            return damaged.damage_redis(connection, self.tag, chance, groups)

    async def all_over(self, store: Store, ids: list[str], harmed: set[str], said: str) -> None:
        left: list[Job | None] = []

        async def over() -> bool:
            left[:] = [job for job in await store.get(ids) if job is not None and not job.state.terminal]
            # What is readable and says something else, as another queue or a far time, is no damage anybody can see.
            left[:] = [job for job in left if job and not (job.id in harmed and elsewhere(job))]
            return not left

        try:
            await eventually(over, 20, 0.01)
        except AssertionError:
            raise AssertionError(f"{said}: stuck {left}") from None

    async def check(self, store: Store, ids: list[str], harmed: set[str], said: str) -> None:
        jobs = dict(zip(ids, await store.get(ids), strict=True))
        for id, job in jobs.items():
            if id in harmed:
                continue
            assert job is not None, f"{ids.index(id)}, {id} is lost after {'; '.join(self.said[-20:])}"
            assert job.state is (State.FAILED if job.task.endswith("failing") else State.SUCCEEDED), (said, job)
            assert ran[id] == (1 if job.task else 0), (said, ran[id], job)
        for id in harmed & set(ids):
            assert ran[id] <= 1 or (said.startswith("jobs") or self.server), (said, id, ran[id])
        await self.look(said, ids)
        assert (self.worker.id, self.worker.exit_code, self.worker.stop_requested.is_set()) == (self.id, 0, False), said
        await eventually(lambda: not self.worker.executor.held, 20, 0.01)

    async def look(self, said: str, ids: list[str]) -> None:
        """Every way to look works."""
        store, console = (await app.client()).store, Console(app)
        for state in State:
            await store.find(Query(limit=100, states=(state,)))
        for call in (store.queues, store.faults, store.totals, store.info, store.gates, store.graphs, store.workers):
            await call()
        await store.events(0, 1000)
        await app.jobs(limit=200)
        await app.dead.list()
        for flow in (await app.workflows()).workflows[:5]:
            await app.workflow(flow.id).tree()
        for id in ids:
            await app.job(id).info()
            await store.lines(id)
        await console.jobs()
        await console.overview()
        await console.faults()
        await console.workflows()
        for id in ids[:3]:
            await console.job(id)


def elsewhere(job: Job) -> bool:
    return job.queue != "default" or not job.task.startswith("tests.worker.damaged") or job.due_at > 0


@pytest.fixture(params=["sqlite", "redis"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    server: RedisServer | None = None
    prefix = fresh_prefix()
    path = tmp_path / "jobs.db"
    url = f"sqlite:///{path}?durability=normal"
    if request.param == "redis":
        server = request.getfixturevalue("redis7")
        url = f"{server.url}?prefix={prefix}"
    made = Site(url, path, server, prefix)
    yield made
    made.close()


def survive(site: Site, cases: int) -> None:
    @settings(
        max_examples=cases, deadline=None, database=None, derandomize=cases == CASES,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )  # fmt: skip
    @given(st.integers(0, 1 << 30), st.booleans())
    def run(seed: int, ended_first: bool) -> None:
        site.loop.run(site.survive(seed, ended_first))

    run()


def test_a_damaged_record_harms_its_job_alone(site: Site) -> None:
    survive(site, CASES)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_none_of_many_damaged_records_harms_another_job(site: Site) -> None:
    survive(site, int(os.environ.get("DAMAGED_CASES", "2000")))
