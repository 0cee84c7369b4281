"""The sweep as a whole: bounded steps, nothing left undone, and when to come back."""

from __future__ import annotations

from windlass.core.keep import Keep
from windlass.store.jobs import SweepReply
from windlass.testing.conformance.bench import Bench, MakeBench


def work(reply: SweepReply) -> int:
    """How many jobs a sweep touched."""
    done = reply.promoted, reply.recovered, reply.quarantined, reply.expired, reply.parked, reply.pruned
    return sum(done)


class SweepRules:
    """What is common to everything a sweep does."""

    async def test_due_jobs_become_ready(self, bench: Bench) -> None:
        await bench.add("a", "b", delay=1_000)
        await bench.add("c", delay=1_001)
        bench.clock.advance(1_000)
        assert (await bench.store.sweep()).promoted == 2
        assert await bench.states("a", "b", "c") == ["ready", "ready", "scheduled"]

    async def test_due_jobs_become_ready_in_bounded_steps(self, bench: Bench) -> None:
        await bench.add(*"abcde", delay=1_000)
        bench.clock.advance(1_000)
        replies = [await bench.store.sweep(limit=2) for _ in range(3)]
        assert [reply.promoted for reply in replies] == [2, 2, 1]
        assert [reply.more for reply in replies] == [True, True, False]
        worker = await bench.worker()
        assert await worker.ids() == list("abcde")

    async def test_nothing_to_do_is_nothing_done(self, bench: Bench) -> None:
        await bench.add("a")
        assert await bench.store.sweep() == SweepReply()

    async def test_a_limit_is_for_all_kinds_of_work_together(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(age=1))
        await bench.add("d1", "d2", "d3")
        worker = await bench.worker()
        await worker.finish(*await worker.claim())
        await bench.add("e1", "e2", "e3", expires_in=900)
        await bench.add("s1", "s2", "s3", delay=900)
        bench.clock.advance(1_001)
        replies = [await bench.store.sweep(limit=4)]
        while replies[-1].more:
            assert len(replies) < 9
            replies.append(await bench.store.sweep(limit=4))
        assert [work(reply) <= 4 for reply in replies] == [True] * len(replies)
        assert sum(reply.promoted for reply in replies) == sum(reply.expired for reply in replies) == 3
        assert await bench.counts() == {"ready": 3, "cancelled": 3}

    async def test_next_check_of_an_empty_store_is_never(self, bench: Bench) -> None:
        assert (await bench.store.sweep()).next_check == -1
        await bench.add("a", delay=5)
        assert (await bench.store.sweep()).next_check == -1

    async def test_next_check_tells_of_the_next_expiry(self, bench: Bench) -> None:
        await bench.add("b", expires_in=9_000)
        await bench.add("a", expires_in=3_000)
        bench.clock.advance(1_000)
        assert (await bench.store.sweep()).next_check == 2_000
        bench.clock.advance(2_000)
        assert (await bench.store.sweep()).next_check == 6_000
