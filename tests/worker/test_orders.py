"""Orders to workers: obeyed within moments on every engine, seen by others, and never at a job's cost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.servers.redis import fresh_prefix
from tests.worker.helpers import eventually, within
from tests.worker.test_cli_worker import Shell, shell, stop
from windlass import State, Windlass
from windlass.console import Console
from windlass.core.access import RIGHTS, make_access
from windlass.errors import ConfigError, Forbidden, NotFound
from windlass.operate.orders import QUEUES, SHELF
from windlass.store.items import Put, put_all
from windlass.worker.service import Worker

__all__ = ["shell"]

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals need POSIX")


class Gate:
    """What jobs of a test wait at."""

    def __init__(self, app: Windlass) -> None:
        self.app, self.open = app, asyncio.Event()
        self.started = 0

        @app.task(name="wait", queue="q")
        async def wait() -> None:
            self.started += 1
            await self.open.wait()

        self.wait = wait


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def gate(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Gate]:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?durability=normal"}.get(request.param)
    # A beat comes too late to be of any help here: orders have to arrive by themselves.
    app = Windlass(fresh_prefix(), url or request.getfixturevalue("redis7").url, lease="90s", beat="30s")
    gate = Gate(app)
    yield gate
    gate.open.set()
    await app.close()


async def mode_of(worker: Worker) -> str:
    found = [info for info in await worker.app.workers() if info.presence.id == worker.id]
    return str(found[0].presence.load["mode"]) if found else "gone"


async def is_in_mode(worker: Worker, mode: str) -> bool:
    return await mode_of(worker) == mode


async def test_a_quiet_worker_finishes_what_it_has_and_claims_nothing_until_it_is_resumed(gate: Gate) -> None:
    async with gate.app.worker(queues=["q"], concurrency=2) as worker:
        running = await gate.wait.enqueue()
        await eventually(lambda: gate.started == 1)
        assert await gate.app.order("quiet", worker.id, reason="deploying") == [worker.id]
        await eventually(lambda: is_in_mode(worker, "quiet"))
        waiting = await gate.wait.enqueue()
        gate.open.set()
        await within(running)
        assert await waiting.state() is State.READY
        await gate.app.order("resume", worker.id)
        await within(waiting)
        await eventually(lambda: is_in_mode(worker, "running"))


async def test_jobs_for_a_quiet_worker_wake_another(gate: Gate) -> None:
    """The one that was idle before it went quiet must not be woken in the other's place."""
    gate.open.set()
    async with gate.app.worker(queues=["q"]) as quiet:
        await within(await gate.wait.enqueue())  # it asked for more and got nothing: it counts as idle
        await gate.app.order("quiet", quiet.id)
        await eventually(lambda: is_in_mode(quiet, "quiet"))
        async with gate.app.worker(queues=["q"]):
            for _ in range(5):
                await within(await gate.wait.enqueue(), 5)
        assert gate.started == 6


async def test_a_stopped_worker_drains_and_leaves(gate: Gate) -> None:
    async with gate.app.worker(queues=["q"], concurrency=1) as worker:
        running, waiting = await gate.wait.enqueue(), await gate.wait.enqueue()
        await eventually(lambda: gate.started == 1)
        await gate.app.order("stop", worker.id)
        await eventually(lambda: is_in_mode(worker, "stopping"))
        gate.open.set()
        await within(running)
        await eventually(lambda: is_in_mode(worker, "gone"))
        assert await waiting.state() is State.READY
        assert gate.started == 1


async def test_an_order_that_came_before_the_worker_listened_is_obeyed(gate: Gate) -> None:
    async with gate.app.worker(queues=["q"]) as worker:
        body = b'{"order":"quiet","at":1}'
        client = await gate.app.client()
        await put_all(client.store, [Put(shelf=SHELF, key=worker.id, body=body)])
        await worker._obeying.listen(worker.id)
        await eventually(lambda: is_in_mode(worker, "quiet"))


async def test_an_order_nobody_can_read_harms_nobody(gate: Gate) -> None:
    gate.open.set()
    async with gate.app.worker(queues=["q"]) as worker:
        client = await gate.app.client()
        await put_all(client.store, [Put(shelf=SHELF, key=worker.id, body=b'{"order":"dance"')])
        await client.store.signal([f"orders/{worker.id}"])
        await within(await gate.wait.enqueue())
        await gate.app.order("quiet", worker.id)
        await eventually(lambda: is_in_mode(worker, "quiet"))


async def queues_of(worker: Worker) -> list[str]:
    return [queue for info in await worker.app.workers() if info.presence.id == worker.id
            for queue in info.presence.queues]  # fmt: skip


async def test_a_worker_serves_another_queue_and_leaves_it_again(gate: Gate) -> None:
    gate.open.set()
    async with gate.app.worker(queues=["q"], concurrency=2) as worker:
        other = gate.wait.options(queue="other")
        waiting = await other.enqueue()
        await within(await gate.wait.enqueue())
        assert await waiting.state() is State.READY
        assert await gate.app.serve("other", worker.id) == [worker.id]
        await within(waiting)

        async def serves(*queues: str) -> bool:
            return await queues_of(worker) == list(queues)

        await eventually(lambda: serves("q", "other"))
        await within(await other.enqueue(), 5)  # woken for it, too
        await gate.app.leave("other", worker.id)
        await eventually(lambda: serves("q"))
        left = await other.enqueue()
        await within(await gate.wait.enqueue(), 5)
        assert await left.state() is State.READY
        async with gate.app.worker(queues=["other"]):
            for _ in range(3):  # the one that left is not woken in this one's place
                await within(left, 5)
                left = await other.enqueue()
            await within(left, 5)


