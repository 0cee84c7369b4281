"""Graphs on Redis: what damage does to them, what they leave behind, and what they cost those who have none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import pytest

from tests.servers.redis import RedisServer
from tests.unit.store.redis.store_kit import Keys, RedisBench, redis_bench
from windlass.core.graph import WORK
from windlass.core.job import State
from windlass.core.keep import Keep
from windlass.core.links import WIDTH, Shape
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import move, new_job, value
from windlass.testing.conformance.graph_drafts import GraphDraft, chain, chord, diamond, fan_out, group
from windlass.testing.conformance.outcomes import DEAD, DONE

GARBAGE = b"\xc1\xff\x00garbage\xfe"
MOST = 20 * MAX_BATCH
"""Commands in one call: a thousand jobs with a handful of commands for each."""

STAYS = {"meta": 3, "counts": 16, "events": 50, "totals": 30}


@pytest.fixture
async def bench(redis7: RedisServer) -> AsyncIterator[RedisBench]:
    async with redis_bench(redis7, audit_every=20_000) as bench:
        yield bench


# -- damage

Damage = Callable[[Keys, str], None]


def no_head(keys: Keys, id: str) -> None:
    keys("HDEL", "heads", id)


def garbage_head(keys: Keys, id: str) -> None:
    keys("HSET", "heads", id, GARBAGE)


def cut_head(keys: Keys, id: str) -> None:
    head = keys("HGET", "heads", id).encode("utf-8", "surrogateescape")
    keys("HSET", "heads", id, head[:-3])


def no_body(keys: Keys, id: str) -> None:
    keys("HDEL", "jobs", id)


def garbage_body(keys: Keys, id: str) -> None:
    keys("HSET", "jobs", id, GARBAGE * 5)


HEADS = [no_head, garbage_head, cut_head]
DAMAGES = [*HEADS, no_body, garbage_body]


async def ends(bench: RedisBench, id: str = "g") -> State:
    """Whatever can be run is run, and no audit was needed for the end to come."""
    await bench.play(await bench.worker(uuid4().hex))
    assert not [event for event in await bench.events() if event.kind == "workflow_repaired"]
    return (await bench.graph(id)).state


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_member_that_is_ready_fails_its_workflow(bench: RedisBench, damage: Damage) -> None:
    await bench.submit(chord("a", "b"))
    damage(bench.keys, "a")
    assert await ends(bench) is State.FAILED
    assert await bench.states("a", "b", "body") == ["failed", "succeeded", "skipped"]
    info = await bench.graph()
    assert (info.culprit, info.counts) == ("a", {"succeeded": 1, "failed": 1, "skipped": 1})
    assert (await bench.job("a")).reason == "corrupt record"
    assert await bench.counts() == {"succeeded": 1, "failed": 1, "skipped": 1}


@pytest.mark.parametrize("damage", HEADS)
async def test_a_damaged_member_that_runs_fails_its_workflow(bench: RedisBench, damage: Damage) -> None:
    await bench.submit(chain("a", "b"))
    worker = await bench.worker()
    claim = await worker.take("a")
    damage(bench.keys, "a")
    assert (await worker.exchange([move(claim, DONE)])).refused == ["a"]
    assert await ends(bench) is State.FAILED
    assert await bench.states("a", "b") == ["failed", "skipped"]
    assert await bench.counts() == {"failed": 1, "skipped": 1}


@pytest.mark.parametrize("damage", HEADS)
async def test_a_damaged_member_that_waits_fails_its_workflow(bench: RedisBench, damage: Damage) -> None:
    await bench.submit(chain("a", "b", "c"))
    damage(bench.keys, "b")
    assert await ends(bench) is State.FAILED
    assert await bench.states("a", "b", "c") == ["succeeded", "failed", "skipped"]
    assert await bench.counts() == {"succeeded": 1, "failed": 1, "skipped": 1}
    # And it can be put right, as any failed job can.
    await bench.change(Action.RETRY, "b")
    assert await ends(bench) is State.SUCCEEDED


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("settled", [0, 1])
async def test_a_damaged_join_is_made_anew_and_nothing_is_lost(bench: RedisBench, damage: Damage, settled: int) -> None:
    await bench.submit(chord("a", "b"))
    worker = await bench.worker()
    claims = await worker.claim(2)
    if settled:
        await worker.settle(claims[0], value(claims[0].id))
    damage(bench.keys, "j")
    await worker.exchange([move(claim, value(claim.id)) for claim in claims[settled:]])
    assert await ends(bench) is State.SUCCEEDED
    [sources] = await bench.store.inputs(["j"])
    assert [source.result for source in sources] == [b'"a"', b'"b"']
    assert bench.keys("EXISTS", "corrupt") == 0, "a join that was made anew is no dead letter"


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_end_is_made_anew(bench: RedisBench, damage: Damage) -> None:
    await bench.submit(chain("a", "b"))
    damage(bench.keys, "g")
    assert await ends(bench) is State.SUCCEEDED
    assert (await bench.job("g")).state is State.SUCCEEDED


@pytest.mark.parametrize("damage", HEADS)
async def test_a_member_that_is_damaged_after_its_end_spreads_nothing_twice(bench: RedisBench, damage: Damage) -> None:
    await bench.submit(group("a", "b", "c"))
    worker = await bench.worker()
    a, b, c = await worker.claim(3)
    await worker.settle(a, DONE)
    damage(bench.keys, "a")
    await bench.change(Action.CANCEL, "a")  # a call that writes comes upon it
    await worker.settle(b, DONE)
    assert (await bench.graph()).state is State.WAITING
    await worker.settle(c, DONE)
    assert (await bench.graph()).state is State.FAILED


async def test_todos_that_cannot_be_read_are_passed_over(bench: RedisBench) -> None:
    await bench.submit(fan_out(2 * WIDTH + 10))
    bench.keys("LPUSH", "todos", GARBAGE)
    bench.keys("HSET", "meta", "todos", "1")
    assert await ends(bench) is State.SUCCEEDED
    assert bench.keys("EXISTS", "todos") == 0


async def test_todos_that_are_lost_are_made_up_for_by_an_audit(bench: RedisBench) -> None:
    width = 4 * WIDTH
    await bench.submit(fan_out(width))
    await bench.drain()
    worker = await bench.worker()
    await worker.settle(await worker.take("root"), DEAD)
    bench.keys("DEL", "todos")
    replies = await bench.passes(45_000, worker)
    await bench.drain()
    assert [id for reply in replies for id in reply.repaired] == ["g"]
    assert (await bench.graph()).state is State.FAILED
    assert await bench.counts() == {"failed": 1, "skipped": width}


async def test_a_workflow_whose_row_is_damaged_still_runs(bench: RedisBench) -> None:
    await bench.submit(chain("a", "b"))
    bench.keys("HSET", "graphs", "g", GARBAGE)
    assert await bench.play(await bench.worker()) == ["a", "b"]
    assert await bench.state("g") == "succeeded"


# -- what is left


async def test_workflows_leave_nothing_behind(redis7: RedisServer) -> None:
    keep = Keep(count=3, age=30, failed=Keep(count=3, age=30))
    async with redis_bench(redis7, keep=keep, events_kept=50, staged_for=20_000, audit_every=20_000) as bench:
        client = await bench.client()
        worker = await bench.worker()
        for n in range(30):
            plan = GraphDraft(f"g{n}", fail_fast=n % 4 == 0)
            plan.job(f"{n}a").join(f"{n}j", f"{n}a", shape=Shape.ONE).job(f"{n}b", f"{n}j").job(f"{n}c", f"{n}j")
            plan.join(f"{n}k", f"{n}b", f"{n}c").job(f"{n}d", f"{n}k", delay=500).end(f"{n}d")
            plan.job(f"{n}z", f"g{n}", aftermath=True)
            if n % 7 == 3:
                await bench.stage(plan, 0, 3)  # and never again
                continue
            await bench.submit(plan)
            await bench.store.watch("client", [f"g{n}", f"{n}k", f"{n}z"])
            outcomes = {f"{n}b": DEAD} if n % 3 == 0 else {}
            await bench.play(worker, outcomes)
            if n % 5 == 0:
                await bench.change(Action.RETRY, f"g{n}")
            if n % 5 == 1:
                await bench.change(Action.CANCEL, f"g{n}")
            bench.clock.advance(600)
            await worker.beat()
            await bench.play(worker)
        await client.flush()
        await bench.store.unlisten("client")
        await bench.passes(120_000)
        await bench.drain()
        left = [job.id for job in await bench.everything()]
        await bench.change(Action.DELETE, *[info.id for info in (await bench.store.graphs()).graphs])
        await bench.drain()
        await bench.change(Action.DELETE, *left)
        await bench.passes(120_000)
        assert [(job.id, job.state) for job in await bench.everything()] == []
        assert all(number == "0" for number in bench.keys("HVALS", "counts"))
        sizes = bench.keys.sizes()
        assert {name: size for name, size in sizes.items() if size > STAYS.get(name, 0)} == {}


async def test_a_deleted_workflow_leaves_nothing_behind(bench: RedisBench) -> None:
    await bench.submit(diamond())
    await bench.play(await bench.worker("w"))
    await bench.change(Action.DELETE, "g")
    await bench.drain()
    await bench.store.leave("w")
    assert set(bench.keys.all()) <= STAYS.keys()


# -- bounds


@pytest.mark.parametrize("outcome", [DONE, DEAD])
async def test_no_call_on_a_large_workflow_runs_many_commands(bench: RedisBench, outcome: object) -> None:
    plan = fan_out(3_000)
    graph, nodes = plan.graph, plan.nodes
    for first in range(0, len(nodes), 500):
        with bench.counted() as calls:
            part = nodes[first : first + 500]
            await bench.store.insert_graph(graph, first, part, commit=first + 500 >= len(nodes))
        assert sum(calls.values()) < MOST
    worker = await bench.worker()

    async def settle_all() -> None:
        with bench.counted() as calls:
            reply = await bench.store.sweep()
        assert sum(calls.values()) < MOST
        if reply.more or reply.next_check == 0:
            await settle_all()

    await settle_all()
    claim = await worker.take("root")
    with bench.counted() as calls:
        await worker.settle(claim, outcome)  # type: ignore[arg-type]
    assert sum(calls.values()) < MOST
    await settle_all()
    assert (await bench.counts()).get("waiting", 0) == 0
    for action in (Action.CANCEL, Action.RETRY, Action.CANCEL, Action.DELETE):
        with bench.counted() as calls:
            await bench.change(action, "g")
        assert sum(calls.values()) < MOST
        await settle_all()
    assert await bench.store.graph("g") is None
    assert await bench.counts() == {}


async def test_a_member_costs_few_commands_and_its_join_is_read_once_in_a_step(bench: RedisBench) -> None:
    await bench.submit(group(*(f"m{n}" for n in range(WIDTH))))
    worker = await bench.worker()
    claims = await worker.claim(200)
    with bench.counted() as calls:
        reply = await worker.exchange([move(claim, value(claim.id)) for claim in claims])
    assert not reply.refused
    assert sum(calls.values()) < 30, calls
    assert WORK > 200


async def test_a_step_of_a_chain_is_one_exchange(bench: RedisBench) -> None:
    await bench.submit(chain("a", "b", "c"))
    worker = await bench.worker()
    claim = await worker.take("a")
    for expected in ("b", "c"):
        with bench.counted() as calls:
            [claim] = (await worker.exchange([move(claim, value(claim.id))], want=1)).claims
        assert (claim.id, claim.given) == (expected, b'"%b"' % (b"a" if expected == "b" else b"b"))
        assert calls["fcall"] == 1
        assert sum(calls.values()) < 30, calls


async def test_jobs_of_their_own_pay_nothing_for_graphs(bench: RedisBench) -> None:
    """Not a single command touches what is kept for graphs."""
    worker = await bench.worker()
    await bench.store.insert([new_job(f"j{n}") for n in range(100)])
    with bench.counted() as calls:
        await bench.store.insert([new_job("k")])
        await worker.exchange([move(claim, DONE) for claim in await worker.claim(50)], want=50)
    assert calls["fcall"] == 3
    assert not {"llen", "lpop", "lrange", "zmscore"} & calls.keys()
    assert not {"links", "graphs", "working", "todos", "workflows"} & set(bench.keys.all())
    assert bench.keys("HGET", "meta", "todos") is None
