"""Jobs whose task a worker does not declare: set aside for workers that do, and parked if no live worker does for long
enough.
"""

from __future__ import annotations

import msgspec

from windlass.core.job import ErrorInfo, State
from windlass.store.jobs import Action, Declared, Want
from windlass.testing.conformance.bench import LEASE, Bench, Hand, MakeBench, presence

NEW = {"new": Declared()}
BOTH = {"t": Declared(), "new": Declared()}


async def set_aside(bench: Bench, *ids: str, **fields: object) -> Hand:
    """Jobs of task ``new``, which worker ``old`` has met and does not declare."""
    await bench.add(*ids, task="new", **fields)
    old = await bench.worker("old")
    assert await old.claim() == []
    return old


class AsideRules:
    """A worker takes only tasks and versions it declares."""

    async def test_an_undeclared_task_is_not_granted_and_stays_ready(self, bench: Bench) -> None:
        await set_aside(bench, "a")
        job = await bench.job("a")
        assert (job.state, job.epoch, job.worker) == (State.READY, 0, "")
        assert await bench.counts() == {"ready": 1}
        assert (await bench.queue()).oldest_ready == 0

    async def test_an_undeclared_version_is_not_granted(self, bench: Bench) -> None:
        await bench.add("v1", version=1)
        await bench.add("v2", version=2)
        await bench.add("v3", version=3)
        worker = await bench.worker(declares={"t": Declared((1, 3))})
        assert await worker.ids() == ["v1", "v3"]

    async def test_undeclared_jobs_are_not_in_the_way(self, bench: Bench) -> None:
        await bench.add(*[f"x{n}" for n in range(20)], task="new", priority=9)
        await bench.add("a", "b")
        worker = await bench.worker()
        assert [await worker.ids(1) for _ in range(3)] == [["a"], ["b"], []]

    async def test_a_worker_that_declares_it_takes_it(self, bench: Bench) -> None:
        await set_aside(bench, "a", "b")
        worker = await bench.worker("w2", declares=NEW)
        assert await worker.ids() == ["a", "b"]

    async def test_a_worker_that_declares_it_later_takes_it(self, bench: Bench) -> None:
        old = await set_aside(bench, "a")
        old.presence = presence("old", declares=BOTH)
        assert (await old.beat()).ready
        assert await old.ids() == ["a"]

    async def test_what_was_set_aside_is_merged_back_by_ready_order(self, bench: Bench) -> None:
        for n, task in enumerate(["new", "t", "new", "t", "t", "new"]):
            await bench.add(f"{task}{n}", task=task)
        await bench.add("top", task="new", priority=6)
        old = await bench.worker("old")
        await old.take("t1")
        assert await old.ids(5) == ["t3", "t4"]
        await bench.store.leave("old")
        worker = await bench.worker("w2", declares=BOTH)
        assert await worker.ids() == ["top", "new0", "t1", "new2", "t3", "t4", "new5"]

    async def test_merging_respects_what_is_wanted(self, bench: Bench) -> None:
        await set_aside(bench, "a", "b", "c")
        await bench.add("d")
        worker = await bench.worker("w2", declares=BOTH)
        assert [await worker.ids(2), await worker.ids(2)] == [["a", "b"], ["c", "d"]]

    async def test_setting_aside_wakes_idle_workers_that_declare_it(self, bench: Bench) -> None:
        new = await bench.worker("new", queues=["q", "x"], declares=NEW)
        await bench.add("a", task="new")
        assert (await new.exchange(want=Want([("x", 1)], 1))).claims == []
        await new.mail.flush()
        assert ((await new.info()).idle, new.mail.wakes) == (True, 0)
        await set_aside(bench, "a")
        await new.mail.woken()
        assert await new.ids() == ["a"]

    async def test_a_queue_handler_declares_every_task_of_its_queue(self, bench: Bench) -> None:
        await bench.add("a", task="x")
        await bench.add("b", task="y")
        worker = await bench.worker(declares={"*q": Declared()})
        assert await worker.ids() == ["a", "b"]

    async def test_a_queue_handler_declares_nothing_of_other_queues(self, bench: Bench) -> None:
        await bench.add("a", task="x", queue="other")
        worker = await bench.worker(queues=["q", "other"], declares={"*q": Declared()})
        assert await worker.claim() == []
        assert await bench.state("a") == State.READY

    async def test_a_queue_handler_takes_what_others_set_aside(self, bench: Bench) -> None:
        await set_aside(bench, "a")
        worker = await bench.worker("w2", declares={"*q": Declared()})
        assert (await worker.beat()).ready
        assert await worker.ids() == ["a"]

    async def test_jobs_set_aside_are_changed_like_any_other(self, bench: Bench) -> None:
        await set_aside(bench, "c", "d", "m", "p", "x")
        await bench.change(Action.CANCEL, "c")
        await bench.change(Action.DELETE, "d")
        await bench.change(Action.MOVE, "m", queue="other")
        await bench.change(Action.REPRIORITISE, "x", priority=9)
        worker = await bench.worker("w2", queues=["q", "other"], declares=NEW)
        assert await worker.ids() == ["x", "p", "m"]


