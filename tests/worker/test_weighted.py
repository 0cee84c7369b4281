"""Weighted queues and declared limits with real workers: who gets how much, and what holds from the start."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.worker.helpers import SHORT, eventually, within
from windlass import Windlass
from windlass.core.limits import NO_LIMITS, Limits, parse_rate
from windlass.errors import ConfigError
from windlass.store.base import Store
from windlass.store.flow import GateInfo


async def work_off(app: Windlass, queues: Any, jobs: dict[str, int], look: int, concurrency: int = 1) -> Counter[str]:
    """The queues of the first ``look`` jobs that ran."""
    ran: list[str] = []

    @app.task
    async def work(queue: str) -> None:
        ran.append(queue)
        await asyncio.sleep(0.002)

    async with app:
        calls = [work.s(name).set(queue=name) for name, count in jobs.items() for _ in range(count)]
        await app.enqueue_many(calls)
        async with app.worker(queues=queues, concurrency=concurrency):
            await eventually(lambda: len(ran) >= look)
    return Counter(ran[:look])


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_jobs_run_by_weight(app: Windlass, concurrency: int) -> None:
    jobs = {"critical": 100, "default": 100, "low": 100}
    ran = await work_off(app, ["critical*5", "default*2", "low"], jobs, 80, concurrency)
    assert abs(ran["critical"] - 50) <= 16
    assert abs(ran["default"] - 20) <= 12
    assert ran["low"] >= 3


async def test_without_weights_the_order_is_strict(app: Windlass) -> None:
    assert await work_off(app, ["critical", "low"], {"critical": 30, "low": 30}, 30) == {"critical": 30}


async def test_an_empty_queue_leaves_its_share_to_the_others(app: Windlass) -> None:
    assert (await work_off(app, {"critical": 50, "low": 1}, {"low": 40}, 40)) == {"low": 40}


async def test_a_wrong_weight_stops_the_worker(app: Windlass) -> None:
    @app.task
    async def work() -> None: ...

    with pytest.raises(ConfigError, match="weight"):
        async with app.worker(queues=["a*0"]):
            pass


# -- limits that the code declares


async def gate(store: Store, name: str) -> GateInfo:
    found = {one.name: one for one in await store.gates([name])}
    return found.get(name, GateInfo(name=name))


async def test_limits_are_declared_before_anything_runs(app: Windlass) -> None:
    running = most = 0

    @app.task(name="limited", limit=2, rate="1000/s")
    async def limited() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    app.queue("default", limit=3)
    async with app:
        handles = await app.enqueue_many([limited.s() for _ in range(20)])
        async with app.worker(concurrency=20):
            await within(asyncio.gather(*handles))
            store = (await app.client()).store
            assert (await gate(store, "task:limited")).declared == Limits(limit=2, rate=parse_rate("1000/s"))
            assert (await gate(store, "queue:default")).declared == Limits(limit=3)
    assert most == 2


async def test_a_limit_that_is_no_longer_in_the_code_goes(url: str, tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/again.db?durability=normal"
    for limit in (1, None):
        app = Windlass("e2e", url, **SHORT)

        async def work() -> None: ...

        app.task(name="work", limit=limit)(work)
        async with app, app.worker():
            found = await gate((await app.client()).store, "task:work")
            assert found.declared == (Limits(limit=1) if limit else NO_LIMITS)


async def test_what_an_operator_said_stays(app: Windlass) -> None:
    @app.task(name="work", limit=5)
    async def work() -> None: ...

    async with app:
        await work.tune(limit=2)
        async with app.worker():
            found = await gate((await app.client()).store, "task:work")
    assert found.limits.limit == 2
    assert found.declared.limit == 5


async def test_nothing_limited_is_taken_ahead(app: Windlass) -> None:
    """A quick worker takes plain jobs ahead of its slots; what a gate concerns runs as soon as it is taken."""

    @app.task(limit=1_000)
    async def work() -> None: ...

    waited = []
    async with app:
        handles = await app.enqueue_many([work.s() for _ in range(300)])
        async with app.worker(concurrency=4) as worker:
            take = worker.executor.take

            def spied(*args: Any) -> None:
                take(*args)
                waited.append(len(worker.executor.waiting))

            worker.executor.take = spied
            await within(asyncio.gather(*handles))
    assert max(waited) == 0
