"""No call touches more than about 1,000 jobs, whatever there is to do; what a job costs does not depend on the backlog.

Counted in commands that the server ran, not in time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.servers.redis import RedisServer
from tests.unit.store.redis.store_kit import RedisBench, redis_bench
from windlass.core.job import ErrorInfo, State
from windlass.core.keep import Keep
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Action, Change, Declared, Query, Want
from windlass.testing.conformance import Hand
from windlass.testing.conformance.bench import move, new_job
from windlass.testing.conformance.outcomes import DEAD, DONE

MOST = 20 * MAX_BATCH
"""Commands in one call: a thousand jobs with a handful of commands for each."""


@pytest.fixture
async def bench(redis7: RedisServer) -> AsyncIterator[RedisBench]:
    async with redis_bench(redis7) as bench:
        yield bench


async def fill(bench: RedisBench, jobs: int, name: str = "j", **fields: object) -> None:
    for start in range(0, jobs, MAX_BATCH):
        batch = [new_job(f"{name}{n}", **fields) for n in range(start, min(start + MAX_BATCH, jobs))]  # type: ignore[arg-type]
        await bench.store.insert(batch)


async def hold(bench: RedisBench, id: str, jobs: int) -> Hand:
    """A worker that holds many jobs."""
    await fill(bench, jobs, f"{id}-")
    hand = await bench.worker(id)
    while len(hand.held) < jobs:
        assert await hand.claim(MAX_BATCH)
    return hand


async def test_a_sweep_of_many_expired_jobs(bench: RedisBench) -> None:
    await fill(bench, 5_000, expires_in=1_000)
    bench.clock.advance(2_000)
    steps = []
    while not steps or steps[-1].more:
        with bench.counted() as calls:
            steps.append(await bench.store.sweep(50_000))
        assert sum(calls.values()) < MOST
        assert steps[-1].expired <= MAX_BATCH
    assert sum(step.expired for step in steps) == 5_000
    assert await bench.counts() == {"cancelled": 5_000}


async def test_a_sweep_of_many_due_jobs(bench: RedisBench) -> None:
    await fill(bench, 4_000, delay=1_000)
    bench.clock.advance(2_000)
    steps = []
    while not steps or steps[-1].more:
        with bench.counted() as calls:
            steps.append(await bench.store.sweep(50_000))
        assert sum(calls.values()) < MOST
        assert steps[-1].promoted <= MAX_BATCH
    assert await bench.counts() == {"ready": 4_000}


async def test_an_exchange_while_many_jobs_are_due(bench: RedisBench) -> None:
    await fill(bench, 3_000, delay=1_000)
    hand = await bench.worker()
    bench.clock.advance(2_000)
    with bench.counted() as calls:
        assert len(await hand.claim(10)) == 10
    assert sum(calls.values()) < MOST
    assert await bench.counts() == {"scheduled": 2_000, "ready": 990, "running": 10}


async def test_a_dead_worker_with_many_claims(bench: RedisBench) -> None:
    await hold(bench, "w1", 3_000)
    await bench.passes(10_000)
    bench.clock.advance(5_001)
    reply, seen = await bench.store.sweep(1), 1
    assert (reply.dead_workers, reply.recovered) == (["w1"], 1)
    while reply.more:
        with bench.counted() as calls:
            reply = await bench.store.sweep()
        assert sum(calls.values()) < MOST
        assert reply.recovered <= MAX_BATCH
        seen += reply.recovered
    assert seen == 3_000
    assert await bench.counts() == {"ready": 3_000}
    assert await bench.store.workers() == []
    crashes = [job.crashes for job in await bench.everything()]
    assert crashes == [1] * 3_000


async def test_a_worker_with_many_claims_signs_off(bench: RedisBench) -> None:
    await hold(bench, "w1", 3_000)
    with bench.counted() as calls:
        await bench.store.leave("w1")
    assert calls["fcall"] == 3
    assert sum(calls.values()) < 3 * MOST
    assert await bench.counts() == {"ready": 3_000}
    assert await bench.store.workers() == []
    assert {job.crashes for job in await bench.everything()} == {0}
    assert sorted(await (await bench.worker("w2")).ids(3)) == ["w1-0", "w1-1", "w1-2"]


async def test_a_worker_that_died_while_it_signed_off_is_not_charged_for_the_rest(bench: RedisBench) -> None:
    hand = await hold(bench, "w1", 1_500)
    assert await bench.store._call("leave", "w1", 0) == 1
    assert (await hand.beat()).gone  # also while its lease would still hold
    assert (await hand.exchange(want=1)).gone
    await bench.store.sweep()
    assert await bench.counts() == {"ready": 1_500}
    assert {job.crashes for job in await bench.everything()} == {0}


async def test_a_beat_that_lets_go_of_many_claims(bench: RedisBench) -> None:
    hand = await hold(bench, "w1", 1_500)
    hand.held = {}
    with bench.counted() as calls:
        await hand.beat()
    assert sum(calls.values()) < MOST
    assert await bench.counts() == {"ready": 1_000, "running": 500}
    await hand.beat()
    assert await bench.counts() == {"ready": 1_500}


async def test_a_claim_past_many_jobs_that_nobody_here_declares(bench: RedisBench) -> None:
    queues = [f"q{n}" for n in range(4)]
    for queue in queues:
        await fill(bench, 1_500, queue, queue=queue, task="u")
    for n in range(20):  # idle ones that do not declare it are not asked again for every job
        idle = await bench.worker(f"idle{n}", queues=queues)
        await idle.exchange(want=Want([("q0", 0)], 1))
    hand = await bench.worker("w1", queues=queues)
    with bench.counted() as calls:
        assert await hand.ids(MAX_BATCH) == []
    assert sum(calls.values()) < MOST
    left = sum(bench.keys("ZCARD", f"ready:{queue}") for queue in queues)
    assert left >= 6_000 - 2 * MAX_BATCH
    await hand.mail.woken()  # to go on at once
    assert not (await hand.info()).idle


async def test_a_claim_past_many_damaged_jobs(bench: RedisBench) -> None:
    await fill(bench, 3_000)
    bench.keys("DEL", "jobs")
    await bench.add("good")
    hand = await bench.worker()
    for _ in range(10):
        left = bench.keys("ZCARD", "ready:q")
        with bench.counted() as calls:
            found = await hand.ids(100)
        assert sum(calls.values()) < MOST
        assert bench.keys("ZCARD", "ready:q") >= left - 2 * MAX_BATCH
        if found:
            break
    assert found == ["good"]
    assert await bench.counts() == {"failed": 3_000, "running": 1}


async def test_many_buckets_are_pruned_a_little_at_a_time(redis7: RedisServer) -> None:
    async with redis_bench(redis7, keep=Keep(age=10)) as bench:
        hand = await bench.worker()
        for _ in range(30):
            await bench.store.insert([new_job(f"{await bench.newest()}-{n}") for n in range(100)])
            claims = await hand.claim(100)
            moves = [move(claim, DONE, keep_done=f"-1|10000|k{n}") for n, claim in enumerate(claims)]
            assert not (await hand.exchange(moves)).refused
        await bench.passes(5_000, hand)
        assert await bench.counts() == {"succeeded": 3_000}
        bench.clock.advance(6_000)  # all of it is too old now, and an exchange that touches all buckets comes first
        await bench.store.insert([new_job(f"last-{n}") for n in range(100)])
        claims = await hand.claim(100)
        with bench.counted() as calls:
            await hand.exchange([move(claim, DONE, keep_done=f"-1|10000|k{n}") for n, claim in enumerate(claims)])
        assert sum(calls.values()) < MOST
        left = (await bench.counts())["succeeded"]
        assert 2_000 <= left <= 2_200
        await bench.store.sweep()
        await bench.store.sweep()
        await bench.store.sweep()
        assert await bench.counts() == {"succeeded": 100}


async def test_a_bucket_that_is_too_full_is_emptied_in_steps(redis7: RedisServer) -> None:
    """As an earlier version might have left it behind."""
    async with redis_bench(redis7, keep=Keep(count=10, age=1_000)) as bench:
        hand = await bench.worker()
        await bench.ended("first")
        [bucket] = [name for name in bench.keys.all() if name.startswith("bucket:")]
        await fill(bench, 3_000)
        for _ in range(3):
            claims = await hand.claim(MAX_BATCH)
            await hand.exchange([move(claim, DONE, keep_done="-1|-1|x") for claim in claims])
        bench.keys(
            "ZUNIONSTORE", bucket, 2, f"{{{bench.keys.prefix}}}:bucket:-1|-1|x", f"{{{bench.keys.prefix}}}:{bucket}"
        )
        bench.keys("DEL", "bucket:-1|-1|x")
        for _ in range(5):
            with bench.counted() as calls:
                reply = await bench.store.sweep()
            assert sum(calls.values()) < MOST
            assert reply.pruned <= MAX_BATCH
        assert await bench.counts() == {"succeeded": 10}


async def test_a_client_that_waits_for_many_jobs_goes(bench: RedisBench) -> None:
    await fill(bench, 2_500)
    await bench.client("c")
    for start in range(0, 2_500, MAX_BATCH):
        await bench.store.watch("c", [f"j{n}" for n in range(start, min(start + MAX_BATCH, 2_500))])
    with bench.counted() as calls:
        await bench.store.unlisten("c")
    assert calls["fcall"] == 3
    assert not {"watched", "watching:c"} & set(bench.keys.all())


async def test_many_dead_workers_at_once(bench: RedisBench) -> None:
    for n in range(300):
        await bench.worker(f"w{n}")
    for _ in range(4):
        bench.clock.advance(5_000)
        with bench.counted() as calls:
            await bench.store.sweep()
        assert sum(calls.values()) < MOST
    assert await bench.store.workers() == []


async def test_a_handler_of_a_queue_with_thousands_of_kinds_of_jobs_set_aside(bench: RedisBench) -> None:
    """More kinds than Lua could spread in one call."""
    for start in range(0, 9_000, MAX_BATCH):
        await bench.store.insert([new_job(f"j{n}", task=f"u{n}") for n in range(start, start + MAX_BATCH)])
    knows_nothing = await bench.worker("w1")
    while bench.keys("ZCARD", "ready:q"):
        assert await knows_nothing.ids(MAX_BATCH) == []
    hand = await bench.worker("w2", declares={"*q": Declared()})
    assert await hand.ids(3) == ["j0", "j1", "j2"]


# ---- the cost of a job does not depend on what else there is ------------------------------------------------------


async def cost_of_a_life(bench: RedisBench, hand: Hand, name: str) -> dict[str, int]:
    with bench.counted() as calls:
        await bench.add(f"{name}-a", f"{name}-b", priority=9)
        await bench.add(f"{name}-c", priority=9, delay=1)
        claims = await hand.claim(2)
        await hand.exchange([move(claims[0], DONE), move(claims[1], DEAD)])
        await hand.beat()
        await bench.store.get([f"{name}-a"])
        await bench.store.find(Query(states=(State.FAILED,), limit=1))
        await bench.store.watch("nobody", [f"{name}-a"])
    return calls


async def test_a_job_costs_the_same_with_any_backlog(bench: RedisBench) -> None:
    hand = await bench.worker("w1", declares={"t": Declared()})
    other = await bench.worker("w2", queues=["other"])

    async def backlog(jobs: int, name: str) -> None:
        await fill(bench, jobs, f"{name}-ready")
        await fill(bench, jobs, f"{name}-later", delay=10_000_000)
        await fill(bench, jobs, f"{name}-expiring", expires_in=10_000_000)
        await fill(bench, jobs, f"{name}-done", queue="other")
        for _ in range(-(-jobs // MAX_BATCH)):
            await other.finish(*await other.claim(MAX_BATCH))

    await backlog(20, "few")
    await cost_of_a_life(bench, hand, "warm-up")
    few = await cost_of_a_life(bench, hand, "few")
    await backlog(6_000, "many")
    many = await cost_of_a_life(bench, hand, "many")
    # `buckets` is no longer told of a bucket that is full, and `first_at` may need to look further.
    for calls in (few, many):
        calls.pop("sadd", 0)
    assert many == few


async def test_pages_by_time_cost_the_same_with_any_backlog(bench: RedisBench) -> None:
    costs = []
    for round in range(2):
        await fill(bench, 3_000 if round else 1_000, f"r{round}-")
        bench.clock.advance(1_000)
        with bench.counted() as calls:
            await bench.store.find(Query(until=bench.clock() - 500, limit=10))
        costs.append(sum(calls.values()))
    assert costs[1] < costs[0] + 100


async def test_running_jobs_are_not_looked_for_with_every_worker_one_by_one(bench: RedisBench) -> None:
    await fill(bench, 400)
    for n in range(40):
        await (await bench.worker(f"w{n}")).claim(9)
    ids = [f"j{n}" for n in range(400)]
    expected = [State.RUNNING] * 360 + [State.READY] * 40
    with bench.counted() as calls:
        assert await bench.states(*ids) == expected
        assert len(await bench.everything(states=(State.RUNNING,), limit=MAX_BATCH)) == 360
        assert len(await bench.everything(limit=MAX_BATCH)) == 400
        assert (await bench.store.watch("client", ids)).missing == []
        assert len((await bench.change(Action.CANCEL, *ids)).changed) == 400
    assert sum(calls.values()) < 10_000


# ---- large and odd values ----------------------------------------------------------------------------------------

ODD = [
    "a b", "'", '"', "\\", "|", "~", "{}", "%s", "%d", "@worker@", "@task@", "a:b", "\\n", "[]", "ü", "日本語", "🪝",
    "x" * 128, "é" * 60, "^(.-)$", "$1", "null", "0", "-1", "1e5", "nan", "inf", "\u00a0", "\u200b", "\x7f",
]  # fmt: skip


async def test_any_printable_name_lives_a_whole_life(bench: RedisBench) -> None:
    for word in ODD:
        await bench.store.insert([new_job(word, task=word, queue=word)])
        await bench.store.insert([new_job(f"{word} later", task=word, queue=word, delay=1_000)])
        await bench.store.insert([new_job(f"{word} unknown", task=f"{word}?", queue=word)])
        name = f"worker {word}"
        hand = await bench.worker(name, queues=[word], declares={word: Declared()})
        client = await bench.client(f"client {word}")
        await bench.store.watch(client.name, [word])
        claim = await hand.take(word)
        assert (claim.id, claim.task, claim.queue) == (word, word, word)
        assert await hand.note(claim, word, progress=b"1")
        await bench.store.leave(name, crashed=True)
        hand = await bench.worker(f"{name} again", queues=[word], declares={word: Declared()})
        await hand.finish(await hand.take(word))
        assert [one.id for one in await client.told(word)] == [word]
        assert [line.text for line in await bench.store.lines(word)] == [word]
        found = await bench.everything(queue=word)
        assert {job.id for job in found} == {word, f"{word} later", f"{word} unknown"}
        await bench.store.leave(hand.id)
        await bench.store.unlisten(client.name)
    settled = await bench.events()
    assert {event.queue for event in settled if event.kind == "succeeded"} == set(ODD)
    await bench.passes(10_000)


async def test_errors_the_store_words_itself_are_json_whatever_the_names(redis7: RedisServer) -> None:
    async with redis_bench(redis7, unknown_after=1_000) as bench:
        for n, word in enumerate(ODD):
            await bench.store.insert(
                [new_job(f"unknown {n}", task=word, queue=f"u{n}"), new_job(f"crash {n}", max_crashes=1)]
            )
            idle = await bench.worker(f"idle {n}", queues=[f"u{n}"])
            assert await idle.ids() == []
            await bench.store.leave(idle.id)
            await bench.crash(f"crash {n}", worker=f"worker {word}")
        await bench.passes(10_000)
        for n, word in enumerate(ODD):
            unknown, crash = await bench.job(f"unknown {n}"), await bench.job(f"crash {n}")
            assert unknown.reason == "unknown task"
            said = [msgspec.json.decode(job.error or b"", type=ErrorInfo).message for job in (unknown, crash)]
            assert word in said[0]
            assert f"worker {word}" in said[1]


async def test_large_results_and_full_batches(bench: RedisBench) -> None:
    hand = await bench.worker()
    client = await bench.client()
    ids = [f"{n:04}" + "i" * 120 for n in range(MAX_BATCH)]
    await bench.store.insert([new_job(id, payload=b"p" * 10_000, meta=b"m" * 1_000) for id in ids])
    await bench.store.watch("client", ids)
    claims = await hand.claim(MAX_BATCH)
    assert [claim.id for claim in claims] == ids
    assert {(len(claim.payload), len(claim.meta)) for claim in claims} == {(10_000, 1_000)}
    assert [claim.id for claim in (await hand.resend()).claims] == ids
    assert not (await hand.exchange([move(claim, DONE, result=b"r" * 10_000) for claim in claims])).refused
    await client.told(*ids)
    page = await bench.store.find(Query(limit=MAX_BATCH))
    assert {len(job.result or b"") for job in page.jobs} == {10_000}
    reply = await bench.store.change(Change(action=Action.RETRY), query=Query(limit=MAX_BATCH))
    assert len(reply.changed) == MAX_BATCH


@pytest.mark.parametrize("size", [0, 1, 31, 32, 255, 256, 16_384, 16_385, 65_535, 65_536, 1_000_000])
async def test_a_value_of_any_size_arrives_whole(bench: RedisBench, size: int) -> None:
    hand = await bench.worker()
    client = await bench.client()
    value = b"x" * size
    for id, fresh in (("fresh", True), ("again", False)):
        await bench.store.insert([new_job(id, payload=value, meta=value)])
        await bench.store.watch("client", [id])
        if not fresh:
            await bench.store.leave((await taken(bench, id)).id)
        claim = await hand.take(id)
        assert (claim.payload, claim.meta) == (value, value)
        await hand.settle(claim, DONE, result=value)
        job = await bench.job(id)
        assert (job.payload, job.meta, job.result or b"") == (value, value, value)
        [said] = [one for one in await client.told(id) if one.id == id]
        assert said.inline == (size <= 16_384)
        assert (said.result or b"") == (value if said.inline else b"")
        [again] = (await bench.store.watch("client", [id])).finished
        assert again == said
    await bench.add("stopped")
    await bench.store.watch("client", ["stopped"])
    await bench.change(Action.CANCEL, "stopped", reason="r" * size or "cancelled")
    [said] = [one for one in await client.told("stopped") if one.id == "stopped"]
    assert said.reason == ("r" * size or "cancelled")


async def taken(bench: RedisBench, id: str) -> Hand:
    hand = await bench.worker("passing")
    await hand.take(id)
    return hand
