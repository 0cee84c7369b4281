"""Damaged records: each is taken out alone, as a dead letter, and neither harms its neighbours nor stops a call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from tests.servers.fixtures import KINDS
from tests.servers.redis import RedisServer
from tests.unit.store.redis.store_kit import Keys, RedisBench, redis_bench
from windlass.core.job import State
from windlass.core.keep import Keep
from windlass.store.jobs import Action, Declared, Note
from windlass.testing.conformance.bench import move, new_job
from windlass.testing.conformance.outcomes import DEAD, DONE, RETRY_LATER

pytestmark = pytest.mark.parametrize("kind", KINDS)

GARBAGE = b"\xc1\xff\x00garbage\xfe"
NUMBERS_ONLY = msgspec.msgpack.encode([7] * 33)
TEXTS_ONLY = msgspec.msgpack.encode(["x"] * 33)


@pytest.fixture
async def bench(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[RedisBench]:
    server: RedisServer = request.getfixturevalue(kind)
    async with redis_bench(server, unknown_after=9_000) as bench:
        yield bench


def raw(keys: Keys, key: str, id: str) -> bytes:
    return keys("HGET", key, id).encode("utf-8", "surrogateescape")


def no_body(keys: Keys) -> None:
    keys("HDEL", "jobs", "bad")


def cut_body(keys: Keys) -> None:
    keys("HSET", "jobs", "bad", raw(keys, "jobs", "bad")[:-4])


def short_body(keys: Keys) -> None:
    keys("HSET", "jobs", "bad", raw(keys, "jobs", "bad")[:7])


def long_body(keys: Keys) -> None:
    keys("HSET", "jobs", "bad", raw(keys, "jobs", "bad") + b"more")


def garbage_body(keys: Keys) -> None:
    keys("HSET", "jobs", "bad", GARBAGE * 5)


def empty_body(keys: Keys) -> None:
    keys("HSET", "jobs", "bad", b"")


def other_queue(keys: Keys) -> None:
    keys("HSET", "jobs", "bad", raw(keys, "jobs", "bad").replace(b"\xa1q", b"\xa1\xff"))


def task_no_text(keys: Keys) -> None:
    keys("HSET", "jobs", "bad", raw(keys, "jobs", "bad").replace(b"\xa1t", b"\xa1\xff"))


def garbage_head(keys: Keys) -> None:
    keys("HSET", "heads", "bad", GARBAGE)


def head_of_numbers(keys: Keys) -> None:
    keys("HSET", "heads", "bad", NUMBERS_ONLY)


def head_of_texts(keys: Keys) -> None:
    keys("HSET", "heads", "bad", TEXTS_ONLY)


def cut_head(keys: Keys) -> None:
    keys("HSET", "heads", "bad", raw(keys, "heads", "bad")[:-3])


BODIES = [no_body, cut_body, short_body, long_body, garbage_body, empty_body, task_no_text, other_queue]
HEADS = [garbage_head, head_of_numbers, head_of_texts]
Damage = Callable[[Keys], None]


async def is_dead_letter(bench: RedisBench, count: dict[str, int] | None = None, events: int = 1) -> None:
    """Seen by every way to look; counted; its bytes kept; said to the operator; told once."""
    job = await bench.job("bad")
    assert (job.state, job.reason, job.fingerprint) == (State.FAILED, "corrupt record", "corrupt-record")
    assert b"cannot be read" in (job.error or b"")
    for query in ({"states": (State.FAILED,)}, {}, {"fingerprint": "corrupt-record", "states": (State.FAILED,)}):
        assert [one.id for one in await bench.everything(**query)].count("bad") == 1, query
    assert bench.keys("HEXISTS", "corrupt", "bad")
    [warning] = [line for line in (await bench.store.info()).warnings if "damaged" in line]
    assert warning.startswith("1 damaged record")
    assert (await bench.kinds("bad")).count("failed") == events
    if count is not None:
        assert await bench.counts() == count
    # And it can be got rid of, without a trace.
    assert (await bench.change(Action.DELETE, "bad")).changed == ["bad"]
    assert await bench.state("bad") is None
    assert "failed" not in await bench.counts()


@pytest.mark.parametrize("damage", [*BODIES, *HEADS])
async def test_a_damaged_job_that_waits_is_taken_out_and_its_neighbours_are_granted(
    bench: RedisBench, damage: Damage
) -> None:
    await bench.add("a", "bad", "b")
    hand = await bench.worker(declares={"*q": Declared()})
    damage(bench.keys)
    assert await hand.ids() == ["a", "b"]
    await is_dead_letter(bench, {"running": 2, "failed": 1})
    assert await hand.ids() == []


async def test_the_bytes_of_a_damaged_record_are_kept(bench: RedisBench) -> None:
    await bench.add("bad")
    garbage_body(bench.keys)
    garbage_head(bench.keys)
    await (await bench.worker()).claim()
    kept = raw(bench.keys, "corrupt", "bad")  # Lua packs bytes as text, which a strict reader does not take
    assert GARBAGE * 5 in kept
    assert kept.endswith(GARBAGE)


async def test_an_index_that_names_nothing_ends_as_a_dead_letter_too(bench: RedisBench) -> None:
    await bench.add("a", "b")
    bench.keys("ZADD", "ready:q", 1, "bad")
    bench.keys("HINCRBY", "counts", "2q", 1)
    assert await (await bench.worker()).ids() == ["a", "b"]
    await is_dead_letter(bench, {"running": 2, "failed": 1})


async def test_a_name_that_is_no_text_is_dropped_since_nobody_could_call_it(bench: RedisBench) -> None:
    await bench.add("a", "b")
    bench.keys("ZADD", "ready:q", 1, b"\xff\xfe")
    assert await (await bench.worker()).ids() == ["a", "b"]
    assert {job.id for job in await bench.everything()} == {"a", "b"}
    assert await bench.kinds("a") == ["enqueued", "started"]
    assert bench.keys("HLEN", "corrupt") == 1


@pytest.mark.parametrize("damage", [no_body, garbage_body, *HEADS])
@pytest.mark.parametrize("call", ["sweep", "exchange"])
async def test_a_damaged_job_that_comes_due(bench: RedisBench, damage: Damage, call: str) -> None:
    await bench.add("a", "bad", "b", delay=1_000)
    hand = await bench.worker()
    damage(bench.keys)
    bench.clock.advance(1_500)
    if call == "sweep":
        await bench.store.sweep()
    assert await hand.ids() == ["a", "b"]
    await is_dead_letter(bench, {"running": 2, "failed": 1})
    assert bench.keys("ZCARD", "due") == 0


async def test_a_scheduled_job_whose_head_is_gone(bench: RedisBench) -> None:
    await bench.add("a", "bad", delay=1_000)
    bench.keys("HDEL", "heads", "bad")
    bench.clock.advance(1_500)
    await bench.store.sweep()
    await is_dead_letter(bench, {"ready": 1, "failed": 1})


@pytest.mark.parametrize("damage", HEADS)
async def test_a_damaged_job_that_expires(bench: RedisBench, damage: Damage) -> None:
    await bench.add("a", "bad", "b", expires_in=1_000)
    damage(bench.keys)
    bench.clock.advance(1_500)
    assert not (await bench.store.sweep()).more
    await is_dead_letter(bench, {"cancelled": 2, "failed": 1})
    assert bench.keys("ZCARD", "expiring") == 0
    assert bench.keys("ZCARD", "ready:q") == 0


async def break_stamp(bench: RedisBench) -> None:
    bench.keys("HSET", "held:w1", "bad", GARBAGE * 9)


async def cut_stamp(bench: RedisBench) -> None:
    stamp = bench.keys("HGET", "held:w1", "bad").encode("utf-8", "surrogateescape")
    bench.keys("HSET", "held:w1", "bad", stamp[:15] + stamp[30:])


async def lose_head(bench: RedisBench) -> None:
    bench.keys("HSET", "held:w1", "bad", b"")


async def bad_head(bench: RedisBench) -> None:
    bench.keys("HSET", "held:w1", "bad", b"")
    garbage_head(bench.keys)


HELD = [break_stamp, cut_stamp, lose_head, bad_head]
Break = Callable[[RedisBench], Awaitable[None]]


@pytest.mark.parametrize("damage", HELD)
@pytest.mark.parametrize("outcome", [DONE, RETRY_LATER])
async def test_a_damaged_job_that_is_settled_is_refused_and_taken_out(
    bench: RedisBench, damage: Break, outcome: object
) -> None:
    await bench.add("a", "bad", "b")
    hand = await bench.worker()
    claims = await hand.claim()
    await damage(bench)
    reply = await hand.exchange([move(claim, outcome if claim.id == "bad" else DONE) for claim in claims])  # type: ignore[arg-type]
    assert reply.refused == ["bad"]
    assert (await hand.beat()).lost == []
    await is_dead_letter(bench, {"succeeded": 2, "failed": 1})
    assert bench.keys("EXISTS", "held:w1") == 0


@pytest.mark.parametrize("damage", HELD)
async def test_a_damaged_job_that_a_worker_let_go_of(bench: RedisBench, damage: Break) -> None:
    await bench.add("a", "bad", "b")
    hand = await bench.worker()
    await hand.claim()
    await damage(bench)
    assert (await hand.beat(held=["a"])).lost == []
    await is_dead_letter(bench, {"running": 1, "ready": 1, "failed": 1})


@pytest.mark.parametrize("damage", HELD)
@pytest.mark.parametrize("how", ["leave", "crash", "lease"])
async def test_a_damaged_job_of_a_worker_that_ends(bench: RedisBench, damage: Break, how: str) -> None:
    await bench.add("a", "bad", "b")
    hand = await bench.worker()
    await hand.claim()
    await damage(bench)
    if how == "lease":
        replies = await bench.passes(20_000)
        assert not replies[-1].more
    else:
        await bench.store.leave("w1", crashed=how == "crash")
    assert await bench.store.workers() == []
    await is_dead_letter(bench, {"ready": 2, "failed": 1})


@pytest.mark.parametrize("damage", HELD)
async def test_no_call_fails_over_a_damaged_job_that_runs(bench: RedisBench, damage: Break) -> None:
    await bench.add("a", "bad", "b")
    hand = await bench.worker()
    claims = await hand.claim()
    await damage(bench)
    assert {claim.id for claim in (await hand.resend()).claims} >= {"a", "b"}
    await hand.beat()
    assert await bench.store.note("w1", [Note(claim.id, claim.fence, b"1") for claim in claims]) == ["bad"]
    assert (await bench.store.watch("client", ["a", "bad"])).finished == []
    assert len(await bench.store.get(["a", "bad", "b"])) == 3
    assert {job.id for job in await bench.everything()} >= {"a", "b"}
    assert {job.id for job in await bench.everything(states=(State.RUNNING,))} >= {"a", "b"}
    assert {job.id for job in await bench.everything(worker="w1")} >= {"a", "b"}
    await bench.store.queues()
    await bench.store.workers()
    await bench.store.lines("bad")
    await bench.change(Action.CANCEL, "a", "bad", "b")
    assert await bench.state("bad") in (State.FAILED, State.RUNNING, State.CANCELLED)
    assert set((await hand.beat()).cancels) >= {"a", "b"}


@pytest.mark.parametrize("damage", [no_body, garbage_body])
async def test_a_body_that_is_damaged_after_its_claim_is_not_sent_again(bench: RedisBench, damage: Damage) -> None:
    await bench.add("a", "bad")
    hand = await bench.worker()
    await hand.lost_reply(want=10)
    damage(bench.keys)
    assert [claim.id for claim in (await hand.resend()).claims] == ["a"]


@pytest.mark.parametrize("damage", [*BODIES, *HEADS])
async def test_reading_shows_a_damaged_record_and_its_neighbours(bench: RedisBench, damage: Damage) -> None:
    await bench.add("a", "bad", "b", delay=60_000)
    damage(bench.keys)
    found = await bench.store.get(["a", "bad", "b", "none"])
    assert [job and job.id for job in found] == ["a", "bad", "b", None]
    for query in ({}, {"oldest_first": True}, {"states": (State.SCHEDULED,)}, {"queue": "q"}):
        assert {"a", "b"} <= {job.id for job in await bench.everything(**query)}


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("damage", [no_body, garbage_body, *HEADS])
async def test_no_change_fails_over_a_damaged_record(bench: RedisBench, damage: Damage, action: Action) -> None:
    await bench.add("a", "bad", "b", delay=60_000)
    damage(bench.keys)
    reply = await bench.change(action, "a", "bad", "b", queue="r", priority=3, payload=b"[2]")
    touched = {*reply.changed, *reply.skipped}
    assert touched == {"a", "bad", "b"}
    a, b = await bench.store.get(["a", "b"])
    assert (a and a.state) == (b and b.state)
    assert not [name for name, size in bench.keys.sizes().items() if size < 0]


@pytest.mark.parametrize("oldest_first", [False, True])
async def test_a_listing_of_dead_letters_goes_on_behind_a_damaged_one(bench: RedisBench, oldest_first: bool) -> None:
    ids = [f"j{n}" for n in range(6)]
    for id in ids:
        await bench.ended(id, DEAD)
    for id in ids[1:5]:
        bench.keys("HSET", "heads", id, GARBAGE)
    found = await bench.everything(states=(State.FAILED,), limit=1, oldest_first=oldest_first)
    assert {job.id for job in found} == {"j0", "j5"}


async def test_a_damaged_job_that_is_to_run_alone_does_not_keep_the_others_from_it(bench: RedisBench) -> None:
    await bench.add("bad", "good", max_crashes=2)
    assert await (await bench.worker("crashing")).ids() == ["bad", "good"]
    await bench.store.leave("crashing", crashed=True)
    assert bench.keys("ZCARD", "solo:q") == 2
    garbage_head(bench.keys)
    hand = await bench.worker()
    assert await hand.ids() == ["good"]
    await is_dead_letter(bench, {"running": 1, "failed": 1})


async def test_a_body_that_is_damaged_of_a_job_that_is_to_run_alone(bench: RedisBench) -> None:
    await bench.add("bad", max_crashes=2)
    await bench.crash("bad")
    no_body(bench.keys)
    hand = await bench.worker()
    assert await hand.ids() == []
    await is_dead_letter(bench, {"failed": 1})


async def test_a_damaged_job_that_nobody_declares(bench: RedisBench) -> None:
    await bench.add("bad", "b", task="unheard-of")
    hand = await bench.worker()
    assert await hand.ids() == []
    garbage_head(bench.keys)
    replies = await bench.passes(30_000, hand)
    assert sum(reply.parked for reply in replies) == 1
    assert (await bench.job("b")).reason == "unknown task"
    await bench.change(Action.DELETE, "b")
    await is_dead_letter(bench, {"failed": 1})
    assert bench.keys("EXISTS", "asides") == 0


async def test_ended_records_that_are_damaged_are_pruned_with_the_others(
    kind: str, request: pytest.FixtureRequest
) -> None:
    server: RedisServer = request.getfixturevalue(kind)
    keep = Keep(count=3, age=60, failed=Keep(count=3, age=60))
    async with redis_bench(server, keep=keep) as bench:
        hand = await bench.worker()
        for outcome in (DONE, DEAD):
            for n in range(6):
                id = f"{type(outcome).__name__}-{n}"
                await bench.add(id)
                await hand.settle(await hand.take(id), outcome)
                bench.keys("HSET", "heads", id, GARBAGE if n % 2 else NUMBERS_ONLY)
        replies = await bench.passes(100_000, hand)
        assert not replies[-1].more
        assert await bench.everything() == []
        sizes = bench.keys.sizes()
        assert set(sizes) <= {"meta", "counts", "events", "totals", *of_worker("w1")}
        assert not await bench.counts()


def of_worker(id: str) -> set[str]:
    return {f"worker:{id}", "workers", "leases", "idle:q"}


async def test_a_lost_worker_row_does_not_stop_the_store(bench: RedisBench) -> None:
    """As an eviction would lose it."""
    await bench.add("a", "b")
    await (await bench.worker("w1")).take("a")
    await bench.worker("w2")
    bench.keys("DEL", "worker:w1")
    assert [info.presence.id for info in await bench.store.workers()] == ["w2"]
    bench.clock.advance(60_000)  # a jump, which extends leases
    await bench.add("c")
    await bench.change(Action.CANCEL, "a")
    await bench.passes(40_000)
    assert bench.keys("ZCARD", "workers") == 0
    assert bench.keys("ZCARD", "leases") == 0
    assert await bench.state("a") in (State.READY, State.CANCELLED)


async def test_skills_that_cannot_be_read_harm_their_worker_alone_and_until_its_next_beat(bench: RedisBench) -> None:
    broken, sound = await bench.worker("w1"), await bench.worker("w2")
    assert await broken.ids() + await sound.ids() == []
    bench.keys("HSET", "worker:w1", "skills", GARBAGE, "mark", "unheard of")
    await bench.add("a", "b")
    await sound.mail.woken()
    assert await broken.ids() == []
    assert await sound.ids(1) == ["a"]
    await bench.passes(5_000, broken, sound)
    assert await broken.ids() == ["b"]
    bench.keys("HSET", "worker:w1", "skills", GARBAGE, "mark", "unheard of")
    await bench.passes(20_000, sound)
    assert [info.presence.id for info in await bench.store.workers()] == ["w2"]
    assert (await bench.job("b")).crashes == 1


async def test_no_number_is_given_twice_when_the_numbers_are_lost(bench: RedisBench) -> None:
    hand = await bench.worker()
    for n in range(3):
        await bench.add(*(f"{n}-{m}" for m in range(6)))
        await hand.finish(*await hand.claim(3))
    before = await bench.newest()
    waiting = [job.id for job in await bench.everything(states=(State.READY,), oldest_first=True)]
    bench.keys("DEL", "meta")
    assert await bench.add("late") != []
    assert await bench.newest() > before
    listed = [job.id for job in await bench.everything(oldest_first=True)]
    assert len(listed) == len(set(listed)) == 19
    assert listed[-1] == "late"
    assert await hand.ids(20) == [*waiting, "late"]
    await hand.finish(*hand.held.values())
    await bench.store.sweep()
    assert await bench.counts() == {"succeeded": 19}


async def test_an_event_that_cannot_be_read_is_passed_over(bench: RedisBench) -> None:
    await bench.add("a")
    last = await bench.newest()
    bench.keys("XADD", "events", f"{last + 1}-0", "e", GARBAGE)
    entries = await bench.store.events(0)
    assert [entry.seq for entry in entries] == [last, last + 1]
    assert entries[1].groups == []


async def test_an_insert_beside_a_damaged_record_of_the_same_name(bench: RedisBench) -> None:
    await bench.add("bad")
    garbage_body(bench.keys)
    answers = await bench.store.insert([new_job("a"), new_job("bad"), new_job("b", delay=5)])
    assert [str(answer.status) for answer in answers] == ["accepted", "conflict", "accepted"]
    assert "damaged" in answers[1].reason


async def test_a_handler_of_a_queue_is_never_offered_a_name_it_cannot_read(bench: RedisBench) -> None:
    """Each place in a record where text is expected, one after the other."""
    await bench.add("a", "bad", "b", expires_in=100_000)
    head = msgspec.msgpack.decode(raw(bench.keys, "heads", "bad"))
    for place in (2, 4, 13, 26, 27, 28, 29):
        broken = list(head)
        broken[place] = "@@"
        bench.keys("HSET", "heads", "bad", msgspec.msgpack.encode(broken).replace(b"\xa2@@", b"\xa2\xff\xfe"))
        assert len(await bench.store.get(["a", "bad", "b"])) == 3
        assert len(await bench.everything()) == 3
    hand = await bench.worker(declares={"*q": Declared()})
    assert {"a", "b"} <= set(await hand.ids())
