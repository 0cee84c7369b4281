"""A small scenario that touches every operation of a store, with a fault ordered again and again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from tests.faults.checker import event_counts, records
from tests.worker.helpers import eventually, within
from windlass import Retry, State, Windlass, current


async def waves(app: Windlass, fault: Callable[[], object], met: Callable[[], bool] = lambda: True) -> None:
    """Forty jobs in waves, one of them retried, with a fault in most waves and one while the worker stops.

    ``met``: whether a fault has happened; the worker is not stopped before that.
    Every job must succeed and be settled once, and none may run more often than it should.
    """
    ran: Counter[str] = Counter()

    @app.task(retries=1, backoff=0.01)
    async def work(n: int) -> int:
        ran[current().id] += 1
        current().progress(n)
        if n == 7 and current().attempt == 1:
            raise Retry
        await asyncio.sleep(0.002)
        return n

    handles = []
    async with app.worker(concurrency=4):
        for wave in range(4):
            if wave != 2:
                fault()
            handles += [await work.enqueue(n) for n in range(wave * 10, wave * 10 + 10)]
            if wave % 2:
                for handle in handles[-10:]:
                    await within(handle)
        assert [await within(handle) for handle in handles] == list(range(40))
        await eventually(met)
        fault()  # and once more while it stops
    ids = [handle.id for handle in handles]
    found, events = await records(app, ids), await event_counts(app)
    assert all(job is not None and job.state is State.SUCCEEDED and not job.worker for job in found.values())
    assert all(events[id]["succeeded"] == 1 for id in ids)
    assert all(job is not None and job.crashes == 0 for job in found.values())
    extra = {id: count for id, count in ran.items() if count != 1}
    assert extra == {ids[7]: 2}, "a lost reply made a job run again"
    assert await app.queue("default").counts() == {"succeeded": 40}
