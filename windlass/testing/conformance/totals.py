"""Totals: every event of a job is added up for ever, by kind, queue and task, in the step that records it."""

from __future__ import annotations

import asyncio

import pytest

from windlass.core.keep import Keep
from windlass.core.terms import Terms
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Action, Declared
from windlass.store.reads import Total
from windlass.testing.conformance.aside import set_aside
from windlass.testing.conformance.bench import LEASE, Bench, MakeBench, move, new_job
from windlass.testing.conformance.graph_drafts import GraphDraft
from windlass.testing.conformance.outcomes import BACK, DEAD, DONE, EVERY, RETRY_NOW
from windlass.testing.conformance.sums import check_sums, counted, totals_of
from windlass.testing.conformance.total_lives import LIVES


class TotalRules:
    """What is counted, and what is not."""

    async def test_there_are_no_totals_at_first(self, bench: Bench) -> None:
        assert await bench.store.totals() == []

    @pytest.mark.parametrize("name", LIVES)
    async def test_totals_add_up_every_way_a_job_can_live(self, bench: Bench, name: str) -> None:
        life, expected = LIVES[name]
        await life(bench)
        found = await totals_of(bench)
        assert {kind: n for (kind, queue, task), n in found.items() if (queue, task) == ("q", "t")} == expected
        await check_sums(bench)

    async def test_totals_are_by_kind_queue_and_task_and_in_order(self, bench: Bench) -> None:
        await bench.ended("1", DEAD, queue="r", task="u")
        await bench.ended("2", DONE, queue="q", task="u")
        await bench.ended("3", DONE, queue="q", task="t")
        assert await bench.store.totals() == [
            Total("enqueued", "q", "t", 1),
            Total("started", "q", "t", 1),
            Total("succeeded", "q", "t", 1),
            Total("enqueued", "q", "u", 1),
            Total("started", "q", "u", 1),
            Total("succeeded", "q", "u", 1),
            Total("enqueued", "r", "u", 1),
            Total("failed", "r", "u", 1),
            Total("started", "r", "u", 1),
        ]

    async def test_any_name_of_a_queue_or_task_is_counted_as_it_is(self, bench: Bench) -> None:
        names = ["\u00fc\u65e5\U0001f600", "\uffee", "it's; --", "a|b:c*d/e{x}", "a,b", "a", "A", "a b", '"']
        for n, name in enumerate(names):
            await bench.store.insert([new_job(f"{n}-{i}", queue=name, task=names[i]) for i in range(n, len(names))])
        expected = {("enqueued", q, names[i]): 1 for n, q in enumerate(names) for i in range(n, len(names))}
        assert await totals_of(bench) == expected

    async def test_a_moved_job_counts_where_it_is(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.change(Action.MOVE, "a", queue="other")
        worker = await bench.worker(queues=["other"])
        await worker.finish(await worker.take("a"))
        assert await totals_of(bench) == {
            ("enqueued", "q", "t"): 1,
            ("started", "other", "t"): 1,
            ("succeeded", "other", "t"): 1,
        }

    async def test_workers_gates_and_workflows_are_not_counted(self, bench: Bench) -> None:
        worker = await bench.worker()
        await bench.limit("queue:q", limit=3)
        await bench.submit(GraphDraft("g", name="named").job("a", queue="q", task="t").end("a"))
        await bench.play(worker)
        await bench.store.leave(worker.id)
        assert {"worker_up", "gate_changed", "workflow_started", "worker_down"} <= set(await bench.kinds())
        assert {(kind, task) for kind, _, task in await totals_of(bench)} == {
            ("enqueued", "t"),
            ("started", "t"),
            ("succeeded", "t"),
        }

    async def test_a_parked_job_counts_as_failed(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=9_000)
        await set_aside(bench, "a", "b")
        await bench.passes(LEASE + 15_000)
        assert await bench.states("a", "b") == ["failed", "failed"]
        assert (await totals_of(bench))["failed", "q", "new"] == 2
        await check_sums(bench)

    @pytest.mark.parametrize("name", EVERY)
    async def test_an_exchange_sent_again_counts_once(self, bench: Bench, name: str) -> None:
        await bench.add("a", "b", "c")
        worker = await bench.worker()
        a = await worker.take("a")
        await worker.lost_reply([move(a, EVERY[name])], want=2)
        before = await totals_of(bench)
        assert before["started", "q", "t"] == 3
        for _ in range(3):
            await worker.resend()
        assert await totals_of(bench) == before
        await check_sums(bench)

    async def test_a_refused_settle_counts_nothing(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await worker.settle(claim, BACK)
        before = await totals_of(bench)
        await worker.settle(claim, DONE)
        assert await totals_of(bench) == before

    async def test_events_that_are_not_kept_any_more_still_count(self, make_bench: MakeBench) -> None:
        bench = await make_bench(events_kept=3)
        for n in range(20):
            await bench.add(f"j{n}")
        await bench.store.sweep()
        assert len(await bench.store.events(0, limit=1_000)) <= 3
        assert await totals_of(bench) == {("enqueued", "q", "t"): 20}

    async def test_jobs_that_are_not_kept_any_more_still_count(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        for id in "abc":
            await bench.ended(id, DEAD)
        assert await bench.everything() == []
        assert (await totals_of(bench))["failed", "q", "t"] == 3
        await check_sums(bench)

    async def test_a_large_batch_counts_all_its_jobs(self, bench: Bench) -> None:
        ids = [f"j{n:04}" for n in range(MAX_BATCH)]
        await bench.store.insert([new_job(id, task="tu"[n % 2]) for n, id in enumerate(ids)])
        worker = await bench.worker(declares={"t": Declared(), "u": Declared()})
        claims = await worker.claim(MAX_BATCH)
        await worker.exchange([move(claim, DONE if claim.task == "t" else DEAD) for claim in claims])
        half = MAX_BATCH // 2
        found = await totals_of(bench)
        assert {kind: found["enqueued", "q", kind] for kind in "tu"} == {"t": half, "u": half}
        assert (found["succeeded", "q", "t"], found["failed", "q", "u"]) == (half, half)
        assert found["started", "q", "t"] == found["started", "q", "u"] == half

    async def test_another_connection_reads_the_same_totals(self, bench: Bench) -> None:
        await bench.ended("a", DONE)
        other = await bench.connect()
        assert await other.totals() == await bench.store.totals()
        await other.insert([new_job("b")])
        assert (await totals_of(bench))["enqueued", "q", "t"] == 2

    async def test_nothing_is_lost_of_what_many_add(self, bench: Bench) -> None:
        stores = [bench.store, await bench.connect()] * 4
        await asyncio.gather(
            *[store.insert([new_job(f"{n}-{i}")]) for n, store in enumerate(stores) for i in range(10)]
        )
        assert await totals_of(bench) == {("enqueued", "q", "t"): 80}

    async def test_lanes_and_gates_count_like_the_plain_order(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=2)
        await bench.store.insert([new_job(f"j{n}", terms=Terms(key=f"k{n % 3}", ordered=True)) for n in range(9)])
        worker = await bench.worker()
        assert len(await bench.play(worker, {"j4": DEAD, "j5": RETRY_NOW})) == 10
        assert await totals_of(bench) == {
            ("enqueued", "q", "t"): 9, ("started", "q", "t"): 10, ("succeeded", "q", "t"): 8,
            ("failed", "q", "t"): 1, ("retried", "q", "t"): 1,
        }  # fmt: skip
        assert await totals_of(bench) == counted(await bench.events())
