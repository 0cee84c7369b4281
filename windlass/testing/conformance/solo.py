"""A job one crash below its limit runs alone, so that no neighbour is charged for it."""

from __future__ import annotations

from windlass.core.job import State
from windlass.core.lifecycle import Crashed
from windlass.store.jobs import Action, Declared, Want
from windlass.testing.conformance.bench import LEASE, Bench, move
from windlass.testing.conformance.outcomes import DONE, OOPS, RETRY_NOW


async def add_solo(bench: Bench, id: str = "solo", **fields: int) -> None:
    """A job that has crashed once and may crash twice."""
    await bench.add(id, max_crashes=2, **fields)
    await bench.crash(id)
    assert (await bench.job(id)).crashes == 1


class SoloRules:
    """Granted only to a worker that holds nothing, and then alone."""

    async def test_an_empty_worker_takes_it_at_once_and_alone(self, bench: Bench) -> None:
        await add_solo(bench)
        await bench.add("a", "b", priority=9)
        worker = await bench.worker()
        reply = await worker.exchange(want=10)
        assert ([claim.id for claim in reply.claims], reply.drain) == (["solo"], False)

    async def test_it_still_counts_as_ready(self, bench: Bench) -> None:
        await add_solo(bench)
        worker = await bench.worker()
        assert await bench.state("solo") == State.READY
        assert await bench.counts() == {"ready": 1}
        assert (await worker.beat()).ready

    async def test_while_it_runs_its_worker_is_granted_nothing_else(self, bench: Bench) -> None:
        await add_solo(bench)
        worker = await bench.worker()
        claim = await worker.take("solo")
        await bench.add("a", priority=9)
        assert await worker.claim() == []
        reply = await worker.exchange([move(claim, DONE)], want=10)
        assert [claim.id for claim in reply.claims] == ["a"]

    async def test_a_busy_worker_reserves_it_and_drains(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        a = await worker.take("a")
        await add_solo(bench)
        reply = await worker.exchange(want=10)
        assert (reply.claims, reply.drain) == ([], True)
        reply = await worker.exchange([move(a, DONE)], want=10)
        assert ([claim.id for claim in reply.claims], reply.drain) == (["solo"], False)

    async def test_a_worker_that_drains_keeps_its_reservation_while_it_asks_for_nothing(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        first, second = await bench.worker("w1"), await bench.worker("w2")
        a, b = await first.claim(2)
        await second.take("c")
        await add_solo(bench)
        assert (await first.exchange(want=5)).drain
        assert (await first.exchange([move(a, DONE)])).drain
        assert not (await second.exchange(want=5)).drain
        reply = await first.exchange([move(b, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["solo"]

    async def test_a_crash_the_worker_charged_itself_counts(self, bench: Bench) -> None:
        await bench.add("solo", max_crashes=2)
        worker = await bench.worker()
        await worker.settle(await worker.take("solo"), Crashed(OOPS, max_crashes=2))
        await bench.add("a", priority=9)
        assert await worker.ids() == ["solo"]

    async def test_only_one_busy_worker_drains_for_it(self, bench: Bench) -> None:
        await bench.add("a", "b")
        first, second = await bench.worker("w1"), await bench.worker("w2")
        await first.take("a")
        await second.take("b")
        await add_solo(bench)
        await bench.add("c")
        assert (await first.exchange(want=5)).drain
        reply = await second.exchange(want=5)
        assert ([claim.id for claim in reply.claims], reply.drain) == (["c"], False)
        assert (await first.exchange(want=5)).drain

    async def test_the_reservation_of_a_worker_that_left_is_free(self, bench: Bench) -> None:
        await bench.add("a", "b")
        first, second = await bench.worker("w1"), await bench.worker("w2")
        await first.take("a")
        await second.take("b")
        await add_solo(bench)
        assert (await first.exchange(want=5)).drain
        assert not (await second.exchange(want=5)).drain
        await bench.store.leave("w1")
        assert (await second.exchange(want=5)).drain

    async def test_the_reservation_of_a_worker_whose_lease_is_over_is_free(self, bench: Bench) -> None:
        await bench.add("a", "b")
        first, second = await bench.worker("w1"), await bench.worker("w2")
        await first.take("a")
        await second.take("b")
        await add_solo(bench)
        assert (await first.exchange(want=5)).drain
        await bench.passes(LEASE + 1, second)
        assert (await second.exchange(want=5)).drain

    async def test_one_that_went_back_is_reserved_anew(self, bench: Bench) -> None:
        await bench.add("a")
        busy = await bench.worker("w1")
        await busy.take("a")
        await add_solo(bench)
        other = await bench.worker("w2")
        await other.take("solo")
        await other.beat(held=[])
        assert (await busy.exchange(want=5)).drain

    async def test_an_empty_worker_takes_it_even_from_one_that_drains(self, bench: Bench) -> None:
        await bench.add("a")
        busy = await bench.worker("w1")
        await busy.take("a")
        await add_solo(bench)
        assert (await busy.exchange(want=5)).drain
        empty = await bench.worker("w2")
        await empty.take("solo")
        await bench.add("b")
        reply = await busy.exchange(want=5)
        assert ([claim.id for claim in reply.claims], reply.drain) == (["b"], False)

    async def test_its_crash_is_charged_to_nobody_else(self, bench: Bench) -> None:
        await add_solo(bench)
        await bench.add("a", "b")
        worker = await bench.worker()
        await worker.claim()
        await bench.store.leave("w1", crashed=True)
        assert await bench.state("solo") == State.FAILED
        assert [(await bench.job(id)).crashes for id in ("a", "b")] == [0, 0]

    async def test_a_job_that_may_crash_once_is_no_solo(self, bench: Bench) -> None:
        await bench.add("a", "b", max_crashes=1)
        worker = await bench.worker()
        assert await worker.ids() == ["a", "b"]

    async def test_two_solos_run_one_after_the_other(self, bench: Bench) -> None:
        await add_solo(bench, "one")
        await bench.add("two", max_crashes=2)
        other = await bench.worker("other")
        await other.take("one")
        await bench.crash("two")
        await bench.store.leave("other")
        worker = await bench.worker()
        [first] = await worker.claim(5)
        reply = await worker.exchange([move(first, DONE)], want=5)
        assert [first.id, *(claim.id for claim in reply.claims)] == ["one", "two"]

    async def test_it_stays_one_over_a_retry(self, bench: Bench) -> None:
        await add_solo(bench)
        worker = await bench.worker()
        await worker.settle(await worker.take("solo"), RETRY_NOW)
        await bench.add("a")
        assert await worker.ids() == ["solo"]

    async def test_it_waits_for_its_crash_delay(self, bench: Bench) -> None:
        await add_solo(bench, crash_delay=1_000)
        await bench.add("a")
        worker = await bench.worker()
        a = await worker.take("a")
        bench.clock.advance(1_000)
        assert (await worker.exchange(want=5)).drain
        reply = await worker.exchange([move(a, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["solo"]

    async def test_only_workers_that_declare_it_take_it_or_drain(self, bench: Bench) -> None:
        await add_solo(bench)
        await bench.add("a", "b", task="u")
        worker = await bench.worker(declares={"u": Declared()})
        assert await worker.ids(1) == ["a"]
        reply = await worker.exchange(want=5)
        assert ([claim.id for claim in reply.claims], reply.drain) == (["b"], False)

    async def test_a_queue_that_is_not_wanted_gives_no_solo(self, bench: Bench) -> None:
        await add_solo(bench)
        await bench.add("x", queue="other")
        worker = await bench.worker(queues=["q", "other"])
        reply = await worker.exchange(want=Want([("q", 0), ("other", 5)], 5))
        assert [claim.id for claim in reply.claims] == ["x"]

    async def test_it_can_be_cancelled_moved_and_deleted_like_any_other(self, bench: Bench) -> None:
        for id in ("c", "m", "d"):
            await add_solo(bench, id)
            await bench.change(Action.MOVE, id, queue="other")
        await bench.change(Action.CANCEL, "c")
        await bench.change(Action.DELETE, "d")
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["other"])
        assert await worker.claim() == []
        assert await other.ids() == ["m"]

    async def test_a_replay_makes_it_an_ordinary_job_again(self, bench: Bench) -> None:
        await add_solo(bench)
        await bench.change(Action.CANCEL, "solo")
        await bench.change(Action.RETRY, "solo")
        await bench.add("a")
        worker = await bench.worker()
        assert await worker.ids() == ["solo", "a"]

    async def test_it_expires_like_any_other(self, bench: Bench) -> None:
        await add_solo(bench, expires_in=1_000)
        bench.clock.advance(1_001)
        worker = await bench.worker()
        assert await worker.claim() == []
        await bench.store.sweep()
        assert await bench.state("solo") == State.CANCELLED
