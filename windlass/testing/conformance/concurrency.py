"""Many at once, over two connections: every job is granted once, ends once, and is told once."""

from __future__ import annotations

import asyncio
from collections import Counter

from windlass.core.job import State
from windlass.store.answers import Accept
from windlass.store.jobs import Action, Change
from windlass.testing.conformance.bench import LEASE, Bench, Hand, move, new_job
from windlass.testing.conformance.outcomes import BACK, DONE


class ConcurrencyRules:
    """Each call is one atomic step, also for those who come at the same moment."""

    async def test_no_job_is_granted_twice(self, bench: Bench) -> None:
        for n in range(5):
            await bench.add(*[f"j{n}-{m}" for m in range(60)])
        other = await bench.connect()
        hands = [await bench.worker(f"w{n}", store=(bench.store, other)[n % 2]) for n in range(8)]
        granted = await asyncio.gather(*[drain(hand, 7) for hand in hands])
        times = Counter(id for ids in granted for id in ids)
        assert (len(times), set(times.values())) == (300, {1})
        assert await bench.counts() == {"succeeded": 300}

    async def test_jobs_come_and_go_at_the_same_time(self, bench: Bench) -> None:
        other = await bench.connect()
        hands = [await bench.worker(f"w{n}", store=(bench.store, other)[n % 2]) for n in range(4)]

        async def feed(name: str) -> None:
            for n in range(20):
                await bench.add(f"{name}-{n}", f"{name}-{n}-b")

        async def work(hand: Hand) -> list[str]:
            return [id for _ in range(15) for id in await drain(hand, 3)]

        feeding = asyncio.gather(feed("x"), feed("y"))
        taken = await asyncio.gather(*[work(hand) for hand in hands])
        await feeding
        rest = await drain(hands[0], 50)
        assert Counter([*rest, *(id for ids in taken for id in ids)]) == Counter(
            f"{name}-{n}{end}" for name in "xy" for n in range(20) for end in ("", "-b")
        )

    async def test_one_id_is_accepted_once(self, bench: Bench) -> None:
        other = await bench.connect()
        stores = [bench.store, other] * 8
        answers = await asyncio.gather(*[store.insert([new_job("same")]) for store in stores])
        statuses = Counter(answer.status for [answer] in answers)
        assert statuses == {Accept.ACCEPTED: 1, Accept.DUPLICATE: 15}

    async def test_cancel_and_settle_have_one_winner(self, bench: Bench) -> None:
        other = await bench.connect()
        worker = await bench.worker()
        for n in range(10):
            await bench.add(f"j{n}")
            claim = await worker.take()
            settle = worker.exchange([move(claim, BACK if n % 2 else DONE)])
            cancel = other.change(Change(action=Action.CANCEL), [claim.id])
            _, reply = await asyncio.gather(settle, cancel)
            job = await bench.job(claim.id)
            assert job.state == (State.CANCELLED if n % 2 else State.SUCCEEDED)
            assert reply.changed or reply.skipped == {claim.id: "succeeded"}

    async def test_nothing_ends_between_asking_and_being_told(self, bench: Bench) -> None:
        other = await bench.connect()
        client, worker = await bench.client(store=other), await bench.worker()
        for n in range(20):
            id = f"j{n}"
            await bench.add(id)
            claim = await worker.take(id)
            reply, _ = await asyncio.gather(other.watch("client", [id]), worker.settle(claim, DONE))
            if not reply.finished:
                await client.told(id)
        await client.flush()
        assert len(client.news) == len({one.id for one in client.news})

    async def test_sweeps_at_the_same_time_recover_once(self, bench: Bench) -> None:
        await bench.add(*[f"j{n}" for n in range(20)])
        other = await bench.connect()
        worker, alive = await bench.worker("w1"), await bench.worker("w2")
        await worker.claim(20)
        for _ in range(3):
            bench.clock.advance(LEASE // 3)
            await alive.beat()
        bench.clock.advance(1)
        replies = await asyncio.gather(*[store.sweep() for store in (bench.store, other) * 3])
        assert sum(reply.recovered for reply in replies) == 20
        assert {job.crashes for job in await bench.everything()} == {1}

    async def test_the_same_exchange_twice_at_once_is_applied_once(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        worker = await bench.worker()
        worker.seq, worker.last = 1, ([], worker.last[1].__class__([("q", 2)], 2))
        first, second = await asyncio.gather(worker.resend(), worker.resend())
        assert first.claims == second.claims
        assert [claim.epoch for claim in first.claims] == [1, 1]
        assert await bench.state("c") == State.READY


async def drain(hand: Hand, batch: int) -> list[str]:
    """Claim and finish until nothing is left; the ids granted."""
    granted: list[str] = []
    moves: list[str] = []
    claims = await hand.claim(batch)
    while claims:
        granted += [claim.id for claim in claims]
        reply = await hand.exchange([move(claim, DONE) for claim in claims], batch)
        moves += reply.refused
        claims = reply.claims
    assert not moves
    return granted
