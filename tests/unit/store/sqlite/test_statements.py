"""How many statements a call makes of SQLite: whatever the jobs are, no loop over them may be one of statements.

In process a statement is cheap. Engines that ask a server pay a round trip for each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from tests.unit.store.sqlite.kit import opened, statements
from windlass.core.job import NewJob
from windlass.core.limits import Limits, Rate
from windlass.core.terms import Policy, Terms
from windlass.store.answers import Accept, Answer
from windlass.store.flow import Tuning
from windlass.store.jobs import Want
from windlass.testing.conformance.bench import Bench, move, new_job
from windlass.testing.conformance.outcomes import DONE

BUDGET = 25
BATCH, BATCHES = 100, 5

Workload = Callable[[int], NewJob]


def terms(n: int, **said: object) -> NewJob:
    return new_job(f"j{n:04}", terms=Terms(**said))  # type: ignore[arg-type]


def plain(n: int) -> NewJob:
    return new_job(f"j{n:04}")


def keys(n: int) -> NewJob:
    return terms(n, key=f"k{n % 100}")


def key_limit(n: int) -> NewJob:
    return terms(n, key=f"k{n % 20}", key_limit=2)


def ordered(n: int) -> NewJob:
    return terms(n, key=f"o{n % 100}", ordered=True)


def unique(n: int) -> NewJob:
    return terms(n, unique=f"u{n}")


def mixed(n: int) -> NewJob:
    return [plain, keys, key_limit, ordered, unique][n % 5](n)


QUEUE_RATE = Tuning(name="queue:q", declared=Limits(rate=Rate(burst=10_000, every=1_000)))
QUEUE_LIMIT = Tuning(name="queue:q", declared=Limits(limit=50))
TASK_LIMIT = Tuning(name="task:t", declared=Limits(limit=50))

WORKLOADS = [
    pytest.param(plain, None, 10, id="plain"),
    pytest.param(keys, None, BUDGET, id="keys"),
    pytest.param(plain, QUEUE_RATE, BUDGET, id="queue-rate"),
    pytest.param(plain, QUEUE_LIMIT, BUDGET, id="queue-limit"),
    pytest.param(plain, TASK_LIMIT, BUDGET, id="task-limit"),
    pytest.param(key_limit, None, BUDGET, id="key-limit"),
    pytest.param(ordered, None, BUDGET, id="ordered"),
    pytest.param(unique, None, BUDGET, id="unique"),
    pytest.param(mixed, None, BUDGET, id="mixed"),
]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(tmp_path) as bench:
        yield bench


@pytest.mark.parametrize(("workload", "gate", "budget"), WORKLOADS)
async def test_a_call_makes_few_statements_whatever_its_jobs_are(
    bench: Bench, workload: Workload, gate: Tuning | None, budget: int
) -> None:
    if gate is not None:
        await bench.store.tune([gate])
    counts = {"insert": 0, "exchange": 0}
    for first in range(0, BATCHES * BATCH, BATCH):
        with statements(bench) as seen:
            answers = await bench.store.insert([workload(n) for n in range(first, first + BATCH)])
        assert all(answer.status is Accept.ACCEPTED for answer in answers)
        counts["insert"] = max(counts["insert"], len(seen))
    worker, done = await bench.worker(), 0
    while done < BATCHES * BATCH:
        moves = [move(claim, DONE) for claim in worker.held.values()]
        with statements(bench) as seen:
            reply = await worker.exchange(moves, Want([("q", BATCH)], BATCH))
        assert moves or reply.claims
        done += len(moves)
        counts["exchange"] = max(counts["exchange"], len(seen))
    assert counts == {what: min(count, budget) for what, count in counts.items()}


KINDS = [
    plain, keys, ordered, unique, lambda n: terms(n, key=f"l{n % 20}", key_limit=2),
]  # fmt: skip


@pytest.mark.parametrize("many", [2, 3, 5, 10, 20])
async def test_a_worker_of_several_queues_with_lanes_makes_no_more(bench: Bench, many: int) -> None:
    queues = [f"q{n}" for n in range(many)]
    for first in range(0, BATCHES * BATCH, BATCH):
        jobs = [KINDS[(n // many) % 5](first + n) for n in range(BATCH)]
        jobs = [msgspec.structs.replace(job, queue=queues[n % many]) for n, job in enumerate(jobs)]
        await bench.store.insert(jobs)
    worker, done, counts = await bench.worker(queues=queues), 0, []
    while done < BATCHES * BATCH:
        moves = [move(claim, DONE) for claim in worker.held.values()]
        with statements(bench) as seen:
            reply = await worker.exchange(moves, Want([(queue, BATCH) for queue in queues], BATCH))
        assert moves or reply.claims
        done += len(moves)
        counts.append(len(seen))
    assert max(counts) <= BUDGET, counts


def replace(n: int) -> NewJob:
    return terms(n, unique=f"u{n % 100}", policy=Policy.REPLACE)


def debounce(n: int) -> NewJob:
    return msgspec.structs.replace(terms(n, unique=f"u{n % 100}", policy=Policy.DEBOUNCE), delay=50 * (n % 3))


def debounce_pairs(n: int) -> NewJob:
    return msgspec.structs.replace(terms(n, unique=f"u{n // 2}", policy=Policy.DEBOUNCE), delay=50 * (n % 3))


@pytest.mark.parametrize("workload", [unique, replace, debounce, debounce_pairs])
async def test_calls_whose_keys_are_held_are_met_together(bench: Bench, workload: Workload) -> None:
    """Held by ready jobs, by running ones, and by running ones with successors; then the successors come to them."""
    worker, counts = await bench.worker(), []

    async def insert(first: int) -> list[Answer]:
        with statements(bench) as seen:
            calls = [msgspec.structs.replace(workload(n), id=f"call-{first + n}") for n in range(BATCH)]
            answers = await bench.store.insert(calls)
        counts.append(len(seen))
        return answers

    await insert(0)
    await insert(1_000)
    bench.clock.advance(1_000)
    while True:
        with statements(bench) as seen:
            reply = await worker.exchange(want=Want([("q", BATCH)], BATCH))
        counts.append(len(seen))
        if not reply.claims:
            break
    assert worker.held
    accepted = [answer.status for answer in await insert(2_000)].count(Accept.ACCEPTED)
    assert accepted == (0 if workload is unique else len(worker.held))
    await insert(3_000)
    bench.clock.advance(1_000)
    with statements(bench) as seen:
        reply = await worker.exchange(
            [move(claim, DONE) for claim in worker.held.values()], Want([("q", BATCH)], BATCH)
        )
    counts.append(len(seen))
    assert len(reply.claims) == accepted
    assert max(counts) <= BUDGET, counts


@pytest.mark.parametrize("unique", ["", "u"])
async def test_jobs_that_make_room_go_together(bench: Bench, unique: str) -> None:
    def job(n: int) -> NewJob:
        room = Terms(max_ready=50, drop_oldest=True, unique=unique and f"{unique}{n}")
        return new_job(f"j{n:04}", terms=room, priority=n % 3)

    await bench.store.insert([job(n) for n in range(60)])
    with statements(bench) as seen:
        answers = await bench.store.insert([job(n) for n in range(1_000, 1_000 + BATCH)])
    assert all(answer.status is Accept.ACCEPTED for answer in answers)
    assert await bench.counts() == {"ready": 50, "failed": 110}
    assert len(seen) <= BUDGET
