"""What the Redis engine keeps for items, logs and commits: little work in one call, nothing of what is gone, and what
is damaged costs nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.servers.fixtures import NewRedis
from tests.servers.redis import RedisServer
from tests.unit.store.redis.store_kit import RedisBench, redis_bench
from windlass import StoreUnavailable
from windlass.core.event import Entry
from windlass.store.answers import MAX_BATCH
from windlass.store.items import Append, Commit, LogKeep, Put, Record, StreamEnd, log_channel, put_all, put_one
from windlass.testing.conformance.bench import START, new_job
from windlass.testing.conformance.graph_drafts import chain

HOUR = 3_600_000


@pytest.fixture
async def bench(redis7: RedisServer) -> AsyncIterator[RedisBench]:
    async with redis_bench(redis7) as bench:
        yield bench


def new(stream: str, *bodies: bytes, log: str = "l") -> Append:
    return Append(log=log, stream=stream, bodies=list(bodies))


async def append(bench: RedisBench, stream: str, *bodies: bytes) -> list[StreamEnd]:
    [done] = await bench.store.commit([Commit(appends=[new(stream, *bodies)])])
    return done.ends


async def test_a_thousand_items_cost_a_few_commands(bench: RedisBench) -> None:
    with bench.counted() as calls:
        await put_all(bench.store, [Put(shelf="s", key=f"{n}", body=b"x", ttl=HOUR) for n in range(MAX_BATCH)])
    assert sum(calls.values()) < 40
    with bench.counted() as calls:  # renewed: nothing is written but the ends
        await put_all(bench.store, [Put(shelf="s", key=f"{n}", body=b"x", ttl=2 * HOUR) for n in range(MAX_BATCH)])
    assert "zadd" in calls
    assert calls["hset"] == 1, "the numbers alone"


async def test_a_step_that_is_not_done_writes_nothing(bench: RedisBench) -> None:
    await put_one(bench.store, Put(shelf="s", key="k", body=b"x"))
    before = bench.keys.dump()
    done, _ = await put_one(bench.store, Put(shelf="s", key="k", body=b"y", expect=0))
    assert not done
    assert bench.keys.dump() == before


async def test_a_stream_is_read_without_looking_at_others(bench: RedisBench) -> None:
    for _ in range(5):
        await bench.store.commit([Commit(appends=[new(f"s{n}", b"x") for n in range(500)])])
    with bench.counted() as calls:
        assert [record.n for record in await bench.store.records("l", stream="s7")] == [1, 2, 3, 4, 5]
    assert calls["xrange"] == 5
    assert sum(calls.values()) < 12


async def test_reading_from_a_time_on_looks_at_a_few_records(bench: RedisBench) -> None:
    for n in range(4):
        await append(bench, "ab"[n % 2], *[b"x"] * MAX_BATCH)
        bench.clock.advance(1_000)
    for stream, count in ((None, 1_000), ("b", 1_000), ("a", 0)):
        with bench.counted() as calls:
            found = await bench.store.records("l", stream=stream, since=START + 3_000)
        assert len(found) == count
        assert calls["xrange"] < 40


async def test_what_a_step_lets_go_is_bounded_by_what_it_brings(bench: RedisBench) -> None:
    for _ in range(3):
        await append(bench, "a", *[b"x"] * MAX_BATCH)
    await bench.store.retain("l", LogKeep(count=5))
    await append(bench, "a", b"y")
    [log] = await bench.store.logs(["l"])
    assert 2_950 < log.count < 3_001
    while (await bench.store.sweep()).more:
        pass
    [log] = await bench.store.logs(["l"])
    assert (log.first, log.count) == (2_997, 5)
    assert bench.keys("LLEN", "stream:1:l:a") == bench.keys("XLEN", "records:l") == 5


async def test_nothing_stays_of_streams_that_are_forgotten(bench: RedisBench) -> None:
    await bench.store.retain("l", LogKeep(age=HOUR))
    for n in range(50):
        await append(bench, f"s{n}", b"x")
    bench.clock.advance(HOUR)
    while (await bench.store.sweep()).more:
        pass
    assert {key for key in bench.keys.all() if key != "meta"} == {"records:l", "recorded"}
    assert bench.keys("XLEN", "records:l") == 0


async def test_a_log_whose_row_is_lost_gives_no_position_twice(bench: RedisBench) -> None:
    await append(bench, "a", b"1", b"2", b"3")
    for damage in (b"nonsense", b"\x97" + b"\xa1x" * 7, None):
        if damage is None:
            bench.keys("HDEL", "recorded", "l")
        else:
            bench.keys("HSET", "recorded", "l", damage)
        before = (await bench.store.records("l"))[-1].position
        await append(bench, "b", b"x")
        assert (await bench.store.records("l"))[-1].position == before + 1


async def test_what_is_damaged_is_taken_alone(bench: RedisBench) -> None:
    await put_all(bench.store, [Put(shelf="s", key=key, body=key.encode()) for key in "abc"])
    bench.keys("HSET", "kept:s", "b", b"x")
    assert [item.key for item in await bench.store.shelf("s")] == ["a", "c"]
    assert [item.version > 0 for item in await bench.store.items("s", ["a", "b", "c"])] == [True, False, True]
    await append(bench, "a", b"1")
    bench.keys("XADD", "records:l", f"2-{START}", "x", "y")
    bench.keys("HDEL", "recorded", "l")
    await append(bench, "a", b"3")
    assert await bench.store.records("l") == [
        Record(1, "a", 1, START, b"1"), Record(2, "", 0, START, b""), Record(3, "a", 2, START, b"3"),
    ]  # fmt: skip


async def test_a_follower_that_died_is_dropped_at_the_next_record(bench: RedisBench) -> None:
    await bench.store.watch("dead client", [log_channel("l")])
    live = await bench.client("live client")
    await bench.store.watch("live client", [log_channel("l")])
    await append(bench, "a", b"1")
    await live.woken(1)
    assert bench.keys("SMEMBERS", "following:l") == ["live client"]
    await bench.store.unlisten("live client")
    assert not [key for key in bench.keys.all() if key.startswith(("following:", "watching:"))]


async def test_jobs_workflows_and_their_neighbours_in_one_call_are_numbered_apart(bench: RedisBench) -> None:
    plans = [chain("a1", "a2", id="a"), chain("b1", "b2", id="b")]
    steps = [
        Commit(jobs=[new_job("j1")], graph=plans[0].graph, nodes=plans[0].nodes),
        Commit(jobs=[new_job("j2"), new_job("a1")], graph=plans[1].graph, nodes=plans[1].nodes),
        Commit(jobs=[new_job("j3")], event=("schedule_fired", "w", [["n"]])),
    ]
    newest = await bench.newest()
    done = await bench.store.commit(steps)
    assert [one.graph and one.graph.status for one in done] == ["accepted", "accepted", None]
    assert [str(answer.status) for one in done for answer in one.answers] == [
        "accepted", "accepted", "duplicate", "accepted",
    ]  # fmt: skip
    listed = [job.id for job in await bench.everything(oldest_first=True)]
    assert sorted(listed) == sorted(set(listed))
    assert {"j1", "j2", "j3", "a1", "b1"} <= set(listed)
    entries: list[Entry] = await bench.store.events(newest)
    assert any(group[0] == "schedule_fired" for entry in entries for group in entry.groups)


async def test_a_full_server_takes_no_step_but_lets_go_and_reads(new_redis: NewRedis) -> None:
    server = new_redis()
    async with redis_bench(server) as bench:
        await put_one(bench.store, Put(shelf="s", key="k", body=b"x"))
        await append(bench, "a", b"1", b"2")
        server.command("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            await put_one(bench.store, Put(shelf="s", key="k", body=b"x"))
        assert len(await bench.store.shelf("s")) == 1
        assert len(await bench.store.records("l")) == 2
        await bench.store.retain("l", LogKeep(count=1))
        await bench.store.sweep()
        [log] = await bench.store.logs()
        assert log.count == 1
        server.command("CONFIG", "SET", "maxmemory", 0)
