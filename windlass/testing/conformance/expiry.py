"""Jobs that were not started in time: found by a claim or by a sweep, and ended as they asked for."""

from __future__ import annotations

from windlass.core.job import State
from windlass.core.lifecycle import expired_error
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import LEASE, START, Bench
from windlass.testing.conformance.outcomes import BACK, RETRY_LATER


class ExpiryRules:
    """Waiting, scheduled and ready jobs expire; running ones do not."""

    async def test_an_expired_job_is_not_granted(self, bench: Bench) -> None:
        await bench.add("a", expires_in=1_000)
        worker = await bench.worker()
        bench.clock.advance(1_001)
        assert await worker.claim() == []
        job = await bench.job("a")
        assert (job.state, job.reason, job.finished_at) == (State.CANCELLED, "expired", START + 1_001)
        assert (job.epoch, job.error) == (0, None)

    async def test_a_job_is_granted_until_it_expires(self, bench: Bench) -> None:
        await bench.add("a", expires_in=1_000)
        worker = await bench.worker()
        bench.clock.advance(999)
        assert await worker.ids() == ["a"]

    async def test_an_expired_job_takes_no_place_in_an_exchange(self, bench: Bench) -> None:
        await bench.add("a", "b", expires_in=1)
        await bench.add("c", "d")
        worker = await bench.worker()
        bench.clock.advance(2)
        assert await worker.ids(2) == ["c", "d"]

    async def test_a_job_may_ask_to_be_a_dead_letter_then(self, bench: Bench) -> None:
        await bench.add("a", expires_in=1_000, expire_to=State.FAILED)
        worker = await bench.worker()
        bench.clock.advance(1_001)
        assert await worker.claim() == []
        job = await bench.job("a")
        assert (job.state, job.reason, job.fingerprint) == (State.FAILED, "expired", "expired")
        assert job.error == expired_error()

    async def test_a_sweep_ends_what_expired_ready_or_scheduled(self, bench: Bench) -> None:
        await bench.add("ready", expires_in=1_000)
        await bench.add("scheduled", delay=5_000, expires_in=1_000)
        await bench.add("letter", expires_in=1_000, expire_to=State.FAILED)
        await bench.add("fresh", expires_in=2_000)
        bench.clock.advance(1_001)
        assert (await bench.store.sweep()).expired == 3
        jobs = await bench.store.get(["ready", "scheduled", "letter", "fresh"])
        assert [job and job.state for job in jobs] == ["cancelled", "cancelled", "failed", "ready"]
        assert [job and job.reason for job in jobs] == ["expired", "expired", "expired", ""]
        assert (await bench.job("letter")).error == expired_error()

    async def test_a_sweep_ends_nothing_early(self, bench: Bench) -> None:
        await bench.add("a", expires_in=1_000)
        bench.clock.advance(999)
        reply = await bench.store.sweep()
        assert (reply.expired, reply.next_check) == (0, 1)

    async def test_a_running_job_does_not_expire(self, bench: Bench) -> None:
        await bench.add("a", expires_in=1_000)
        worker = await bench.worker()
        claim = await worker.take("a")
        bench.clock.advance(2_000)
        assert (await bench.store.sweep()).expired == 0
        await worker.finish(claim)

    async def test_a_job_waiting_for_its_retry_expires(self, bench: Bench) -> None:
        await bench.add("a", expires_in=1_000)
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), RETRY_LATER)
        bench.clock.advance(1_001)
        assert (await bench.store.sweep()).expired == 1
        assert await bench.state("a") == State.CANCELLED

    async def test_a_job_that_comes_back_after_its_time_is_found_by_the_sweep(self, bench: Bench) -> None:
        await bench.add("a", expires_in=1_000)
        worker = await bench.worker()
        claim = await worker.take("a")
        bench.clock.advance(1_001)
        await bench.store.sweep()
        await worker.beat()
        await worker.settle(claim, BACK)
        assert (await bench.store.sweep()).expired == 1
        assert await bench.state("a") == State.CANCELLED

    async def test_a_job_due_after_its_expiry_is_not_granted(self, bench: Bench) -> None:
        await bench.add("a", delay=2_000, expires_in=1_000)
        worker = await bench.worker()
        bench.clock.advance(2_000)
        assert await worker.claim() == []
        assert (await bench.job("a")).reason == "expired"

    async def test_a_job_that_comes_too_late_expires_too(self, bench: Bench) -> None:
        await bench.add("a", expires_at=START - 1)
        worker = await bench.worker()
        assert await worker.claim() == []
        assert (await bench.job("a")).reason == "expired"

    async def test_a_job_set_aside_expires(self, bench: Bench) -> None:
        await bench.add("a", task="unknown", expires_in=1_000)
        worker = await bench.worker()
        assert await worker.claim() == []
        bench.clock.advance(1_001)
        assert (await bench.store.sweep()).expired == 1
        assert (await bench.job("a")).reason == "expired"

    async def test_waiting_clients_are_told(self, bench: Bench) -> None:
        await bench.add("claimed", "swept", expires_in=1_000)
        client, worker = await bench.client(), await bench.worker(queues=["q"])
        await bench.store.watch("client", ["claimed", "swept"])
        bench.clock.advance(1_001)
        await worker.claim(1)
        await bench.store.sweep()
        news = await client.told("claimed", "swept")
        assert {(one.state, one.reason) for one in news} == {(State.CANCELLED, "expired")}

    async def test_both_ways_to_expire_are_events(self, bench: Bench) -> None:
        await bench.add("a", expires_in=1_000)
        await bench.add("b", expires_in=1_000, queue="other")
        await bench.add("c", expires_in=1_000, queue="other", expire_to=State.FAILED)
        worker = await bench.worker()
        bench.clock.advance(1_001)
        await worker.claim()
        await bench.store.sweep()
        found = {event.job: (event.kind, event.data) for event in await bench.events() if event.kind != "enqueued"}
        assert found["a"] == found["b"] == ("cancelled", {"reason": "expired"})
        assert found["c"] == ("failed", {"reason": "expired"})

    async def test_the_sweep_respects_its_limit(self, bench: Bench) -> None:
        await bench.add(*"abcde", expires_in=1_000)
        bench.clock.advance(1_001)
        replies = [await bench.store.sweep(limit=2) for _ in range(3)]
        assert [reply.expired for reply in replies] == [2, 2, 1]
        assert [reply.more for reply in replies] == [True, True, False]

    async def test_a_replayed_job_does_not_expire_at_once(self, bench: Bench) -> None:
        await bench.add("a", expires_in=1_000)
        bench.clock.advance(1_001)
        await bench.store.sweep()
        await bench.change(Action.RETRY, "a")
        await bench.passes(LEASE)
        worker = await bench.worker()
        assert await worker.ids() == ["a"]
