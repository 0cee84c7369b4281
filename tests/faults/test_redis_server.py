"""Redis killed, paused, emptied of functions, full, read-only and failed over, while jobs come and run.

However it breaks: what was accepted is kept, every job ends once, nobody is charged for a fault of the server, workers
run jobs again within five seconds, and they spend next to nothing while they cannot.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import cycle

import pytest

from tests.faults.checker import Window
from tests.faults.jobs import on_loop, reporting
from tests.faults.load import HEALED, Load, all_running, cpu_shares, nothing_left, slack
from tests.servers.fixtures import KINDS, NewRedis
from tests.servers.process import HOST, wait_until
from tests.servers.redis import BINARIES, RedisServer, fresh_prefix
from tests.servers.topology import Sentinel
from tests.worker.helpers import Fleet, Ledger, eventually, within
from windlass import JobLost, StoreError, Windlass

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="servers are started and signalled as on POSIX")

WORKERS = 3
OPTIONS = {"concurrency": 8, "grace": 5}
SHORT_CALLS = "timeout=1s&connect_timeout=1s&keepalive=1s"


@pytest.fixture
def kind() -> str:
    """Which server; tests that differ between them are parametrized by it."""
    return "redis7"


@pytest.fixture
def server(kind: str, new_redis: NewRedis) -> RedisServer:
    """A server of the test's own, as durable as Redis can be."""
    return new_redis(kind, fsync="always")


@pytest.fixture
def url(server: RedisServer) -> str:
    return f"{server.url}?prefix={fresh_prefix()}&{SHORT_CALLS}"


async def start(app: Windlass, fleet: Fleet) -> None:
    for _ in range(WORKERS):
        fleet.start(**OPTIONS)
    await all_running(app, WORKERS)


async def heals(load: Load, since: float) -> None:
    delay = await load.consumed_after(since)
    assert delay < HEALED + slack(), f"no job was run until {delay:.1f} s after the fault ended"


# ---- kills and pauses --------------------------------------------------------------------------------------------


async def kill_again_and_again(times: int, app: Windlass, fleet: Fleet, ledger: Ledger, server: RedisServer) -> None:
    """It is away for a moment, for longer than workers dare to go on with their jobs, and for longer than a lease."""
    await start(app, fleet)
    met = 0
    async with Load(app, ledger, long=1.5) as load:
        for _, away in zip(range(times), cycle((0.0, 1.2, 2.0)), strict=False):
            met += load.running()
            server.kill()
            await asyncio.sleep(away)
            await asyncio.to_thread(server.restart)
            await heals(load, time.time())
            await load.progress(100)
    report = await load.verify(f"{times} kills of the server, {met} jobs under way")
    assert report.crashes == 0, f"a killed server is no crash of a worker: {report}"
    assert met >= times, "too few jobs were under way to prove anything"
    assert load.slowest < 10 + slack(), "a call neither answered nor failed"


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_lost_when_the_server_is_killed(
    app: Windlass, fleet: Fleet, ledger: Ledger, server: RedisServer
) -> None:
    await kill_again_and_again(3, app, fleet, ledger, server)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_lost_when_the_server_is_killed_ten_times(
    app: Windlass, fleet: Fleet, ledger: Ledger, server: RedisServer
) -> None:
    await kill_again_and_again(10, app, fleet, ledger, server)


async def pause_for(seconds: float, app: Windlass, fleet: Fleet, ledger: Ledger, server: RedisServer) -> None:
    await start(app, fleet)
    async with Load(app, ledger, long=1.5) as load:
        await load.progress(100)
        server.pause()
        shares = await cpu_shares(fleet, seconds)
        server.resume()
        await heals(load, time.time())
        await load.progress(50)
    report = await load.verify(f"server paused for {seconds} s")
    assert report.crashes == 0, f"nobody died: {report}"
    assert max(shares) < 0.3, f"busy while there was nothing to do: {shares}"


async def test_a_paused_server_costs_no_job_a_crash(
    app: Windlass, fleet: Fleet, ledger: Ledger, server: RedisServer
) -> None:
    """For two leases."""
    await pause_for(3, app, fleet, ledger, server)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_paused_for_long_costs_no_job_a_crash(
    app: Windlass, fleet: Fleet, ledger: Ledger, server: RedisServer
) -> None:
    await pause_for(10, app, fleet, ledger, server)


