"""What a server may do to the engine: forget its functions, run out of memory, be shared, be copied, be restarted."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.servers.fixtures import KINDS, NewRedis
from tests.servers.process import wait_until
from tests.servers.redis import RedisServer, fresh_prefix
from tests.unit.store.redis.store_kit import RedisBench, redis_bench
from windlass.core.job import State
from windlass.core.keep import Keep
from windlass.errors import StoreUnavailable
from windlass.store.answers import MAX_BATCH
from windlass.store.base import StoreSettings
from windlass.store.jobs import EVERY_EVENT, Action, Declared, Query
from windlass.store.redis import RedisStore, library
from windlass.store.redis.commands import Library
from windlass.testing.conformance.bench import Hand, ManualClock, move, new_job
from windlass.testing.conformance.outcomes import DEAD, DONE, RETRY_LATER, RETRY_NOW, SNOOZE

SETTINGS: dict[str, Any] = {"keep": Keep(count=30, failed=Keep(count=30)), "events_kept": 200, "unknown_after": 9_000}


@pytest.fixture
async def bench(redis7: RedisServer) -> AsyncIterator[RedisBench]:
    async with redis_bench(redis7, **SETTINGS) as bench:
        yield bench


async def live(bench: RedisBench, seed: int, rounds: int = 12, stores: list[RedisStore] | None = None) -> None:
    """A life in which every call is made, each by the next store in turn. It ends with jobs in every state."""
    rng = random.Random(seed)
    turn = stores or [bench.store]
    hand: Hand | None = None
    for round in range(rounds):
        bench.store = turn[round % len(turn)]
        jobs = [
            new_job(
                f"{seed}-{round}-{n}", queue=rng.choice("qr"), task=rng.choice("tttu"), delay=rng.choice([0, 0, 700]),
                expires_in=rng.choice([0, 0, 0, 2_500]), max_crashes=2, priority=rng.randrange(10),
            )
            for n in range(15)
        ]  # fmt: skip
        await bench.store.insert(jobs)
        if hand is None:
            hand = await bench.worker(f"w{seed}-{round}", queues=["q", "r"], declares={"t": Declared()})
        hand.store = bench.store
        await bench.store.watch("client", [job.id for job in jobs[:4]] + [EVERY_EVENT])
        for claim in (await hand.exchange(want=6)).claims[:2]:
            await bench.store.note(hand.id, [])
            await hand.note(claim, "line", progress=b"1")
        moves = [
            move(claim, rng.choice([DONE, DONE, DEAD, RETRY_NOW, RETRY_LATER, SNOOZE])) for claim in hand.held.values()
        ]
        await hand.exchange(moves[:4], 3)
        await hand.resend()
        for action in rng.sample(list(Action), 3):
            ids = [job.id for job in rng.sample(jobs, 2)]
            await bench.change(action, *ids, queue="r", priority=1, payload=b"[]", reason="by hand")
        bench.clock.advance(900)
        await hand.beat()
        await bench.store.sweep()
        if rng.random() < 0.3:
            await bench.store.leave(hand.id, crashed=rng.random() < 0.5)
            hand = None
    bench.store = turn[0]


async def picture(store: RedisStore) -> dict[str, Any]:
    """All that can be asked of a store."""
    jobs, cursor = [], ""
    while True:
        page = await store.find(Query(after=cursor, limit=MAX_BATCH))
        jobs += page.jobs
        cursor = page.cursor
        if not cursor:
            break
    return {
        "jobs": jobs,
        "dead": [job.id for job in (await store.find(Query(states=(State.FAILED,), limit=MAX_BATCH))).jobs],
        "logs": [await store.lines(job.id) for job in jobs],
        "queues": await store.queues(),
        "workers": await store.workers(),
        "events": await store.events(0, 1_000),
    }


# ---- functions ---------------------------------------------------------------------------------------------------


async def test_functions_may_be_flushed_between_any_two_calls(new_redis: NewRedis) -> None:
    """Nothing that matters is remembered by the library: the same life with and without."""
    pictures = []
    for flushing in (False, True):
        server = new_redis()
        async with redis_bench(server, prefix="same", **SETTINGS) as bench:
            if flushing:
                flush_before_every_call(bench)
            await live(bench, 1)
            pictures.append(await picture(bench.store))
    assert pictures[0] == pictures[1]


def flush_before_every_call(bench: RedisBench) -> None:
    call = bench.store._call

    async def flushed(function: str, *args: Any, **options: Any) -> Any:
        bench.keys.connection.command("FUNCTION", "FLUSH")
        return await call(function, *args, **options)

    bench.store._call = flushed  # type: ignore[method-assign]


async def test_two_versions_of_the_library_work_on_the_same_keys(
    bench: RedisBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = library.build()

    def other() -> tuple[Library, dict[str, bytes]]:
        """The same code with a word added, and hence another name."""
        code, names = made
        new = code.name + "b"
        text = code.code.replace(code.name.encode(), new.encode()) + b"\n-- another version\n"
        return Library(new, text), {
            function: name.replace(code.name.encode(), new.encode()) for function, name in names.items()
        }

    monkeypatch.setattr(library, "build", other)
    second = await bench.again()
    await live(bench, 2, stores=[bench.store, second])
    assert await picture(bench.store) == await picture(second)
    loaded = [entry[1] for entry in bench.keys.connection.command("FUNCTION", "LIST")]
    assert {made[0].name, made[0].name + "b"} <= set(loaded)


# ---- memory ------------------------------------------------------------------------------------------------------


async def test_a_server_whose_memory_is_full_takes_no_jobs_and_goes_on_with_those_it_has(new_redis: NewRedis) -> None:
    server = new_redis()
    async with redis_bench(server, unknown_after=9_000) as bench:
        hand = await bench.worker()
        await bench.add(*(f"j{n}" for n in range(40)))
        await bench.add("due", delay=1_000)
        await bench.add("late", expires_in=1_000)
        claims = await hand.claim(10)
        server.command("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            await bench.add("refused")
        assert await bench.state("refused") is None
        bench.clock.advance(2_000)
        reply = await hand.exchange([move(claim, DONE) for claim in claims[:5]], 3)
        assert (len(reply.claims), reply.refused) == (3, [])
        reply = await hand.exchange([move(claims[5], RETRY_LATER), move(claims[6], DEAD)])
        assert not reply.refused
        assert not (await hand.beat()).gone
        assert (await bench.store.sweep()).expired == 1
        assert (await bench.change(Action.CANCEL, "j30", "j31")).changed == ["j30", "j31"]
        assert (await bench.change(Action.DELETE, "j30", "j31")).changed == ["j30", "j31"]
        assert (await bench.store.watch("client", ["j0", "j35"])).finished[0].id == "j0"
        assert (await bench.store.find(Query())).jobs
        await bench.store.leave("w1")
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            await bench.add("refused")
        server.command("CONFIG", "SET", "maxmemory", 0)
        await bench.add("refused")
        assert await bench.state("refused") is State.READY
        counts = await bench.counts()
        assert counts == {"succeeded": 5, "failed": 1, "scheduled": 1, "cancelled": 1, "ready": 33}


# ---- neighbours --------------------------------------------------------------------------------------------------

NASTY = [
    "a",
    "a:",
    "a:b",
    "*",
    "?",
    "[a-z]",
    "a*",
    "a\\",
    "%s",
    "@",
    "ä",
    "日本",
    "a" * 64,
    "meta",
    "jobs",
    "|",
    "'",
    '"',
]


async def test_apps_on_one_server_never_touch_each_others_keys(new_redis: NewRedis) -> None:
    server = new_redis()
    clock = ManualClock()
    stores = [
        RedisStore(f"{server.url}?prefix={quote(prefix, safe='')}", StoreSettings(name="x", **SETTINGS), clock=clock)
        for prefix in NASTY
    ]
    stores.append(RedisStore(f"{server.url}", StoreSettings(name="shop", **SETTINGS), clock=clock))
    dumps: dict[str, dict[str, str]] = {}
    try:
        with server.connect() as connection:
            for store in stores:
                await store.open()
                bench = RedisBench(None, store, clock, store.settings)  # type: ignore[arg-type]
                await live(bench, 3, rounds=4)
                now = {name: connection.command("DUMP", name) for name in connection.command("KEYS", "*")}
                before = {name: dump for kept in dumps.values() for name, dump in kept.items()}
                assert before.items() <= now.items(), "a key of another app was changed or is gone"
                new = {name: dump for name, dump in now.items() if name not in before}
                assert new
                assert all(name.startswith(store.location.tag) for name in new)
                dumps[store.location.tag] = new
        assert len(dumps) == len(NASTY) + 1
        for store in stores:
            assert (await store.find(Query(limit=1))).jobs
    finally:
        for store in stores:
            await store.close()


async def test_apps_with_the_same_names_of_jobs_and_workers_hear_only_their_own(redis7: RedisServer) -> None:
    async with redis_bench(redis7) as mine, redis_bench(redis7) as theirs:
        clients = [await bench.client("client") for bench in (mine, theirs)]
        hands = [await bench.worker("w1") for bench in (mine, theirs)]
        for bench in (mine, theirs):
            await bench.add("a")
            await bench.store.watch("client", ["a"])
        await hands[0].settle(await hands[0].take("a"), DONE)
        await clients[0].told("a")
        await clients[1].flush()
        assert clients[1].news == []
        assert await theirs.state("a") is State.READY


# ---- copies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_replica_has_the_same_data(new_redis: NewRedis, kind: str) -> None:
    master = new_redis(kind)
    replica = new_redis(kind, replicaof=master)
    wait_until(lambda: replica.info("replication").get("master_link_status") == "up", "the replica follows")
    async with redis_bench(master, **SETTINGS) as bench:
        for seed in range(3):
            await live(bench, seed)
        assert master.command("WAIT", 1, 0) >= 0
        offset = int(master.info("replication")["master_repl_offset"])
        wait_until(lambda: int(replica.info("replication")["slave_repl_offset"]) >= offset, "the replica has it all")
        assert master.command("DEBUG", "DIGEST") == replica.command("DEBUG", "DIGEST") != "0" * 40


async def test_a_replica_that_is_promoted_answers_the_same(new_redis: NewRedis) -> None:
    master = new_redis()
    replica = new_redis(replicaof=master)
    wait_until(lambda: replica.info("replication").get("master_link_status") == "up", "the replica follows")
    prefix = fresh_prefix()
    async with redis_bench(master, prefix=prefix, **SETTINGS) as bench:
        await live(bench, 5)
        before = await picture(bench.store)
        offset = int(master.info("replication")["master_repl_offset"])
        wait_until(lambda: int(replica.info("replication")["slave_repl_offset"]) >= offset, "the replica has it all")
        clock = bench.clock
    replica.command("REPLICAOF", "NO", "ONE")
    async with redis_bench(replica, prefix=prefix, **SETTINGS) as bench:
        bench.clock.ms = clock.ms
        assert await picture(bench.store) == before
        await live(bench, 6)


async def once_back(store: RedisStore) -> dict[str, Any]:
    """A listening store connects again by itself; a call made before it has fails."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return await picture(store)
        except StoreUnavailable:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


async def test_a_restart_gives_the_same_answers(new_redis: NewRedis) -> None:
    server = new_redis(fsync="always")
    async with redis_bench(server, **SETTINGS) as bench:
        await live(bench, 4)
        hand = await bench.worker("survivor", queues=["own"])
        await bench.add("kept", queue="own")
        claim = await hand.take("kept")
        before = await picture(bench.store)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        assert await once_back(bench.store) == before
        assert [one.id for one in (await hand.resend()).claims] == ["kept"]
        assert not (await hand.settle(claim, DONE)).refused
        assert not (await hand.beat()).gone
