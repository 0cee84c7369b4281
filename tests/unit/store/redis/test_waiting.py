"""Waiting over broken connections: who waits is told, and a wake-up that nobody hears goes to somebody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from tests.servers.fixtures import NewRedis
from tests.servers.redis import RedisServer
from tests.unit.store.redis.store_kit import RedisBench, redis_bench
from windlass.core.job import Claim, State
from windlass.errors import StoreUnavailable
from windlass.store.jobs import EVERY_EVENT, Want
from windlass.store.redis import wire
from windlass.testing.conformance.bench import move, new_job
from windlass.testing.conformance.outcomes import DONE


@pytest.fixture
def server(new_redis: NewRedis) -> RedisServer:
    """Of its own: all its clients are cut off."""
    return new_redis()


@pytest.fixture
async def bench(server: RedisServer) -> AsyncIterator[RedisBench]:
    async with redis_bench(server, real_time=True) as bench:
        yield bench


async def until(true: Callable[[], object], what: str, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


def cut_off(bench: RedisBench) -> None:
    """Closes the connections of the stores, not our own, and takes no new ones."""
    command = bench.keys.connection.command
    command("CONFIG", "SET", "maxclients", 1)
    for line in command("CLIENT", "LIST").splitlines():
        if " name=windlass:" in line:
            command("CLIENT", "KILL", "ID", line.split(" ", 1)[0].removeprefix("id="))


def let_back(bench: RedisBench) -> None:
    bench.keys.connection.command("CONFIG", "SET", "maxclients", 100)


def finish_from_outside(bench: RedisBench, worker: str, claim: Claim) -> None:
    """The exchange that a worker would send, over the connection of the administration."""
    args = wire.jobs.exchange(worker, claim.seq + 1, [move(claim, DONE)], Want([], 0))
    name, key = bench.store._names["exchange"], f"{{{bench.keys.prefix}}}:meta"
    bench.keys.connection.command("FCALL", name, 1, key, bench.store._settings, b"", *args)
    assert bench.keys("EXISTS", f"held:{worker}") == 0


async def test_a_job_that_ends_while_the_connection_is_broken_is_told_after_the_return(bench: RedisBench) -> None:
    await bench.add("a", "b")
    client = await bench.client()
    await bench.store.watch("client", ["a", "b"])
    hand = await bench.worker()
    claim = await hand.take("a")
    # The server keeps the waiter out until the job has ended: it cannot have heard.
    cut_off(bench)
    assert not bench.keys("PUBLISH", "to:client", "")
    finish_from_outside(bench, "w1", claim)
    let_back(bench)
    [said] = await client.told("a")
    assert (said.state, said.result) == (State.SUCCEEDED, b'"done"')
    # And it still waits for the other one.
    other = await bench.worker("w2", store=await bench.again())
    await other.settle(await other.take("b"), DONE)
    assert [one.id for one in await client.told("b")] == ["a", "b"]


@pytest.mark.parametrize("kind", ["normal", "pubsub"])
async def test_connections_of_either_kind_may_be_cut(bench: RedisBench, kind: str) -> None:
    await bench.add("a")
    client = await bench.client()
    await bench.store.watch("client", ["a"])
    quiet = await bench.again()  # listens to nothing
    await quiet.get(["a"])
    bench.keys.connection.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
    hand = await bench.worker("w2", store=await bench.again())
    await hand.settle(await hand.take("a"), DONE)
    assert [one.id for one in await client.told("a")] == ["a"]

    async def answers() -> bool:
        try:
            return [job and job.state for job in await quiet.get(["a"])] == [State.SUCCEEDED]
        except StoreUnavailable:  # it was sent before the end of the connection was seen
            return False

    deadline = time.monotonic() + 10
    while not await answers():
        assert time.monotonic() < deadline


async def test_a_follower_of_events_is_woken_after_the_return(bench: RedisBench) -> None:
    client = await bench.client()
    await bench.store.watch("client", [EVERY_EVENT])
    bench.keys.connection.command("CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")
    await client.woken()  # it may have missed some
    woken = client.wakes
    await until(lambda: bench.keys("SISMEMBER", "followers", "client"), "it follows again")
    await (await bench.again()).insert([new_job("a")])
    await client.woken(woken + 1)


async def test_the_wake_up_of_a_worker_that_is_cut_off_goes_to_another(bench: RedisBench) -> None:
    broken_store, sound_store = await bench.again(), await bench.again()
    broken = await bench.worker("broken", store=broken_store)
    assert await broken.ids() == []
    sound = await bench.worker("sound", store=sound_store)
    assert await sound.ids() == []
    await broken_store._link.close()  # as if its machine were gone: nobody hears what is sent to it
    await until(lambda: not bench.keys("PUBLISH", "to:broken", ""), "the server noticed")
    await bench.add("a")
    await sound.mail.woken()
    assert await sound.ids() == ["a"]


async def test_an_idle_worker_that_was_cut_off_asks_again_by_itself(bench: RedisBench) -> None:
    store = await bench.again()
    hand = await bench.worker("w1", store=store)
    assert await hand.ids() == []
    bench.keys.connection.command("CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")
    await bench.add("a")
    await hand.mail.woken()
    assert await hand.ids() == ["a"]


async def test_one_of_many_idle_workers_is_woken_however_many_are_cut_off(bench: RedisBench) -> None:
    gone = await bench.again()
    for n in range(150):  # more than a wake-up looks at in one go
        hand = await bench.worker(f"gone{n}", store=gone)
        await hand.exchange(want=1)
    store = await bench.again()
    sound = await bench.worker("sound", store=store)
    assert await sound.ids(1) == []
    await gone._link.close()
    await until(lambda: not bench.keys("PUBLISH", "to:gone0", ""), "the server noticed")
    await bench.add("a")
    await sound.mail.woken()
    assert bench.keys("EXISTS", "idle:q") == 0


async def test_a_worker_that_listens_to_other_queues_by_now_is_not_asked_for_ever(bench: RedisBench) -> None:
    """An index that names a worker which does not serve the queue must not make a wake-up run in circles."""
    hand = await bench.worker("w1", queues=["other"])
    bench.keys("ZADD", "idle:q", 1, hand.id, 2, "never heard of")
    await bench.store.unlisten("w1")
    await bench.add("a")
    assert bench.keys("EXISTS", "idle:q") == 0


async def test_a_call_that_was_under_way_when_the_connection_broke_says_so(bench: RedisBench) -> None:
    bench.server.pause()
    try:
        call = asyncio.create_task(bench.store.insert([new_job("a")]))
        await asyncio.sleep(0)
        assert bench.store._link._stream is not None
        bench.store._link._stream.drop("cut by the test")
        with pytest.raises(StoreUnavailable, match="unknown"):
            await call
    finally:
        bench.server.resume()
    [answer] = await bench.store.insert([new_job("a")])
    assert str(answer.status) in ("accepted", "duplicate")


async def test_a_job_that_ends_and_is_pruned_by_one_sweep_is_told_as_it_ended(redis7: RedisServer) -> None:
    async with redis_bench(redis7) as bench:
        client = await bench.client()
        for round in range(2):  # from the second on the sweep knows the buckets beforehand
            a, b = f"a{round}", f"b{round}"
            await bench.add(a, expires_in=1_000, expire_to=State.FAILED, keep_failed="0|-1|k")
            await bench.add(b, expires_in=1_000, keep_done="0|-1|k")
            await bench.store.watch("client", [a, b])
            bench.clock.advance(1_500)
            assert (await bench.store.sweep()).expired == 2
            said = {one.id: one for one in await client.told(a, b)}
            assert (said[a].state, said[a].reason) == (State.FAILED, "expired")
            assert (said[b].state, said[b].reason) == (State.CANCELLED, "expired")
            assert await bench.states(a, b) == [None, None]