# ---- administration under load -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("FUNCTION", "FLUSH"),
        ("SCRIPT", "FLUSH"),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("CLIENT", "KILL", "TYPE", "pubsub"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("kind", KINDS)
async def test_an_administrators_command_goes_unnoticed(
    words: tuple[str, ...], app: Windlass, fleet: Fleet, ledger: Ledger, server: RedisServer
) -> None:
    """No call fails for it, no job runs twice: a lost reply is asked for again."""
    await start(app, fleet)
    killed = 0
    async with Load(app, ledger) as load:
        for _ in range(5):
            answer = server.command(*words)
            killed += answer if isinstance(answer, int) else 1
            await heals(load, time.time())
            await load.progress(20)
    report = await load.verify(" ".join(words))
    assert killed >= WORKERS, "the command met nobody"
    assert (report.crashes, report.extra, load.errors) == (0, 0, []), report


async def test_a_full_server_refuses_calls_loudly_and_lets_running_jobs_end(
    app: Windlass, fleet: Fleet, ledger: Ledger, server: RedisServer
) -> None:
    await start(app, fleet)
    work, wordy = app.tasks[on_loop.name], app.tasks[reporting.name]
    running = await app.enqueue_many(wordy.s(n, 2.0) for n in range(WORKERS * 8))
    await eventually(lambda: len(ledger.lines("start")) == len(running))
    waiting = await app.enqueue_many(work.s(n, 0.0) for n in range(30))
    server.command("CONFIG", "SET", "maxmemory", "1mb")
    started = time.monotonic()
    with pytest.raises(StoreError, match="memory"):
        await work.enqueue(1, 0.0)
    assert time.monotonic() - started < 5 + slack()
    for handle in [*running, *waiting]:
        await within(handle)
    with pytest.raises(StoreError, match="memory"):
        await work.enqueue(1, 0.0)
    server.command("CONFIG", "SET", "maxmemory", "0")
    assert await within(await work.enqueue(7, 0.0)) == 7, "without a restart of anything"
    await eventually(lambda: nothing_left(app))
    assert len(ledger.lines("start")) == len(running) + len(waiting) + 1


async def test_an_emptied_server_is_an_empty_server(
    app: Windlass, fleet: Fleet, ledger: Ledger, server: RedisServer
) -> None:
    """FLUSHALL takes the jobs; it must not take the workers with them, nor let callers wait for what is gone."""
    await start(app, fleet)
    work = app.tasks[on_loop.name]
    gone = await app.enqueue_many(work.s(n, 0.5) for n in range(WORKERS * 8 + 50))
    await eventually(lambda: len(ledger.lines("start")) >= WORKERS * 8)
    server.command("FLUSHALL")
    with pytest.raises(JobLost):
        await within(gone[-1])
    assert await within(await work.enqueue(7, 0.0), HEALED + slack()) == 7
    assert all(worker.alive for worker in fleet)


# ---- more than one server ----------------------------------------------------------------------------------------


async def test_a_master_that_is_read_only_for_a_while(
    app: Windlass, fleet: Fleet, ledger: Ledger, server: RedisServer, new_redis: NewRedis
) -> None:
    """It hands over to its replica without loss, follows it, and is made the master again."""
    other = new_redis(replicaof=server, fsync="always")
    wait_until(lambda: "state=online" in server.info("replication").get("slave0", ""), "the replica follows")
    await start(app, fleet)
    async with Load(app, ledger) as load:
        await hand_over(server, other)
        shares = await cpu_shares(fleet, 2.0)
        assert load.errors, "nobody noticed"
        await hand_over(other, server)
        await heals(load, time.time())
        await load.progress(50)
    report = await load.verify("read-only master")
    assert report.crashes == 0, f"nobody died: {report}"
    assert max(shares) < 0.3, f"busy while there was nothing to do: {shares}"


async def hand_over(old: RedisServer, new: RedisServer) -> None:
    old.command("FAILOVER", "TO", HOST, new.port)
    await eventually(lambda: old.info("replication")["role"] == "slave")
    await eventually(lambda: new.info("replication")["role"] == "master")


class TestSentinel:
    """A failover to a replica that has every accepted job, since the URL asks for one that has."""

    @pytest.fixture
    def sentinel(self) -> Iterator[Sentinel]:
        with Sentinel(BINARIES["redis7"](), fsync="everysec", down_after=1500) as sentinel:
            yield sentinel

    @pytest.fixture
    def url(self, sentinel: Sentinel) -> str:
        return f"{sentinel.url}?prefix={fresh_prefix()}&wait_replicas=1&wait_timeout=500ms&{SHORT_CALLS}"

    async def test_a_failover_loses_nothing_accepted(
        self, app: Windlass, fleet: Fleet, ledger: Ledger, sentinel: Sentinel
    ) -> None:
        await start(app, fleet)
        async with Load(app, ledger, long=1.5) as load:
            await load.progress(100)
            window = await failed_over(sentinel, load)
            await load.progress(200)
        only_ordered(sentinel, 1)
        # What was written last may be gone with the old master: claims and settlements of these seconds.
        await load.verify("failover", forgotten=window)

    @pytest.mark.soak
    @pytest.mark.timeout(300)
    async def test_a_failover_and_the_return_of_the_dead_master(
        self, app: Windlass, fleet: Fleet, ledger: Ledger, sentinel: Sentinel
    ) -> None:
        await start(app, fleet)
        begun = time.time()
        async with Load(app, ledger) as load:
            for _ in range(4):
                await load.progress(100)
                dead = sentinel.master
                await failed_over(sentinel, load)
                await load.progress(100)
                await asyncio.to_thread(sentinel.restart, dead)
        only_ordered(sentinel, 4)
        await load.verify("failovers", forgotten=Window(begun, time.time()))


def only_ordered(sentinel: Sentinel, failovers: int) -> None:
    """A live master that is replaced goes on for a while, perhaps with a replica: then nobody can promise anything."""
    if sentinel.failovers != failovers:
        pytest.skip("the sentinels replaced a master that lives: too busy a machine for their deadline")


async def failed_over(sentinel: Sentinel, load: Load) -> Window:
    begun = time.time()
    await asyncio.to_thread(sentinel.fail_over)
    promoted = time.time()
    await heals(load, promoted)
    return Window(begun - 2.0, promoted + 2.0)