class ParkRules:
    """What no live worker declares for ``unknown_after`` becomes a dead letter."""

    async def test_what_nobody_declares_is_parked_in_the_end(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=10_000)
        old = await set_aside(bench, "a")
        early = await bench.passes(9_999, old)
        assert not any(reply.parked for reply in early)
        assert await bench.state("a") == State.READY
        assert sum(reply.parked for reply in await bench.passes(2, old)) == 1
        job = await bench.job("a")
        assert (job.state, job.reason, job.fingerprint) == (State.FAILED, "unknown task", "unknown-task")
        assert job.error is not None
        assert msgspec.json.decode(job.error, type=ErrorInfo).type == "windlass.errors.UnknownTask"

    async def test_a_live_worker_that_declares_it_keeps_it(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=10_000)
        old = await set_aside(bench, "a")
        busy = await bench.worker("busy", declares=NEW)
        await bench.passes(30_000, old, busy)
        assert await bench.state("a") == State.READY
        assert await busy.ids() == ["a"]

    async def test_a_worker_of_other_queues_does_not_keep_it(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=10_000)
        old = await set_aside(bench, "a")
        elsewhere = await bench.worker("elsewhere", queues=["other"], declares=NEW)
        await bench.passes(15_000, old, elsewhere)
        assert await bench.state("a") == State.FAILED

    async def test_a_dead_worker_does_not_keep_it(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=10_000)
        old = await set_aside(bench, "a")
        await bench.worker("dying", declares=NEW)
        await bench.passes(LEASE + 20_000, old)
        assert await bench.state("a") == State.FAILED

    async def test_a_short_gap_between_two_workers_that_declare_it_parks_nothing(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=10_000)
        old = await set_aside(bench, "a")
        first = await bench.worker("first", declares=NEW)
        await bench.passes(30_000, old, first)
        await bench.store.leave("first")
        await bench.passes(4_000, old)
        assert await bench.state("a") == State.READY
        second = await bench.worker("second", declares=NEW)
        assert await second.ids() == ["a"]

    async def test_next_check_knows_when_to_park(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=10_000)
        old = await set_aside(bench, "a")
        bench.clock.advance(1_000)
        assert (await old.beat()).next_check == 9_000

    async def test_what_a_live_worker_keeps_asks_for_no_sweep(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=10_000)
        old = await set_aside(bench, "a")
        busy = await bench.worker("busy", declares=NEW)
        await bench.passes(12_000, old, busy)
        await bench.store.sweep()
        assert (await old.beat()).next_check > 0

    async def test_the_hour_starts_when_the_last_worker_that_declared_it_went(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=10_000)
        old = await set_aside(bench, "a")
        first = await bench.worker("first", declares=NEW)
        await bench.passes(30_000, old, first)
        await bench.store.leave("first")
        await bench.passes(9_000, old)
        assert await bench.state("a") == State.READY
        await bench.passes(11_000, old)
        assert await bench.state("a") == State.FAILED

    async def test_a_parked_job_can_be_replayed(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=10_000)
        old = await set_aside(bench, "a")
        await bench.passes(15_000, old)
        await bench.change(Action.RETRY, "a")
        worker = await bench.worker("w2", declares=NEW)
        assert await worker.ids() == ["a"]

    async def test_parking_tells_clients_and_is_an_event(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=10_000)
        client, old = await bench.client(), await set_aside(bench, "a")
        await bench.store.watch("client", ["a"])
        await bench.passes(15_000, old)
        [news] = await client.told("a")
        assert (news.state, news.reason) == (State.FAILED, "unknown task")
        assert [(event.kind, event.data) for event in await bench.events() if event.job == "a"][-1] == (
            "failed",
            {"reason": "unknown task"},
        )

    async def test_parking_goes_in_bounded_steps(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=5_000)
        await set_aside(bench, *"abcde")
        bench.clock.advance(5_001)
        replies = [await bench.store.sweep(limit=2) for _ in range(3)]
        assert [reply.parked for reply in replies] == [2, 2, 1]
        assert [reply.more for reply in replies] == [True, True, False]
