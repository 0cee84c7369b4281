"""Retention: finished jobs are kept by count, exactly, and by age, in the bucket they were filed in."""

from __future__ import annotations

import msgspec
import pytest

from windlass.core.job import State
from windlass.core.keep import Keep
from windlass.core.lifecycle import Outcome
from windlass.store.answers import Accept
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import LEASE, Bench, MakeBench, move
from windlass.testing.conformance.outcomes import DEAD, DONE, RETRY_NOW, STOPPED


async def end_each(bench: Bench, *ids: str, outcome: Outcome = DONE, **fields: str) -> None:
    for id in ids:
        await bench.ended(id, outcome, **fields)


class RetentionRules:
    """What stays and what goes, and when."""

    @pytest.mark.parametrize("outcome", [DONE, DEAD, STOPPED], ids=["succeeded", "failed", "cancelled"])
    async def test_the_count_is_kept_exactly(self, make_bench: MakeBench, outcome: Outcome) -> None:
        bench = await make_bench(keep=Keep(count=2))
        await end_each(bench, *"abcde", outcome=outcome)
        assert [await bench.state(id) is None for id in "abcde"] == [True, True, True, False, False]
        assert sum((await bench.counts()).values()) == 2

    async def test_many_jobs_that_end_in_one_exchange_are_pruned_in_it(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=3))
        await bench.add(*[f"j{n:03}" for n in range(300)])
        worker = await bench.worker()
        await worker.finish(*await worker.claim(300))
        assert await bench.counts() == {"succeeded": 3}
        assert sorted(job.id for job in await bench.everything()) == ["j297", "j298", "j299"]

    async def test_the_first_to_end_is_the_first_to_go(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=2))
        await bench.add("a", "b", "c")
        worker = await bench.worker()
        a, b, c = await worker.claim()
        for claim in (c, a, b):
            await worker.finish(claim)
        assert await bench.states("a", "b", "c") == ["succeeded", "succeeded", None]

    async def test_succeeded_and_failed_are_kept_apart(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=1, failed=Keep(count=2)))
        await end_each(bench, "s1", "s2", "s3")
        await end_each(bench, "f1", "f2", "f3", outcome=DEAD)
        assert await bench.counts() == {"succeeded": 1, "failed": 2}

    async def test_cancelled_jobs_share_the_succeeded_ones_bucket(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=2, failed=Keep(count=9)))
        await end_each(bench, "a", "b")
        await bench.add("c")
        await bench.change(Action.CANCEL, "c")
        assert await bench.states("a", "b", "c") == [None, "succeeded", "cancelled"]

    async def test_each_queue_has_its_own_bucket(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=1))
        await end_each(bench, "a1", "a2", queue="a")
        await end_each(bench, "b1", "b2", queue="b")
        assert await bench.states("a1", "a2", "b1", "b2") == [None, "succeeded", None, "succeeded"]

    async def test_a_record_may_name_its_own_buckets(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=1))
        done, failed = Keep(count=2, failed=Keep(count=3)).buckets("mine")
        await end_each(bench, "s1", "s2", "s3", keep_done=done, keep_failed=failed)
        await end_each(bench, "f1", "f2", "f3", "f4", outcome=DEAD, keep_done=done, keep_failed=failed)
        assert await bench.counts() == {"succeeded": 2, "failed": 3}

    async def test_a_bucket_is_shared_by_all_that_name_it(self, bench: Bench) -> None:
        for id, queue in [("a", "x"), ("b", "y"), ("c", "z")]:
            await bench.ended(id, queue=queue, keep_done="2|-1|shared")
        assert await bench.states("a", "b", "c") == [None, "succeeded", "succeeded"]

    async def test_the_moves_bucket_goes_before_the_records(self, bench: Bench) -> None:
        worker = await bench.worker()
        for id in ("a", "b", "c"):
            await bench.add(id, keep_done="2|-1|record", keep_failed="2|-1|record")
            await worker.settle(await worker.take(id), DONE, keep_done="1|-1|move", keep_failed="9|-1|move")
        assert await bench.states("a", "b", "c") == [None, None, "succeeded"]

    async def test_a_count_of_zero_keeps_no_record_and_still_tells_the_outcome(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        await bench.add("a")
        worker, client = await bench.worker(), await bench.client()
        await bench.store.watch("client", ["a"])
        await worker.settle(await worker.take("a"), DONE)
        assert await bench.state("a") is None
        [news] = await client.told("a")
        assert (news.state, news.result) == (State.SUCCEEDED, b'"done"')
        assert (await bench.kinds("a"))[-1] == "succeeded"

    @pytest.mark.parametrize("end", ["a cancel", "an outcome", "an expiry"])
    async def test_news_are_whole_though_the_record_is_gone(self, bench: Bench, end: str) -> None:
        kept, pruned = "9|-1|kept", "0|-1|pruned"
        worker, client = await bench.worker(), await bench.client()
        for id, bucket in (("kept", kept), ("pruned", pruned)):
            await bench.add(id, keep_done=bucket, expires_in=1_000)
        await worker.exchange([move(claim, RETRY_NOW) for claim in await worker.claim()])
        await bench.store.watch("client", ["kept", "pruned"])
        if end == "a cancel":
            await bench.change(Action.CANCEL, "kept", "pruned")
        elif end == "an outcome":
            await worker.exchange([move(claim, STOPPED) for claim in await worker.claim()])
        else:
            bench.clock.advance(1_001)
            await bench.store.sweep()
        news = {one.id: one for one in await client.told("kept", "pruned")}
        assert news["pruned"] == msgspec.structs.replace(news["kept"], id="pruned")
        assert news["kept"].error is not None

    async def test_no_limit_keeps_everything(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep())
        await end_each(bench, *"abc")
        await bench.passes(4 * LEASE)
        assert await bench.counts() == {"succeeded": 3}

    async def test_a_sweep_drops_what_is_past_its_age(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(age=3, failed=Keep(age=6)))
        await end_each(bench, "s")
        await end_each(bench, "f", outcome=DEAD)
        bench.clock.advance(2_999)
        assert (await bench.store.sweep()).pruned == 0
        bench.clock.advance(2)
        assert (await bench.store.sweep()).pruned == 1
        assert await bench.states("s", "f") == [None, "failed"]
        bench.clock.advance(3_000)
        await bench.store.sweep()
        assert await bench.counts() == {}

    async def test_a_settle_drops_what_is_past_its_age_in_its_bucket(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(age=3))
        await end_each(bench, "a", "b")
        bench.clock.advance(3_001)
        await end_each(bench, "c")
        assert await bench.states("a", "b", "c") == [None, None, "succeeded"]

    async def test_age_is_counted_from_the_end(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(age=3))
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        bench.clock.advance(5_000)
        await worker.finish(claim)
        await bench.store.sweep()
        assert await bench.state("a") == State.SUCCEEDED

    async def test_a_replayed_job_leaves_its_bucket(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=2))
        await end_each(bench, "a", "b", outcome=DEAD)
        await bench.change(Action.RETRY, "a")
        await bench.change(Action.CANCEL, "a")
        await bench.change(Action.RETRY, "a")
        await end_each_of_other_task(bench, "c", "d", "e")
        assert await bench.states("a", "b", "c", "d", "e") == ["ready", None, None, "failed", "failed"]

    async def test_a_deleted_job_leaves_its_bucket(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=2))
        await end_each(bench, "a", "b")
        await bench.change(Action.DELETE, "b")
        await end_each(bench, "c")
        assert await bench.states("a", "b", "c") == ["succeeded", None, "succeeded"]

    async def test_a_pruned_id_is_free_again(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        await end_each(bench, "a")
        [answer] = await bench.add("a", payload=b"[]")
        assert answer.status == Accept.ACCEPTED
        assert (await bench.job("a")).run == 1

    async def test_the_logs_of_a_pruned_job_are_gone(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await worker.note(claim, "one")
        await worker.finish(claim)
        assert await bench.store.lines("a") == []

    async def test_jobs_the_store_ends_by_itself_are_filed_too(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=1), unknown_after=5_000)
        await bench.add("expired-1", "expired-2", expires_in=1_000)
        for id in ("crashed-1", "crashed-2"):
            await bench.add(id, max_crashes=1, queue="c")
            await bench.crash(id, queues=["c"])
        await bench.add("unknown-1", "unknown-2", task="new", queue="u")
        old = await bench.worker("old", queues=["u"])
        assert await old.claim() == []
        await bench.passes(5_001, old)
        assert await bench.counts("q") == {"cancelled": 1}
        assert await bench.counts("c") == await bench.counts("u") == {"failed": 1}

    async def test_pruning_by_age_goes_in_bounded_steps(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(age=3))
        await bench.add(*"abcde")
        worker = await bench.worker()
        await worker.finish(*await worker.claim())
        bench.clock.advance(3_001)
        replies = [await bench.store.sweep(limit=2) for _ in range(3)]
        assert [reply.pruned for reply in replies] == [2, 2, 1]
        assert [reply.more for reply in replies] == [True, True, False]


async def end_each_of_other_task(bench: Bench, *ids: str) -> None:
    """Dead letters of task ``u``, run by a worker that leaves jobs of task ``t`` alone."""
    for id in ids:
        await bench.ended(id, DEAD, task="u")
