"""The event stream: one entry per write, ordered, bounded, and resumable."""

from __future__ import annotations

from windlass.core.event import KINDS, expand
from windlass.core.job import State
from windlass.core.lifecycle import Crashed, Failed, Outcome
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import HOUR, START, Bench, MakeBench, move, new_job
from windlass.testing.conformance.graph_drafts import chain
from windlass.testing.conformance.outcomes import BACK, DEAD, DONE, OOPS, RETRY_LATER, SNOOZE, STOPPED


class EventRules:
    """What is told of what happened, in which order, and for how long."""

    async def test_an_accepted_job_is_an_event(self, bench: Bench) -> None:
        bench.clock.advance(3)
        await bench.add("a", task="m.f", queue="mail")
        [event] = await bench.events()
        assert (event.kind, event.job, event.task, event.queue, event.at) == ("enqueued", "a", "m.f", "mail", START + 3)

    async def test_a_batch_is_one_entry(self, bench: Bench) -> None:
        await bench.add("a", "b", "c", delay=5)
        [entry] = await bench.store.events(0)
        assert [(event.kind, event.job) for event in expand(entry)] == [("enqueued", id) for id in "abc"]

    async def test_duplicates_are_events_and_conflicts_are_none(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.store.insert([new_job("a"), new_job("a", task="u")])
        assert await bench.kinds() == ["enqueued", "duplicate"]

    async def test_an_exchange_is_one_entry_settles_first_then_starts(self, bench: Bench) -> None:
        await bench.add("a", "b", "c", "d")
        worker = await bench.worker()
        a, b = await worker.claim(2)
        newest = await bench.newest()
        await worker.exchange([move(a, DONE), move(b, DEAD)], want=2)
        [entry] = await bench.store.events(newest)
        kinds = [(event.kind, event.job, event.worker) for event in expand(entry)]
        assert sorted(kinds[:2]) == [("failed", "b", "w1"), ("succeeded", "a", "w1")]
        assert kinds[2:] == [("started", "c", "w1"), ("started", "d", "w1")]

    async def test_each_outcome_is_an_event_of_its_own_kind(self, bench: Bench) -> None:
        outcomes: dict[str, Outcome] = {
            "succeeded": DONE,
            "failed": DEAD,
            "retried": RETRY_LATER,
            "snoozed": SNOOZE,
            "cancelled": STOPPED,
        }
        for kind, outcome in {**outcomes, "released": BACK}.items():
            await bench.ended(kind, outcome)
            assert await bench.kinds(kind) == ["enqueued", "started", kind]

    async def test_retries_and_snoozes_tell_their_delay_and_failures_their_reason(self, bench: Bench) -> None:
        await bench.ended("r", RETRY_LATER)
        await bench.ended("s", SNOOZE)
        await bench.ended("f", DEAD)
        data = {event.kind: event.data for event in await bench.events()}
        assert data["retried"] == {"delay": 2_000}
        assert data["snoozed"] == {"delay": 3_000}
        assert data["failed"] == {"reason": "no retries left"}

    async def test_every_failure_says_why(self, bench: Bench) -> None:
        await bench.ended("a", Failed(OOPS))
        await bench.add("b", max_crashes=1)
        await bench.crash("b")
        await bench.add("late", expires_in=5, expire_to=State.FAILED)
        bench.clock.advance(5)
        await bench.store.sweep()
        await bench.add("once")
        worker = await bench.worker()
        await worker.settle(await worker.take("once"), Crashed(OOPS, 1))
        failed = {event.job: event.data for event in await bench.events() if event.kind == "failed"}
        assert failed.keys() == {"a", "b", "late", "once"}
        assert all(data and data["reason"] for data in failed.values()), failed
        assert failed["a"] == {"reason": OOPS.type}

    async def test_replay_and_delete_are_events(self, bench: Bench) -> None:
        await bench.ended("a", DEAD)
        await bench.change(Action.RETRY, "a")
        await bench.change(Action.DELETE, "a")
        assert (await bench.kinds("a"))[-2:] == ["replayed", "deleted"]

    async def test_progress_and_log_are_events(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.note(await worker.take("a"), "hello", progress=b'{"percent":5}')
        assert (await bench.kinds("a"))[-2:] == ["progress", "log"]
        [progress] = [event for event in await bench.events() if event.kind == "progress"]
        assert progress.data == {"percent": 5}

    async def test_every_kind_is_a_known_one(self, bench: Bench) -> None:
        await bench.ended("a", DEAD)
        await bench.change(Action.RETRY, "a")
        await bench.crash("a")
        await bench.add("a")
        await bench.change(Action.CANCEL, "a")
        await bench.change(Action.DELETE, "a")
        assert set(await bench.kinds()) <= KINDS

    async def test_what_changes_nothing_is_no_event(self, bench: Bench) -> None:
        worker = await bench.worker()
        newest = await bench.newest()
        await worker.beat()
        await worker.exchange(want=5)
        await bench.store.sweep()
        await bench.store.insert([])
        await bench.change(Action.DELETE, "never")
        await bench.store.queues()
        assert await bench.newest() == newest

    async def test_a_refused_write_is_no_event(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await worker.settle(claim, BACK)
        newest = await bench.newest()
        await worker.settle(claim, DONE)
        await worker.note(claim, "late")
        assert await bench.newest() == newest

    async def test_entries_are_numbered_upwards_and_timed(self, bench: Bench) -> None:
        for n in range(5):
            bench.clock.advance(1)
            await bench.add(f"j{n}")
        entries = await bench.store.events(0)
        assert [entry.at for entry in entries] == [START + n for n in range(1, 6)]
        seqs = [entry.seq for entry in entries]
        assert seqs == sorted(set(seqs))
        assert seqs[0] > 0

    async def test_the_stream_is_resumable(self, bench: Bench) -> None:
        for n in range(7):
            await bench.add(f"j{n}")
        seen, after = [], 0
        while page := await bench.store.events(after, limit=3):
            assert len(page) <= 3
            seen += [event.job for entry in page for event in expand(entry)]
            after = page[-1].seq
        assert seen == [f"j{n}" for n in range(7)]
        await bench.add("next")
        assert [event.job for entry in await bench.store.events(after) for event in expand(entry)] == ["next"]

    async def test_minus_one_answers_the_newest_entry_only(self, bench: Bench) -> None:
        assert await bench.store.events(-1) == []
        await bench.add("a")
        await bench.add("b")
        [entry] = await bench.store.events(-1)
        assert [event.job for event in expand(entry)] == ["b"]

    async def test_the_stream_is_bounded_and_goes_on_counting(self, make_bench: MakeBench) -> None:
        bench = await make_bench(events_kept=5)
        for n in range(12):
            await bench.add(f"j{n}")
        await bench.store.sweep()
        entries = await bench.store.events(0, limit=1_000)
        assert [event.job for entry in entries for event in expand(entry)] == [f"j{n}" for n in range(7, 12)]
        await bench.add("next")
        [newest] = await bench.store.events(-1)
        assert newest.seq > entries[-1].seq

    async def test_another_connection_reads_the_same_stream(self, bench: Bench) -> None:
        other = await bench.connect()
        await bench.add("a")
        await other.insert([new_job("b")])
        assert await other.events(0) == await bench.store.events(0)
        assert [event.job for event in await bench.events()] == ["a", "b"]


class EventKindRules:
    """Reading only some kinds."""

    async def test_only_groups_of_these_kinds_are_answered(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        worker = await bench.worker()
        a, b = await worker.claim(2)
        bench.clock.advance(7)
        newest = await bench.newest()
        await worker.exchange([move(a, DONE), move(b, DEAD)], want=1)
        [whole] = await bench.store.events(newest)
        for kinds in (["failed"], ["started", "succeeded"], ["started", "failed", "succeeded", "lost"]):
            [entry] = await bench.store.events(newest, kinds=kinds)
            assert (entry.seq, entry.at) == (whole.seq, START + 7)
            assert entry.groups == [group for group in whole.groups if group[0] in kinds]
            assert {event.kind for event in expand(entry)} == {*kinds} - {"lost"}

    async def test_entries_without_these_kinds_are_passed_over(self, bench: Bench) -> None:
        await bench.add("a", delay=HOUR)
        await bench.ended("b", DEAD)
        await bench.add("c")
        await bench.add("a")
        entries = await bench.store.events(0, kinds=["failed", "duplicate"])
        assert [(event.kind, event.job) for entry in entries for event in expand(entry)] == [
            ("failed", "b"),
            ("duplicate", "a"),
        ]
        assert await bench.store.events(entries[-1].seq, kinds=["failed", "duplicate"]) == []
        assert await bench.store.events(0, kinds=["cancelled"]) == []

    async def test_no_kinds_are_all_kinds(self, bench: Bench) -> None:
        await bench.ended("a", DEAD)
        assert await bench.store.events(0, kinds=[]) == await bench.store.events(0)
        assert await bench.store.events(0, kinds=sorted(KINDS)) == await bench.store.events(0)

    async def test_the_limit_counts_only_what_is_answered(self, bench: Bench) -> None:
        """Also over stretches longer than any page an engine may read at once."""
        rare = []
        for n in range(5):
            for i in range(0 if n == 3 else 130):
                await bench.add(f"{n}-{i}")
            await bench.add(f"{n}-0" if n != 3 else "0-0")
            rare.append(await bench.newest())
        seen, after = [], 0
        while page := await bench.store.events(after, limit=2, kinds=["duplicate"]):
            assert len(page) <= 2
            seen += [entry.seq for entry in page]
            after = page[-1].seq
        assert seen == rare
        assert [entry.seq for entry in await bench.store.events(rare[0], limit=1, kinds=["duplicate"])] == [rare[1]]

    async def test_minus_one_answers_the_newest_entry_of_these_kinds(self, bench: Bench) -> None:
        assert await bench.store.events(-1, kinds=["enqueued"]) == []
        await bench.add("a", "b", delay=HOUR)
        await bench.ended("c", DEAD)
        failed = await bench.store.events(-1, kinds=["failed"])
        await bench.ended("d", DONE)
        for n in range(130):
            await bench.add(f"j{n}")
        [entry] = await bench.store.events(-1, kinds=["duplicate", "failed"])
        assert [(event.kind, event.job) for event in expand(entry)] == [("failed", "c")]
        assert [entry] == failed
        assert await bench.store.events(-1, kinds=["skipped"]) == []

    async def test_a_kind_that_nobody_knows_has_no_events(self, bench: Bench) -> None:
        await bench.add("a")
        assert await bench.store.events(0, kinds=["enq", "enqueued,", "'", "%"]) == []

    async def test_kinds_of_workers_and_workflows_are_found_too(self, bench: Bench) -> None:
        await bench.submit(chain("a"))
        worker = await bench.worker()
        await worker.finish(await worker.take("a"))
        entries = await bench.store.events(0, kinds=["worker_up", "workflow_succeeded"])
        assert [(event.kind, event.job) for entry in entries for event in expand(entry)] == [
            ("worker_up", ""),
            ("workflow_succeeded", "g"),
        ]
