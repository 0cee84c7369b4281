"""Nothing grows: what is left when all jobs are gone is a short list of small keys, whatever happened before."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from tests.servers.redis import RedisServer
from tests.unit.store.redis.store_kit import RedisBench, redis_bench
from windlass.core.job import State
from windlass.core.keep import Keep
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import EVERY_EVENT, Action, Change, Declared, Query
from windlass.testing.conformance.bench import move, new_job
from windlass.testing.conformance.outcomes import DEAD, DONE, RETRY_LATER, RETRY_NOW, SNOOZE, STOPPED

STAYS = {"meta": 3, "counts": 24, "events": 50, "totals": 90}
"""All that may be left when there are no jobs, no workers and no clients, and how large it may be: the numbers,
and when strays are looked for again, a count for each queue and state that ever was, the newest events, and a total for
each kind of event, queue and task."""


@pytest.fixture
async def bench(redis7: RedisServer) -> AsyncIterator[RedisBench]:
    keep = Keep(count=20, age=30, failed=Keep(count=20, age=30))
    async with redis_bench(redis7, keep=keep, events_kept=50, logs_kept=5, unknown_after=9_000) as bench:
        yield bench


def nothing_stays(bench: RedisBench) -> None:
    sizes = bench.keys.sizes()
    assert {name: size for name, size in sizes.items() if size > STAYS.get(name, 0)} == {}


async def test_after_a_busy_life_only_a_constant_rest_stays(bench: RedisBench) -> None:
    rng = random.Random(7)
    outcomes = [DONE, DONE, DEAD, RETRY_NOW, RETRY_LATER, SNOOZE, STOPPED]
    client = await bench.client()
    await bench.store.watch("client", [EVERY_EVENT])
    for round in range(12):
        declares = {"t": Declared(), "u": Declared()}
        hand = await bench.worker(f"w{round}", queues=["q", "r"], declares=declares)
        jobs = [
            new_job(
                f"{round}-{n}", queue=rng.choice("qr"), task=rng.choice("ttuv"), delay=rng.choice([0, 0, 500]),
                priority=rng.randrange(10), expires_in=rng.choice([0, 0, 3_000, 60_000]), max_crashes=rng.randint(1, 2),
                keep_done=rng.choice(["", "3|-1|k", "0|-1|z"]), keep_failed=rng.choice(["", "3|2000|f"]),
            )
            for n in range(120)
        ]  # fmt: skip
        await bench.store.insert(jobs)
        await bench.store.watch("client", [job.id for job in rng.sample(jobs, 60)])
        for _ in range(6):
            reply = await hand.exchange(want=20)
            for claim in reply.claims[:5]:
                await hand.note(claim, "one", "two", progress=b"50")
            await bench.change(Action.CANCEL, *(claim.id for claim in reply.claims[5:8]))
            await hand.exchange([move(claim, rng.choice(outcomes)) for claim in list(hand.held.values())[:15]])
            bench.clock.advance(300)
        ids = [f"{round}-{n}" for n in range(120)]
        for action in Action:
            await bench.change(action, *rng.sample(ids, 5), queue="r", priority=2, payload=b"[]")
        if round % 3:
            await bench.store.leave(hand.id, crashed=round % 3 == 1)
        await bench.passes(2_000)
    await bench.passes(120_000)
    hand = await bench.worker("last", queues=["q", "r"], declares={"*q": Declared(), "*r": Declared()})
    while claims := await hand.claim(100):
        await hand.finish(*claims)
        await bench.passes(2_000, hand)
    await bench.store.leave("last")
    await client.flush()
    await bench.store.unlisten("client")
    for _ in range(3):  # `cancelled` and so on are pruned by age
        await bench.passes(60_000)
    left = [(job.id, job.state) for job in await bench.everything()]
    await bench.change(Action.DELETE, *(id for id, _ in left))  # kept by count alone
    assert {state for _, state in left} <= {State.SUCCEEDED, State.CANCELLED, State.FAILED}
    assert len(left) <= 6
    await bench.passes(10_000)
    assert all(value == "0" for value in bench.keys("HVALS", "counts"))
    nothing_stays(bench)


async def test_jobs_in_endless_succession_leave_nothing_behind(bench: RedisBench) -> None:
    """Many more than are kept: memory is bounded by what is kept."""
    hand = await bench.worker()
    sizes = []
    for round in range(6):
        for _ in range(3):
            await bench.store.insert([new_job(f"{round}-{_}-{n}") for n in range(400)])
            await hand.finish(*await hand.claim(400))
        sizes.append({name: size for name, size in bench.keys.sizes().items() if name != "events"})
        assert sizes[-1]["jobs"] == sizes[-1]["heads"] == 20
        lists = [size for name, size in sizes[-1].items() if name.startswith("log:")]
        assert len(lists) <= 2
        assert sum(lists) <= MAX_BATCH
    assert sizes[1].keys() - {name for name in sizes[1] if name.startswith("log:")} == (
        sizes[5].keys() - {name for name in sizes[5] if name.startswith("log:")}
    )


@pytest.mark.parametrize("seed", range(4))
async def test_lists_of_accepted_jobs_shrink_with_any_pattern_of_deletion(redis7: RedisServer, seed: int) -> None:
    rng = random.Random(seed)
    async with redis_bench(redis7) as bench:
        alive: dict[str, int] = {}
        numbered = 0
        for _ in range(12):
            fresh = [f"j{rng.randrange(4_000)}" for _ in range(400)]  # names are given again
            for id in dict.fromkeys(id for id in fresh if id not in alive):
                alive[id] = numbered = numbered + 1
            await bench.store.insert([new_job(id) for id in dict.fromkeys(fresh)])
            doomed = rng.sample(sorted(alive), int(len(alive) * rng.choice([0.05, 0.5, 0.95])))
            if rng.random() < 0.5:
                doomed = sorted(doomed, key=alive.__getitem__)[: len(doomed) // 2]
            for start in range(0, len(doomed), MAX_BATCH):
                await bench.change(Action.DELETE, *doomed[start : start + MAX_BATCH])
            for id in doomed:
                del alive[id]
            listed = [job.id for job in await bench.everything(oldest_first=True)]
            assert listed == sorted(alive, key=alive.__getitem__)
            assert [job.id for job in await bench.everything()] == listed[::-1]
            while (await bench.store.sweep()) and bench.keys("EXISTS", "sparse"):
                pass
            lists = {name: size for name, size in bench.keys.sizes().items() if name.startswith("log:")}
            live = {f"log:{k}": int(n) for k, n in pairs(bench.keys("HGETALL", "live"))}
            assert lists.keys() == live.keys() == {f"log:{k}" for k in bench.keys("ZRANGE", "chunks", 0, -1)}
            assert sum(live.values()) == len(alive)
            for name, size in lists.items():
                assert size <= max(16, 4 * live[name] + 16), (name, size, live[name])
        for start in range(0, len(alive), MAX_BATCH):
            await bench.change(Action.DELETE, *list(alive)[start : start + MAX_BATCH])
        assert set(bench.keys.all()) == STAYS.keys()


def pairs(flat: list[str]) -> list[tuple[str, str]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


async def test_a_name_given_again_does_not_hide_others_from_a_listing_by_time(bench: RedisBench) -> None:
    """The first name of an early list belongs to a late job by now."""
    for k in range(4):
        await bench.store.insert([new_job(f"{k}-{n}") for n in range(MAX_BATCH)])
        bench.clock.advance(1_000)
    times = {k: (await bench.job(f"{k}-5")).enqueued_at for k in range(4)}
    await bench.change(Action.DELETE, "1-0", "2-0")
    await bench.add("1-0", "2-0")
    for k in range(4):
        page = await bench.store.find(Query(until=times[k] + 1, limit=1))
        assert [job.id for job in page.jobs] == [f"{k}-999"]
        page = await bench.store.find(Query(since=times[k], limit=2, oldest_first=True))
        assert page.jobs[0].id == (f"{k}-1" if k in (1, 2) else f"{k}-0")


async def test_watches_of_a_client_that_died_go_with_their_jobs(bench: RedisBench) -> None:
    await bench.add("a", "b", "c")
    await bench.store.watch("dead client", ["a", "b", "c"])
    hand = await bench.worker()
    await hand.finish(*await hand.claim(2))
    await bench.change(Action.DELETE, "c")
    assert not [name for name in bench.keys.all() if name.startswith("watch")]


async def test_a_follower_that_died_is_dropped_at_the_next_event(bench: RedisBench) -> None:
    await bench.store.watch("dead client", [EVERY_EVENT])
    assert bench.keys("SMEMBERS", "followers") == ["dead client"]
    live = await bench.client("live client")
    await bench.store.watch("live client", [EVERY_EVENT])
    await bench.add("a")
    await live.woken()
    assert bench.keys("SMEMBERS", "followers") == ["live client"]


async def test_events_are_bounded_by_what_they_tell_as_well_as_by_entries(bench: RedisBench) -> None:
    hand = await bench.worker()
    for _ in range(4):
        await bench.store.insert([new_job(f"{_}-{n}") for n in range(300)])
        await hand.finish(*await hand.claim(300))
    kept = await bench.store.events(0, 1_000)
    rows = sum(len(group[2]) for entry in kept for group in entry.groups)
    assert rows <= 10 * 50 + 600
    assert len(kept) < 50
    for n in range(100):
        await bench.add(f"single-{n}")
    assert len(await bench.store.events(0, 1_000)) <= 50


async def test_a_cursor_resumes_where_it_was_and_skips_what_is_gone(bench: RedisBench) -> None:
    seen: list[str] = []
    cursor = 0
    for n in range(30):
        await bench.add(f"j{n}")
        for entry in await bench.store.events(cursor, 1):
            seen += [row[0] for group in entry.groups for row in group[2]]
            cursor = entry.seq
    assert seen == [f"j{n}" for n in range(30)]
    for n in range(30, 200):
        await bench.add(f"j{n}")
    resumed = [
        row[0] for entry in await bench.store.events(cursor, 1_000) for group in entry.groups for row in group[2]
    ]
    assert resumed == [f"j{n}" for n in range(150, 200)]
    newest = await bench.store.events(-1)
    assert await bench.store.events(newest[0].seq) == []


async def test_a_worker_that_leaves_takes_everything_of_its_own_along(bench: RedisBench) -> None:
    await bench.add("a", "b")
    hand = await bench.worker()
    claims = await hand.claim()
    await bench.change(Action.CANCEL, "a")
    assert (await hand.beat()).cancels == ["a"]
    await hand.exchange([move(claim, DONE) for claim in claims])
    assert (await hand.beat()).cancels == []
    assert "cancels:w1" not in bench.keys.all()
    await hand.exchange(want=1)
    await bench.store.leave("w1")
    assert not {name for name in bench.keys.all() if "w1" in name}
    assert not {"workers", "leases", "idle:q"} & set(bench.keys.all())


async def test_deleting_everything_leaves_nothing(bench: RedisBench) -> None:
    await bench.add(*(f"a{n}" for n in range(100)))
    await bench.add(*(f"b{n}" for n in range(100)), delay=1_000, expires_in=5_000)
    await bench.add(*(f"c{n}" for n in range(10)), task="u")
    hand = await bench.worker()
    for claim in await hand.claim(15):
        await hand.note(claim, "line", progress=b"1")
    await bench.store.leave("w1")
    while reply := (await bench.store.change(Change(action=Action.DELETE), query=Query(limit=70))).changed:
        assert len(reply) <= 70
    await bench.store.sweep()
    nothing_stays(bench)
