"""What graphs cost in statements: a number that does not grow with how many jobs or graphs a call is about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from tests.unit.store.sqlite.test_graphs import opened, statements
from windlass.core.job import Claim
from windlass.core.keep import Keep
from windlass.core.lifecycle import Adopted, Outcome
from windlass.core.links import Inject, Shape
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import Bench, move, value
from windlass.testing.conformance.graph_drafts import GraphDraft, chain, chord, done, failure, fan_out, group
from windlass.testing.conformance.outcomes import DEAD

BUDGET = 25
BATCH = 90


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(tmp_path) as bench:
        yield bench


def many(make: Callable[[str], GraphDraft], count: int) -> list[GraphDraft]:
    return [make(f"g{n}") for n in range(count)]


def chain_of_3(id: str) -> GraphDraft:
    return chain(*(f"{id}{part}" for part in "abc"), id=id)


def chord_of_10(id: str) -> GraphDraft:
    members = [f"{id}m{n}" for n in range(10)]
    plan = GraphDraft(id)
    for member in members:
        plan.job(member)
    return plan.join(f"{id}j", *members).job(f"{id}body", f"{id}j").end(f"{id}body")


def diamond_of(id: str) -> GraphDraft:
    plan = (
        GraphDraft(id)
        .job(f"{id}a")
        .join(f"{id}j", f"{id}a", shape=Shape.ONE)
        .job(f"{id}b", f"{id}j")
        .job(f"{id}c", f"{id}j")
    )
    return plan.join(f"{id}k", f"{id}b", f"{id}c").job(f"{id}d", f"{id}k").end(f"{id}d")


def with_callbacks(id: str) -> GraphDraft:
    plan = group(*(f"{id}{part}" for part in "abc"), id=id)
    plan.job(f"{id}s", id, aftermath=True).job(f"{id}f", failure(id, Inject.NONE), aftermath=True)
    return plan.job(f"{id}d", done(id, Inject.NONE), aftermath=True)


def fails_fast(id: str) -> GraphDraft:
    return group(*(f"{id}{part}" for part in "abc"), id=id, fail_fast=True)


def all_kinds() -> list[GraphDraft]:
    kinds = (chain_of_3, chord_of_10, diamond_of, with_callbacks, fails_fast)
    return [make(f"{make.__name__}{n}") for n in range(12) for make in kinds]


FIRST_DIE = {f"g{n}a": DEAD for n in range(BATCH)}
WORKLOADS: dict[str, tuple[Callable[[], list[GraphDraft]], Mapping[str, Outcome]]] = {
    "chains of 3": (lambda: many(chain_of_3, BATCH), {}),
    "chains that fail": (lambda: many(chain_of_3, BATCH), FIRST_DIE),
    "chords of 10": (lambda: many(chord_of_10, 20), {}),
    "diamonds": (lambda: many(diamond_of, 60), {}),
    "a tree": (lambda: [fan_out(700)], {}),
    "groups with callbacks": (lambda: many(with_callbacks, 60), {}),
    "groups with callbacks that fail": (lambda: many(with_callbacks, 60), FIRST_DIE),
    "groups that fail fast": (lambda: many(fails_fast, 60), FIRST_DIE),
    "all kinds at once": (all_kinds, {}),
}


async def exchanges(bench: Bench, fate: Mapping[str, Outcome]) -> list[int]:
    """Play everything, as many at a time as a worker would; how many statements each exchange made."""
    worker, counts, claims = await bench.worker(), list[int](), list[Claim]()
    while claims or not counts:
        moves = [move(claim, fate.get(claim.id) or value(claim.id)) for claim in claims]
        with statements(bench) as seen:
            reply = await worker.exchange(moves, want=BATCH)
        counts.append(len(seen))
        claims = reply.claims
    return counts


@pytest.mark.parametrize("name", WORKLOADS)
async def test_an_exchange_keeps_to_its_budget(bench: Bench, name: str) -> None:
    make, fate = WORKLOADS[name]
    for plan in make():
        await bench.submit(plan)
    counts = await exchanges(bench, fate)
    assert len(counts) > 1
    assert max(counts) <= BUDGET, counts


async def test_what_is_not_kept_goes_within_the_budget(tmp_path: Path) -> None:
    async with opened(tmp_path, keep=Keep(count=0)) as bench:
        for plan in many(chain_of_3, 40):
            await bench.submit(plan)
        assert max(await exchanges(bench, {})) <= BUDGET


@pytest.mark.parametrize("many", [2, 30])
async def test_jobs_that_wait_for_graphs_share_their_statements(bench: Bench, many: int) -> None:
    ids = [f"p{n}" for n in range(many)]
    await bench.add(*ids)
    worker = await bench.worker()
    claims = await worker.claim(many)
    for id in ids:
        await bench.stage(group(f"{id}x", f"{id}y", id=f"{id}g", parent=id))
    with statements(bench) as seen:
        reply = await worker.exchange([move(one, Adopted(f"{one.id}g", replaced=True)) for one in claims], want=BATCH)
    assert len(seen) <= BUDGET, seen
    with statements(bench) as seen:
        await worker.exchange([move(claim, value(claim.id)) for claim in reply.claims], want=BATCH)
    assert len(seen) <= BUDGET, seen
    assert await bench.states(*ids) == ["succeeded"] * many


@pytest.mark.parametrize("plan", [chain("a", "b", "c"), chord(*(f"m{n}" for n in range(10))), fan_out(400)])
async def test_to_submit_keeps_to_the_budget(bench: Bench, plan: GraphDraft) -> None:
    with statements(bench) as seen:
        await bench.submit(plan)
    assert len(seen) <= 16, seen


@pytest.mark.parametrize("plan", [chain("a", "b", "c"), chord(*(f"m{n}" for n in range(10))), group("a", "b")])
async def test_to_retry_a_failed_workflow_keeps_to_the_budget(bench: Bench, plan: GraphDraft) -> None:
    await bench.submit(plan)
    worker = await bench.worker()
    await bench.play(worker, dict.fromkeys(plan.jobs, DEAD))
    await bench.drain()
    with statements(bench) as seen:
        assert (await bench.change(Action.RETRY, "g")).changed == ["g"]
    assert len(seen) <= BUDGET, seen
    await bench.play(worker)
    assert await bench.states("g") == ["succeeded"]
