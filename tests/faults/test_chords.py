"""Chords whose members fail, whose workers are killed and whose replies are lost: none hangs, no body runs in vain.

Every body is settled exactly once: it succeeded with the values of all its members in their order, or it was skipped
and its reason names a member that failed. On Redis the workers' replies are lost as well, so that the same exchange
arrives again; everything else is as in `test_kill.py`.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.faults.checker import check, records
from tests.faults.jobs import body, member
from tests.faults.load import nothing_left
from tests.faults.test_kill import OPTIONS, kill_now_and_then
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer
from tests.worker.helpers import Fleet, Ledger, eventually
from windlass import State, Windlass, Workflow, chord
from windlass.core.job import Job

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="kills need POSIX"),
    pytest.mark.parametrize("engine", ["sqlite", "redis7"], indirect=True),
]

MEMBERS = 50
BAD = 0.3
"""So many of the chords have one member or two that fail."""


@pytest.fixture
def proxy(engine: str, request: pytest.FixtureRequest) -> Iterator[Proxy | None]:
    """On Redis, what stands between the workers and the server."""
    if engine == "sqlite":
        yield None
        return
    server: RedisServer = request.getfixturevalue(engine)
    with Proxy(server) as proxy:
        yield proxy


@pytest.fixture
def worker_url(url: str, engine: str, proxy: Proxy | None, request: pytest.FixtureRequest) -> str:
    return url.replace(request.getfixturevalue(engine).url, proxy.url) if proxy else url


class Chord:
    """One chord as it was submitted."""

    def __init__(self, number: int, rng: random.Random) -> None:
        self.number = number
        self.bad = set(rng.sample(range(MEMBERS), rng.choice((1, 2)))) if rng.random() < BAD else set()
        self.pauses = [round(rng.uniform(0, 0.05), 4) for _ in range(MEMBERS)]
        self.ids = [f"{number}-{place}" for place in range(MEMBERS)]
        self.body = f"{number}-body"

    async def submit(self, app: Windlass) -> Workflow[int]:
        one = app.tasks[member.name]
        header = [
            one.options(id=id).s(place, self.pauses[place], place in self.bad) for place, id in enumerate(self.ids)
        ]
        return await chord(header, app.tasks[body.name].options(id=self.body).s()).with_id(str(self.number)).enqueue()

    def judge(self, found: dict[str, Job | None], bodies_run: set[str]) -> None:
        last = found[self.body]
        assert last is not None
        if not self.bad:
            assert (last.state, last.result) == (State.SUCCEEDED, str(sum(range(MEMBERS))).encode()), last
            return
        assert last.state is State.SKIPPED, last
        culprits = [f"{member.name} {self.ids[place]} failed" for place in self.bad]
        assert last.reason in culprits, last
        assert self.body not in bodies_run, f"a body ran although a member had failed: {self.body}"


@asynccontextmanager
async def losing_replies(proxy: Proxy | None) -> AsyncIterator[None]:
    """Now and then the answer to an exchange is lost: the worker sends the same again."""

    async def lose() -> None:
        while proxy:
            order = proxy.lose_reply(b"_exchange\r\n")
            await eventually(lambda order=order: order.done, timeout=60, every=0.02)
            await asyncio.sleep(0.1)

    losing = asyncio.create_task(lose())
    try:
        yield
    finally:
        losing.cancel()
        await asyncio.gather(losing, return_exceptions=True)


async def under_fire(
    app: Windlass, fleet: Fleet, ledger: Ledger, proxy: Proxy | None, count: int, timeout: float
) -> None:
    seed = random.randrange(1 << 30)
    rng = random.Random(seed)
    for _ in range(4):
        fleet.start(**OPTIONS)
    chords = [Chord(number, rng) for number in range(count)]
    async with losing_replies(proxy):
        submitting = asyncio.create_task(submit_all(app, chords))
        await eventually(lambda: ledger.lines("start"))
        killing = asyncio.create_task(kill_now_and_then(app, fleet, rng, (0.5, 1.1)))
        handles = await submitting
        await eventually(lambda: nothing_left(app), timeout=timeout, every=0.1)
        killing.cancel()
        kills = await killing
    for one, handle in zip(chords, handles, strict=True):
        assert await handle.state() is (State.FAILED if one.bad else State.SUCCEEDED), (one.number, await handle.info())
    ids = [id for one in chords for id in (*one.ids, one.body)]
    found, bodies_run = await records(app, ids), set(ledger.jobs("start"))
    for one in chords:
        one.judge(found, bodies_run)
    report = await check(app, ids, ledger, kills)
    print(f"\n{count} chords: {len(kills)} kills, seed {seed}: {report}")  # noqa: T201 - the figures of the run
    assert report.exposures > 5, f"too few jobs were interrupted to prove anything: {report}"


async def submit_all(app: Windlass, chords: list[Chord]) -> list[Workflow[int]]:
    handles = []
    for one in chords:
        handles.append(await one.submit(app))
        await asyncio.sleep(0.02)
    return handles


async def test_no_chord_hangs_when_members_fail_and_workers_die(
    app: Windlass, fleet: Fleet, ledger: Ledger, proxy: Proxy | None
) -> None:
    await under_fire(app, fleet, ledger, proxy, 60, 60)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_no_chord_hangs_when_members_fail_and_workers_die_for_long(
    app: Windlass, fleet: Fleet, ledger: Ledger, proxy: Proxy | None
) -> None:
    await under_fire(app, fleet, ledger, proxy, 1_000, 900)
