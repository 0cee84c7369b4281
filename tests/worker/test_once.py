"""``once``: a block is done once per key, over retries, workers, threads and children; a dead holder's mark goes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.worker.helpers import ROOT, Fleet, Ledger, eventually, within
from windlass import Busy, LockLost, Windlass, chain, current, once
from windlass.errors import ConfigError, PayloadError, WindlassError
from windlass.store.items import Put, put_one


async def test_a_retry_finds_what_was_done(app: Windlass) -> None:
    charged = []

    @app.task(retries=3, backoff=0.01)
    async def pay(order: int) -> Any:
        async with once() as block:
            if not block.done:
                charged.append(order)
                block.result = {"receipt": order}
        if current().attempt < 3:
            raise ConnectionError("after the charge")
        return block.result

    async with app, app.worker():
        assert await within(await pay.enqueue(1)) == {"receipt": 1}
        assert await within(await pay.enqueue(2)) == {"receipt": 2}
    assert charged == [1, 2]


async def test_plain_functions_too(app: Windlass) -> None:
    charged = []

    @app.task(retries=1, backoff=0.01)
    def pay(order: int) -> Any:
        with once() as block:
            if not block.done:
                charged.append(order)
                block.result = order * 2
        if current().attempt < 2:
            raise ConnectionError("after the charge")
        return block.result

    async with app, app.worker():
        assert await within(await pay.enqueue(4)) == 8
    assert charged == [4]
    await asyncio.to_thread(app.sync.close)


@dataclass
class Receipt:
    order: int


charges: list[int] = []


async def charge(order: int) -> Receipt:
    charges.append(order)
    return Receipt(order)


def charge_here(order: int) -> Receipt:
    charges.append(order)
    return Receipt(order)


async def test_a_function_called_once_is_read_by_its_annotation(app: Windlass) -> None:
    charges.clear()
    async with app:
        assert await app.once("charge:1").run(charge, 1) == Receipt(1)
        assert await app.once("charge:1").run(charge, 1) == Receipt(1)
        assert await asyncio.to_thread(lambda: app.once("charge:1").call(charge_here, order=1)) == Receipt(1)
        async with app.once("charge:1") as block:
            assert block.done
            assert block.result == {"order": 1}
            with pytest.raises(WindlassError, match="done already"):
                block.result = 5
    assert charges == [1]
    await asyncio.to_thread(app.sync.close)


async def test_an_error_leaves_nothing_behind(app: Windlass) -> None:
    async def fail() -> None:
        async with app.once("a"):
            raise ValueError("mine")

    async def unfit() -> None:
        async with app.once("a") as block:
            block.result = object()

    async with app:
        with pytest.raises(ValueError, match="mine"):
            await fail()
        with pytest.raises(PayloadError):
            await unfit()
        async with app.once("a", wait=False) as block:
            assert not block.done
        async with app.once("a") as block:
            assert block.done
            assert block.result is None


async def test_the_second_waits_for_the_first(app: Windlass) -> None:
    started, go, ran = asyncio.Event(), asyncio.Event(), []

    async def work(n: int) -> int:
        ran.append(n)
        started.set()
        await go.wait()
        return n

    async with app:
        first = asyncio.create_task(app.once("slow").run(work, 1))
        await within(started.wait())
        with pytest.raises(Busy):
            await app.once("slow", wait=False).run(work, 2)
        with pytest.raises(Busy):
            await app.once("slow", wait="50ms").run(work, 2)
        second = asyncio.create_task(app.once("slow").run(work, 2))
        go.set()
        assert [await within(first), await within(second)] == [1, 1]
    assert ran == [1]


async def test_one_that_lost_its_mark_says_so(app: Windlass) -> None:
    async def lose() -> None:
        async with app.once("a"):
            await put_one(store, Put(shelf="once", key="a", body=None))

    async with app:
        store = (await app.client()).store
        with pytest.raises(LockLost):
            await lose()


async def test_results_end_with_their_ttl(app: Windlass) -> None:
    async with app:
        async with app.once("brief", ttl="150ms") as block:
            block.result = 1

        async def is_gone() -> bool:
            async with app.once("brief", ttl="100ms") as block:
                return not block.done

        await eventually(is_gone)


async def test_keys(app: Windlass) -> None:
    @app.task
    async def make(n: int) -> int:
        return n

    @app.task
    async def given(n: int) -> Any:
        async with once() as block:
            if not block.done:
                block.result = n
        return block.result

    @app.task
    async def twice() -> None:
        async with once():
            pass
        async with once():
            pass

    @app.task
    async def again() -> str:
        try:
            async with once():
                raise ValueError("first")
        except ValueError:
            async with once() as block:
                block.result = "second"
        return str(block.result)

    async with app, app.worker():
        flows = [await chain(make.s(n), given.s()).enqueue() for n in (1, 2)]
        assert [await within(flow) for flow in flows] == [1, 2], "what a workflow gives is part of the key"
        with pytest.raises(Exception, match="needs a key of its own"):
            await within(await twice.enqueue())
        assert await within(await again.enqueue()) == "second"
        with pytest.raises(WindlassError, match="outside"):
            await once().__aenter__()
        with pytest.raises(ConfigError, match="not empty"):
            app.once("")


async def test_in_a_child_of_a_memory_store_it_says_why_not() -> None:
    from tests.worker.jobs import adopt, pay_in_child

    app = Windlass("e2e", "memory://")
    adopt(app, pay_in_child)
    async with app, app.worker(children=1):
        with pytest.raises(Exception, match="memory://"):
            await within(await app.queue("default").add(pay_in_child.name, {"order": 1}), 40)


def test_children_and_a_killed_worker(fleet: Fleet, ledger: Ledger) -> None:
    """In a child the block goes through a connection of the child's own; a retry on another worker finds it."""
    from tests.worker.jobs import caller

    app = caller(fleet.env["E2E_URL"])
    fleet.start(children=1)
    for name in ("pay_in_child", "pay_in_child_async"):
        task = app.tasks[f"tests.worker.jobs.{name}"]
        assert task.options(retries=1, backoff=0.01).delay(7).get(timeout=40) == 14
    assert len(ledger.lines("charged")) == 2
    app.sync.close()


HOLDER = """
import sys, time
import windlass.limits.once
sys.modules["windlass.limits.once"].MARK_TTL = 2_000
from windlass import Windlass
app = Windlass("e2e", sys.argv[1])
with app.once("deadly"):
    print("in", flush=True)
    time.sleep(60)
"""


def test_the_mark_of_a_killed_process_goes_with_its_ttl(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    app = Windlass("e2e", url)
    with subprocess.Popen([sys.executable, "-c", HOLDER, url], cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "in\n"
        with pytest.raises(Busy), app.once("deadly", wait="3s"):  # longer than its ttl: it is renewed
            pass
        holder.kill()
        with app.once("deadly", wait="20s") as block:
            assert not block.done
    app.sync.close()


async def test_many_at_once_do_it_once(app: Windlass) -> None:
    ran: list[int] = []
    lock = threading.Lock()

    def work(n: int) -> int:
        with lock:
            ran.append(n)
        return n

    async with app:
        calls = [asyncio.to_thread(app.once("race").call, work, n) for n in range(8)]
        results = await within(asyncio.gather(*calls))
    assert len(ran) == 1
    assert set(results) == set(ran)
    await asyncio.to_thread(app.sync.close)
