"""Counts and ages of queues, and that they stay exact whatever happens."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from windlass.core.job import TERMINAL, State
from windlass.core.keep import Keep
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import LEASE, Bench, Hand, MakeBench, move
from windlass.testing.conformance.outcomes import DONE, EVERY


class CountRules:
    """``queues()``."""

    async def test_jobs_are_counted_by_queue_and_state(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        await bench.add("d", delay=5)
        await bench.add("e", queue="other")
        worker = await bench.worker()
        await worker.finish(await worker.take("a"))
        await worker.take("b")
        assert await bench.counts() == {"ready": 1, "running": 1, "scheduled": 1, "succeeded": 1}
        assert await bench.counts("other") == {"ready": 1}

    async def test_the_age_of_the_oldest_ready_job_is_known(self, bench: Bench) -> None:
        await bench.add("done")
        worker = await bench.worker()
        await worker.finish(await worker.take())
        assert (await bench.queue()).oldest_ready == -1
        await bench.add("a")
        bench.clock.advance(300)
        await bench.add("b")
        bench.clock.advance(200)
        assert (await bench.queue()).oldest_ready == 500
        await worker.take("a")
        assert (await bench.queue()).oldest_ready == 200

    async def test_a_queue_that_had_jobs_is_listed(self, bench: Bench) -> None:
        await bench.add("a", queue="once")
        await bench.change(Action.DELETE, "a")
        assert await bench.counts("once") == {}

    async def test_an_empty_store_has_no_queues(self, bench: Bench) -> None:
        assert await bench.store.queues() == []

    @pytest.mark.parametrize("seed", range(4))
    async def test_counts_are_exact_after_a_random_walk(self, make_bench: MakeBench, seed: int) -> None:
        bench = await make_bench(keep=Keep(count=7, age=30, failed=Keep(count=5)), unknown_after=20_000)
        walk = RandomWalk(bench, random.Random(seed))
        for _ in range(60):
            await walk.step()
        await walk.compare()


class RandomWalk:
    """Random things happening to one store."""

    def __init__(self, bench: Bench, rng: random.Random) -> None:
        self.bench, self.rng = bench, rng
        self.hands: list[Hand] = []
        self.n = 0

    async def step(self) -> None:
        steps: list[Callable[[], Awaitable[object]]] = [
            self.insert, self.insert, self.exchange, self.exchange, self.exchange, self.change, self.time, self.die,
        ]  # fmt: skip
        await self.rng.choice(steps)()

    async def insert(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self.n += 1
            await self.bench.add(
                f"j{self.n if self.rng.random() < 0.9 else self.rng.randint(1, self.n)}",
                task=self.rng.choice("tttu"),
                queue=self.rng.choice("qr"),
                delay=self.rng.choice([0, 0, 3_000]),
                expires_in=self.rng.choice([0, 0, 8_000]),
                max_crashes=self.rng.choice([1, 2, 3]),
                priority=self.rng.randint(0, 9),
            )

    async def exchange(self) -> None:
        if len(self.hands) < 3:
            self.hands.append(await self.bench.worker(f"w{self.n}-{self.rng.random()}", queues=["q", "r"]))
        hand = self.rng.choice(self.hands)
        settled = [claim for claim in hand.held.values() if self.rng.random() < 0.6]
        moves = [move(claim, self.rng.choice([DONE, *EVERY.values()])) for claim in settled]
        reply = await hand.exchange(moves, self.rng.randint(0, 3))
        if reply.gone:
            self.hands.remove(hand)

    async def change(self) -> None:
        ids = [f"j{self.rng.randint(1, self.n + 1)}" for _ in range(3)]
        action = self.rng.choice(list(Action))
        await self.bench.change(action, *ids, queue=self.rng.choice("qr"), priority=3, payload=b"[]")

    async def time(self) -> None:
        await self.bench.passes(
            self.rng.choice([10, 3_000, LEASE]), *[h for h in self.hands if self.rng.random() < 0.8]
        )

    async def die(self) -> None:
        if self.hands:
            hand = self.hands.pop()
            await self.bench.store.leave(hand.id, crashed=self.rng.random() < 0.7)

    async def compare(self) -> None:
        """Every count is what a recount of the records gives."""
        jobs = await self.bench.everything()
        recount = Counter((job.queue, str(job.state)) for job in jobs)
        told = {
            (info.name, state): n for info in await self.bench.store.queues() for state, n in info.counts.items() if n
        }
        assert told == dict(recount)
        running = {info.presence.id: info.running for info in await self.bench.store.workers()}
        held = Counter(job.worker for job in jobs if job.state is State.RUNNING)
        assert {id: n for id, n in running.items() if n} == dict(held)
        assert not [job.id for job in jobs if job.state in TERMINAL and (job.worker or not job.finished_at)]
