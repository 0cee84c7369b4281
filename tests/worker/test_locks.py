"""Locks over loops, threads and processes: one holder, renewed, fenced, and free again when its holder is dead."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.worker.helpers import ROOT, eventually, within
from windlass import Busy, LockLost, Windlass
from windlass.errors import ConfigError, StoreUnavailable, WindlassError
from windlass.store.items import Put, put_one
from windlass.testing.failing import FailingStore, Faults


async def test_one_holder_at_a_time_and_the_fence_grows(app: Windlass) -> None:
    async with app:
        async with app.lock("invoice:42") as lock:
            first = lock.token
            with pytest.raises(Busy, match="invoice:42"):
                async with app.lock("invoice:42"):
                    pass
            async with app.lock("invoice:43"):
                pass
            lock.check()
        async with app.lock("invoice:42") as lock:
            assert lock.token > first


async def test_many_waiters_never_overlap(app: Windlass) -> None:
    inside, most, tokens = 0, 0, []

    async def work() -> None:
        nonlocal inside, most
        async with app.lock("one", wait="20s") as lock:
            inside += 1
            most = max(most, inside)
            tokens.append(lock.token)
            await asyncio.sleep(0.005)
            inside -= 1

    async with app:
        await within(asyncio.gather(*(work() for _ in range(15))), 30)
    assert most == 1
    assert len(set(tokens)) == 15
    assert tokens == sorted(tokens)


async def test_waiting_ends(app: Windlass) -> None:
    async with app, app.lock("taken"):
        with pytest.raises(Busy, match=r"after 0\.1 s"):
            await app.lock("taken", wait="100ms").acquire()


async def test_it_is_renewed_for_as_long_as_it_is_held(app: Windlass) -> None:
    async with app, app.lock("long", ttl="1s") as lock:
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            with pytest.raises(Busy):
                await app.lock("long").acquire()
            assert not lock.lost
            await asyncio.sleep(0.05)


async def lose(app: Windlass, error: Exception | None = None) -> None:
    """Hold a lock that somebody takes away meanwhile."""
    store = (await app.client()).store
    async with app.lock("gone", ttl="300ms") as lock:
        await put_one(store, Put(shelf="locks", key="gone", body=None))
        if error is not None:
            raise error
        await eventually(lambda: lock.lost)
        with pytest.raises(LockLost):
            lock.check()


async def test_a_lock_that_was_taken_away_is_known_to_be_lost(app: Windlass) -> None:
    async with app:
        with pytest.raises(LockLost):
            await lose(app)
        async with app.lock("gone"):
            pass


async def test_the_error_of_the_block_says_more_than_a_lost_lock(app: Windlass) -> None:
    async with app:
        with pytest.raises(ValueError, match="mine"):
            await lose(app, ValueError("mine"))


@pytest.fixture
def shaky() -> tuple[Windlass, Faults]:
    app, faults = Windlass("locks", "memory://"), Faults()
    plain = app.connections.new_store
    app.connections.new_store = lambda: FailingStore(plain(), faults)  # type: ignore[method-assign]
    return app, faults


async def test_a_renewal_that_fails_past_the_ttl_loses_the_lock(shaky: tuple[Windlass, Faults]) -> None:
    app, faults = shaky
    async with app:
        lock = await app.lock("shaky", ttl="200ms").acquire()
        faults.fail("commit", StoreUnavailable("down"), times=1_000)
        await eventually(lambda: lock.lost)
        faults.clear()
        with pytest.raises(LockLost):
            await lock.release()


async def test_lost_replies_change_nothing(shaky: tuple[Windlass, Faults]) -> None:
    app, faults = shaky
    async with app:
        faults.lose_reply("commit")
        lock = await app.lock("shaky", ttl="1s").acquire()
        token = lock.token
        faults.lose_reply("commit", times=2)  # of renewals
        await eventually(lambda: faults.calls["commit"] >= 6)
        assert not lock.lost
        assert lock.token == token
        faults.lose_reply("commit")
        await lock.release()
        async with app.lock("shaky"):
            pass
        faults.lose_reply("commit")
        async with app.once("charge", wait=False) as block:
            assert not block.done
            block.result = 7
            faults.lose_reply("commit")
        async with app.once("charge", wait=False) as block:
            assert block.result == 7


async def test_a_cancelled_waiter_leaves_nothing_behind(app: Windlass) -> None:
    async with app:
        async with app.lock("one"):
            waiter = asyncio.create_task(app.lock("one", wait=True).acquire())
            await asyncio.sleep(0)
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
        await within(app.lock("one", wait="5s").acquire())


async def test_from_threads_and_from_the_loop(app: Windlass) -> None:
    free, tokens = threading.Event(), []

    def hold() -> None:
        with app.lock("shared", wait="5s") as lock:
            tokens.append(lock.token)
            assert free.wait(20)
            lock.check()

    async with app:
        thread = asyncio.create_task(asyncio.to_thread(hold))
        await eventually(lambda: tokens)
        with pytest.raises(Busy):
            await app.lock("shared").acquire()
        free.set()
        await within(thread)
        async with app.lock("shared", wait="5s") as lock:
            assert lock.token > tokens[0]
    await asyncio.to_thread(app.sync.close)


async def test_in_tasks_of_every_kind_of_place(app: Windlass) -> None:
    inside = []

    @app.task
    async def on_loop() -> int:
        async with app.lock("tasks", wait=True) as lock:
            inside.append(1)
            assert sum(inside) == 1
            await asyncio.sleep(0.01)
            inside.pop()
            return lock.token

    @app.task
    def in_thread() -> int:
        with app.lock("tasks", wait=True) as lock:
            inside.append(1)
            assert sum(inside) == 1
            time.sleep(0.01)
            inside.pop()
            return lock.token

    async with app, app.worker(concurrency=8):
        handles = await app.enqueue_many([task.s() for task in (on_loop, in_thread) for _ in range(4)])
        tokens = [await within(handle) for handle in handles]
    assert len(set(tokens)) == 8
    await asyncio.to_thread(app.sync.close)


async def test_wrong_uses_are_said(app: Windlass) -> None:
    with pytest.raises(ConfigError, match="not empty"):
        app.lock("")
    with pytest.raises(ConfigError, match="ttl"):
        app.lock("a", ttl="1ms")
    with pytest.raises(ConfigError, match="wait"):
        app.lock("a", wait="soon")
    with pytest.raises(WindlassError, match="not held"):
        _ = app.lock("a").token
    async with app, app.lock("a") as lock:
        with pytest.raises(WindlassError, match="this very object"):
            await lock.acquire()


HOLDER = """
import sys, time
from windlass import Windlass
app = Windlass("e2e", sys.argv[1])
with app.lock("deadly", ttl="2s") as lock:
    print(lock.token, flush=True)
    time.sleep(60)
"""


def test_the_lock_of_a_killed_process_is_free_after_its_ttl(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    app = Windlass("e2e", url)
    with subprocess.Popen([sys.executable, "-c", HOLDER, url], cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        token = int(holder.stdout.readline())
        with pytest.raises(Busy), app.lock("deadly", wait="3s"):  # longer than its ttl: it is renewed
            pass
        holder.kill()
        with app.lock("deadly", wait="20s") as lock:
            assert lock.token > token
    app.sync.close()