async def test_orders_about_several_queues_stand_beside_each_other(gate: Gate) -> None:
    gate.open.set()
    async with gate.app.worker(queues=["q*3", "low*1"]) as worker:
        await asyncio.gather(
            *(gate.app.serve(name, worker.id) for name in ("a", "b/c")), gate.app.leave("q", worker.id)
        )
        for name in ("a", "b/c", "low"):
            await within(await gate.wait.options(queue=name).enqueue())
        waiting = await gate.wait.enqueue()
        for name in ("a", "b/c", "low"):
            await gate.app.leave(name, worker.id)

        async def serves_none() -> bool:
            return await queues_of(worker) == []

        await eventually(serves_none)
        assert await waiting.state() is State.READY
        await gate.app.serve("q", worker.id)
        await within(waiting)


async def test_an_order_about_a_queue_is_for_who_may_and_for_workers_that_live(gate: Gate) -> None:
    async with gate.app.worker(queues=["q"]) as worker:
        with pytest.raises(NotFound, match="no live worker 'nobody'"):
            await gate.app.serve("other", "nobody")
        with pytest.raises(ConfigError, match="queue name"):
            await gate.app.serve("no name", worker.id)
        with pytest.raises(ConfigError, match="at least one worker"):
            await gate.app.leave("other")
        scoped = Console(gate.app, make_access("eve", RIGHTS, queues=["q"]))
        with pytest.raises(Forbidden):
            await scoped.serve_queue(worker.id, "secret")
        await Console(gate.app).serve_queue(worker.id, "other")
        client = await gate.app.client()
        await put_all(client.store, [Put(shelf=QUEUES, key=f"{worker.id}/x", body=b"{")])
        await Console(gate.app).leave_queue(worker.id, "q")

        async def serves_other() -> bool:
            return await queues_of(worker) == ["other"]

        await eventually(serves_other)


async def test_who_is_meant(gate: Gate) -> None:
    async with gate.app.worker(queues=["q"]) as worker:
        [info] = await gate.app.workers()
        for name in (worker.id, worker.id[:-3], f"{info.presence.host}:{info.presence.pid}"):
            assert await gate.app.order("resume", name) == [worker.id]
        with pytest.raises(NotFound, match="no live worker 'nobody'"):
            await gate.app.order("quiet", "nobody", worker.id)
        with pytest.raises(ConfigError, match="did you mean 'quiet'"):
            await gate.app.order("quite", worker.id)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="at least one worker"):
            await gate.app.order("quiet")
        assert await mode_of(worker) == "running"


async def test_whoever_orders_a_worker_may_see_all_its_queues_and_leaves_a_record(gate: Gate) -> None:
    async with gate.app.worker(queues=["q", "other"]) as worker:
        scoped = Console(gate.app, make_access("eve", RIGHTS, queues=["q"]))
        with pytest.raises(Forbidden):
            await scoped.stop_worker(worker.id)
        with pytest.raises(NotFound):
            await Console(gate.app, make_access("tom", RIGHTS, queues=["x"])).stop_worker(worker.id)
        reader = Console(gate.app, make_access("bob"))
        with pytest.raises(Forbidden, match="lacks the right 'workers'"):
            await reader.quiet_worker(worker.id)
        boss = Console(gate.app, make_access("ann", ["*"]))
        row = await boss.quiet_worker(worker.id, "it is slow")
        assert (row.id, row.ordered) == (worker.id, "quiet")
        await eventually(lambda: is_in_mode(worker, "quiet"))
        said = [(row.user, row.action, row.outcome.split(":")[0]) for row in (await boss.audit()).rows]
        assert said == [
            ("ann", "quiet_worker", "done"), ("bob", "quiet_worker", "refused"), ("tom", "stop_worker", "error"),
            ("eve", "stop_worker", "refused"),
        ]  # fmt: skip


@posix
def test_a_worker_that_is_told_to_stop_gets_no_successor(shell: Shell) -> None:
    boss = shell.start("worker", "shop:app", "--processes", "2")
    first, second = (worker["presence"] for worker in shell.until_workers(2))
    told = shell("workers", "stop", "shop:app", f"{first['host']}:{first['pid']}", "--reason", "too old")
    assert told.stdout == f"worker {first['host']}:{first['pid']} told to stop\n"
    [left] = shell.until_workers(1)
    assert left["presence"]["id"] == second["id"]
    shell("workers", "quiet", "shop:app", "--all")
    shell.until_mode("quiet")
    assert "quiet" in shell("workers", "shop:app").stdout
    shell("workers", "resume", "shop:app", second["id"])
    assert shell.call("pid") == second["pid"]
    assert "too old" in shell.output()
    assert "is not replaced" in shell.output()
    stop(boss)


@posix
def test_a_supervisor_whose_workers_were_all_told_to_stop_ends(shell: Shell) -> None:
    boss = shell.start("worker", "shop:app", "--processes", "2")
    shell.until_workers(2)
    shell("workers", "stop", "shop:app", "--all")
    assert boss.wait(20) == 0


@posix
def test_a_lone_worker_that_is_told_to_stop_ends_well(shell: Shell) -> None:
    worker = shell.start("worker", "shop:app")
    shell.until_workers(1)
    shell("workers", "stop", "shop:app", "--all")
    assert worker.wait(20) == 0


def test_orders_name_somebody(shell: Shell) -> None:
    assert "name workers, or give --all" in shell("workers", "quiet", "shop:app", code=2).stderr
    assert "no live worker 'x'" in shell("workers", "quiet", "shop:app", "x", code=1).stderr
    assert "did you mean" in shell("workers", "qiet", "shop:app", code=2).stderr
