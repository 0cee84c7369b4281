"""Every reply of the store lost once, at each operation: nothing is lost, granted twice or stranded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.waves import waves
from tests.worker.helpers import SHORT, eventually, within
from windlass import StoreUnavailable, Windlass, current
from windlass.testing.failing import FailingStore, Faults

WORKER_SIDE = ["exchange", "beat", "sweep", "note", "leave", "unlisten"]
CALLER_SIDE = ["insert", "watch", "listen"]


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture(params=["memory", "sqlite"])
async def app(request: pytest.FixtureRequest, tmp_path: Path, faults: Faults) -> AsyncIterator[Windlass]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    app = Windlass("replies", url, **SHORT)
    plain = app.connections.new_store
    app.connections.new_store = lambda: FailingStore(plain(), faults)  # type: ignore[method-assign]
    yield app
    await app.close()


@pytest.mark.parametrize(
    ("app", "kind"),
    # The engines differ only in what a lost reply leaves behind.
    [("memory", "lose_reply"), ("sqlite", "lose_reply"), ("memory", "fail"), ("memory", "duplicate")],
    indirect=["app"],
)
@pytest.mark.parametrize("operation", [*WORKER_SIDE, *CALLER_SIDE])
async def test_one_fault_at_each_operation(
    app: Windlass, faults: Faults, operation: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    await waves(app, lambda: getattr(faults, kind)(operation))
    assert "refused" not in caplog.text, "a request sent again was taken for another one"


async def test_an_enqueue_whose_reply_is_lost_is_accepted_once(app: Windlass, faults: Faults) -> None:
    @app.task
    async def work(n: int) -> int:
        return n

    faults.lose_reply("insert")
    handle = await work.enqueue(1)
    assert await app.queue("default").counts() == {"ready": 1}
    faults.lose_reply("insert", times=2)
    with pytest.raises(StoreUnavailable):
        await work.options(id="mine").enqueue(2)
    again = await work.options(id="mine").enqueue(2)
    assert await app.queue("default").counts() == {"ready": 2}
    async with app.worker():
        assert [await within(handle), await within(again)] == [1, 2]


async def test_a_batch_whose_reply_is_lost_is_accepted_once(app: Windlass, faults: Faults) -> None:
    @app.task
    async def work(n: int) -> int:
        return n

    faults.lose_reply("insert", times=1)
    handles = await asyncio.gather(*(work.enqueue(n) for n in range(50)), app.enqueue_many(work.s(n) for n in range(9)))
    assert len(handles) == 51
    assert await app.queue("default").counts() == {"ready": 59}


async def test_a_failed_batch_tells_everyone_and_leaves_the_sender_usable(app: Windlass, faults: Faults) -> None:
    @app.task
    async def work(n: int) -> int:
        return n

    await app.client()
    faults.fail("insert", times=100)
    calls = [work.enqueue(n) for n in range(20)] + [app.enqueue_many(work.s(n) for n in range(5))]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(answer) for answer in answers} == {StoreUnavailable}
    faults.clear()
    assert await work.enqueue(1)
    assert await app.queue("default").counts() == {"ready": 1}


async def test_a_store_gone_for_good_fails_waiting_instead_of_hanging(
    app: Windlass, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windlass.connections import waiter

    monkeypatch.setattr(waiter, "PATIENCE_SECONDS", 0.2)

    @app.task
    async def work() -> None: ...

    handle = await work.enqueue()
    faults.fail("watch", times=1000)
    with pytest.raises(StoreUnavailable):
        await within(handle)


async def test_the_store_away_for_longer_than_the_lease(app: Windlass, faults: Faults) -> None:
    """The worker stops what runs before others may start it, and takes up work again when the store is back."""
    stopped: list[str] = []

    @app.task
    async def slow() -> str:
        if stopped:
            return "second"
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(current().id)
            raise
        return "slept"

    async with app.worker() as worker:
        handle = await slow.enqueue()
        await eventually(lambda: worker.executor.active)
        for operation in ("beat", "exchange", "sweep"):
            faults.fail(operation, times=1000)
        await eventually(lambda: stopped, timeout=5)
        faults.clear()
        assert await within(handle) == "second"
