"""Batch tasks and breakers in the test harness: no time passes while a batch gathers."""

from __future__ import annotations

from windlass import Windlass
from windlass.testing import Harness


async def test_batches_gather_what_is_there_and_wait_for_nothing() -> None:
    app, calls = Windlass("kit", "memory://"), []

    @app.task(batch=4, batch_wait="1h")
    async def index(docs: list[int]) -> list[int]:
        calls.append(docs)
        return [doc * 2 for doc in docs]

    @app.task(batch=4, batch_wait="1h")
    def threaded(docs: list[int]) -> None:
        calls.append(docs)

    async with Harness(app) as h:
        handles = [await index.enqueue(n) for n in range(6)]
        await threaded.enqueue(100)
        await h.drain()
        assert [await handle for handle in handles] == [0, 2, 4, 6, 8, 10]
    assert sorted(calls) == [[0, 1, 2, 3], [4, 5], [100]]
