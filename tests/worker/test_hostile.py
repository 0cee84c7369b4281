"""One job never harms another: whatever ends a job, it ends, it can be read, and its neighbours ran once.

``HOSTILE_CASES`` is how many jobs each place and engine gets; `make faults` gives them 10,000.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers.redis import RedisServer, fresh_prefix
from tests.worker.helpers import eventually
from tests.worker.hostile import PLACES, Spec, specs
from windlass import State
from windlass.core.failure import MAX_MESSAGE, MAX_TRACEBACK
from windlass.core.job import NewJob
from windlass.core.safe import MAX_REASON
from windlass.handles.handle import JobInfo
from windlass.store import make_store
from windlass.worker.service import Worker

TOGETHER = 20
CASES = 60


class Site:
    """An app on one engine with a worker that serves for a whole test."""

    def __init__(self, url: str, place: str) -> None:
        self.place = PLACES[place]
        app = self.app = self.place.app
        self.loop = asyncio.Runner()
        app.connections.store_factory = lambda: make_store(url, app.settings.for_store(app.name))
        self._around = app.worker(concurrency=8, children=2)
        self.worker: Worker = self.loop.run(self._around.__aenter__())
        self.id = self.worker.id

    def close(self) -> None:
        self.loop.run(self._around.__aexit__(None, None, None))
        self.loop.run(self.app.close())
        self.app.connections.store_factory = None
        self.loop.close()

    async def survive(self, cases: list[Spec]) -> None:
        """Run the cases with a neighbour each, and look at what became of all of them."""
        store = (await self.app.client()).store
        # In pairs, which share their inserts, claims and settles.
        sent = await asyncio.gather(
            *(call for n, spec in enumerate(cases) for call in (self.send(spec), self.send_fine(n)))
        )
        hostile, fine = sent[::2], [id for (id,) in sent[1::2]]
        ids = [*fine, *(id for one in hostile for id in one)]

        async def all_over() -> bool:
            return all(job is not None and job.state.terminal for job in await store.get(ids))

        try:
            await eventually(all_over, 60, 0.005)
        except AssertionError:
            left = {id: await self.app.job(id).info() for id in ids}
            said = {id: spec for spec, one in zip(cases, hostile, strict=True) for id in one}
            raise AssertionError(
                [(job, said.get(id)) for id, job in left.items() if job is None or not job.state.terminal]
            ) from None
        for n, (spec, one) in enumerate(zip(cases, hostile, strict=True)):
            for id in one:
                handle = self.app.job(id)
                self.check_hostile(await handle.info(), spec, await handle.logs())
            self.check_fine(await self.app.job(fine[n]).info(), n, spec)
        assert len(await self.app.jobs(limit=1000)) >= len(cases)
        await self.app.dead.list()
        assert (self.worker.id, self.worker.exit_code, self.worker.stop_requested.is_set()) == (self.id, 0, False)
        await eventually(lambda: not self.worker.executor.held, 20, 0.005)
        assert self.worker.executor.active == 0

    async def send_fine(self, n: int) -> list[str]:
        return [(await self.place.fine(n).enqueue()).id]

    async def send(self, spec: Spec) -> list[str]:
        """The ids of the jobs that are made of a case."""
        work = self.place.hostile(spec)
        client = await self.app.client()
        if self.place.version:
            payload = msgspec.json.encode({"spec": spec})
            job = NewJob(
                id=secrets.token_hex(10),
                task=work.task.name,
                version=self.place.version,
                queue="default",
                payload=payload,
            )
            await client.store.insert([job])
            return [job.id]
        sent = await work.enqueue()
        members = await client.store.members(sent.id)
        return [sent.id, *(job.id for job in members if job.id != sent.id)]

    @staticmethod
    def check_fine(job: JobInfo | None, n: int, spec: Spec) -> None:
        assert job is not None
        assert (job.state, job.result, job.attempts, job.crashes, job.run) == (State.SUCCEEDED, n, 0, 0, 1), (job, spec)

    @staticmethod
    def check_hostile(job: JobInfo | None, spec: Spec, logs: list[Any]) -> None:
        assert job is not None
        assert job.state in (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED), job
        assert job.crashes == 0, (job, spec)
        texts = [job.reason, *(line.text for line in logs), *(line.level for line in logs)]
        if job.error is not None:
            assert len(job.error.message) <= MAX_MESSAGE + 4
            assert len(job.error.traceback) <= MAX_TRACEBACK + 4
            texts += [job.error.type, job.error.message, job.error.traceback, job.error.fingerprint]
        if job.progress is not None:
            texts.append(job.progress.message)
        "".join(texts).encode()  # or it could not be shown
        assert len(job.reason) <= MAX_REASON
        if job.state is State.FAILED and job.task:
            assert job.error is not None


@pytest.fixture(params=["memory", "sqlite", "redis"])
def site(request: pytest.FixtureRequest, tmp_path: Path, place: str) -> Iterator[Site]:
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis7")
        url = f"{server.url}?prefix={fresh_prefix()}"
    else:
        url = f"memory://{tmp_path.name}"
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    made = Site(url, place)
    yield made
    made.close()


def survive(site: Site, cases: int) -> None:
    @settings(
        max_examples=max(1, cases // TOGETHER), deadline=None, database=None, derandomize=cases == CASES,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )  # fmt: skip
    @given(st.lists(specs, min_size=TOGETHER, max_size=TOGETHER))
    def run(drawn: list[Spec]) -> None:
        site.loop.run(site.survive(drawn))

    run()


@pytest.mark.parametrize("place", list(PLACES))
def test_no_outcome_harms_another_job(site: Site) -> None:
    survive(site, CASES)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("place", list(PLACES))
def test_no_outcome_of_many_harms_another_job(site: Site) -> None:
    survive(site, int(os.environ.get("HOSTILE_CASES", "10000")))
