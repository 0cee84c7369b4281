"""Schedules: rows with a slot that is moved on and turned into jobs in one compare-and-set."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from windlass.core.job import NewJob, State
from windlass.core.keep import Keep
from windlass.core.terms import Policy
from windlass.errors import StoreError
from windlass.operate import timetable
from windlass.operate.timetable import Fired, Firing, Schedule
from windlass.store.answers import MAX_BATCH, Accept
from windlass.store.base import Store
from windlass.store.items import Put, put_all
from windlass.testing.conformance.bench import HOUR, START, Bench, MakeBench, new_job
from windlass.testing.conformance.unique import holder, unique_job
from windlass.testing.conformance.wake import idle_workers, woken

SLOT = START + 1_000
NEXT = START + 2_000


async def put(bench: Bench, name: str = "s", next_slot: int = SLOT, **fields: Any) -> Schedule:
    """Write a schedule over whatever is there; the store must accept it."""
    known = await row_of(bench, name) or Schedule(name=name, body=b"")
    fields.setdefault("body", b'{"every":1}')
    [row] = await timetable.put(bench.store, [replace(known, next_slot=next_slot, **fields)])
    assert row is not None
    return row


async def row_of(bench: Bench, name: str = "s") -> Schedule | None:
    return (await timetable.read_row(bench.store, name))[0]


def firing(row: Schedule, *jobs: NewJob, next_slot: int = NEXT, at: int = 0) -> Firing:
    moved = replace(row, next_slot=next_slot, fired=row.fired + len(jobs), last_slot=row.next_slot, last_at=at)
    return Firing(row, moved, [(row.next_slot, list(jobs))])


async def fire(bench: Bench, row: Schedule, *jobs: NewJob, store: Store | None = None, **fields: Any) -> Fired:
    [fired] = await timetable.fire(store or bench.store, [firing(row, *jobs, **fields)])
    return fired


async def stamp(bench: Bench) -> int:
    return (await bench.store.moment()).heeded


async def names(bench: Bench) -> list[str]:
    return [row.name for row in await timetable.read_all(bench.store)]


class ScheduleRules:
    """Writing, reading and removing rows."""

    async def test_a_schedule_is_kept_as_it_was_put(self, bench: Bench) -> None:
        row = await put(bench, body=b'{"every": [1, "\xc3\xbc"]}', paused="by hand")
        assert (row.name, row.body, row.next_slot, row.paused) == ("s", b'{"every": [1, "\xc3\xbc"]}', SLOT, "by hand")
        assert (row.fired, row.last_slot, row.last_at, row.last_job) == (0, 0, 0, "")
        assert row.version > 0
        assert await row_of(bench) == row

    async def test_every_change_gives_a_new_version(self, bench: Bench) -> None:
        versions = [(await put(bench, next_slot=SLOT + n)).version for n in range(3)]
        assert len(set(versions)) == 3
        row = await row_of(bench)
        assert row is not None
        assert row.version == versions[-1]

    async def test_only_who_knows_the_version_changes_a_row(self, bench: Bench) -> None:
        first = await put(bench)
        second = await put(bench, body=b"2")
        before = await stamp(bench)
        late, new = replace(first, body=b"3"), Schedule(name="s", body=b"4")
        assert await timetable.put(bench.store, [late, new]) == [None, None]
        assert await row_of(bench) == second
        assert await stamp(bench) == before

    async def test_a_version_of_a_row_that_is_gone_is_none(self, bench: Bench) -> None:
        row = await put(bench)
        await timetable.drop(bench.store, "s")
        assert await timetable.put(bench.store, [row]) == [None]
        again = await put(bench)
        assert again.version != row.version

    async def test_puts_of_one_call_are_independent(self, bench: Bench) -> None:
        await put(bench, "b")
        rows = await timetable.put(
            bench.store, [Schedule(name=name, body=b"{}", next_slot=n) for n, name in enumerate("abcc", 1)]
        )
        assert [row and row.name for row in rows] == ["a", None, "c", None]
        row = await row_of(bench, "c")
        assert row is not None
        assert row.next_slot == 3

    async def test_a_dropped_schedule_is_gone(self, bench: Bench) -> None:
        await put(bench, "a")
        await put(bench, "b")
        assert [await timetable.drop(bench.store, name) for name in ("a", "never")] == [True, False]
        assert await names(bench) == ["b"]
        assert not await timetable.drop(bench.store, "a")

    async def test_schedules_are_listed_by_name_however_many(self, bench: Bench) -> None:
        for name in ("c", "a", "e", "b", "d"):
            await put(bench, name)
        assert await names(bench) == ["a", "b", "c", "d", "e"]
        many = [f"n{n:04}" for n in range(MAX_BATCH)]
        await timetable.put(bench.store, [Schedule(name=name, body=b"{}") for name in many])
        assert await names(bench) == ["a", "b", "c", "d", "e", *many]

    async def test_schedules_are_found_by_name(self, bench: Bench) -> None:
        for name in ("a", "ü日本", "it's; --", "c"):
            await put(bench, name)
        found = await timetable.read_rows(bench.store, ["ü日本", "never", "it's; --"])
        assert [row.name for row in found] == ["ü日本", "it's; --"]

    async def test_one_that_cannot_be_read_keeps_none_of_the_others(self, bench: Bench) -> None:
        await put(bench, "a")
        await put_all(bench.store, [Put(shelf=timetable.SHELF, key="b", body=b"no schedule")])
        await put(bench, "c")
        assert await names(bench) == ["a", "b", "c"]
        odd = await row_of(bench, "b")
        assert odd is not None
        assert (odd.body, odd.next_slot) == (b"no schedule", 0)
        assert await timetable.drop(bench.store, "b")

    async def test_the_time_of_the_store_is_told_with_them(self, bench: Bench) -> None:
        bench.clock.advance(1_234)
        assert (await bench.store.moment()).now == START + 1_234
        await put(bench)
        bench.clock.advance(1_000)
        assert (await timetable.read_row(bench.store, "s"))[1] == START + 2_234

    async def test_another_connection_sees_a_schedule_at_once(self, bench: Bench) -> None:
        other = await bench.connect()
        row = await put(bench)
        assert await timetable.read_all(other) == [row]

    async def test_nothing_to_do_is_answered_with_nothing(self, bench: Bench) -> None:
        before = await stamp(bench)
        assert await timetable.put(bench.store, []) == []
        assert await timetable.fire(bench.store, []) == []
        assert await stamp(bench) == before


class StampRules:
    """How workers learn that a schedule changed without reading them all."""

    async def test_put_drop_and_fire_change_the_stamp(self, bench: Bench) -> None:
        seen = [await stamp(bench)]
        row = await put(bench)
        seen.append(await stamp(bench))
        await fire(bench, row)
        seen.append(await stamp(bench))
        await timetable.drop(bench.store, "s")
        seen.append(await stamp(bench))
        await put(bench)
        seen.append(await stamp(bench))
        assert len(set(seen)) == 5

    async def test_exchange_and_beat_tell_the_stamp(self, bench: Bench) -> None:
        worker = await bench.worker()
        await put(bench)
        for _ in range(2):
            now = await stamp(bench)
            assert (await worker.exchange()).schedules == now
            assert (await worker.exchange(want=3)).schedules == now
            assert (await worker.resend()).schedules == now
            assert (await worker.beat()).schedules == now
            await timetable.drop(bench.store, "s")

    async def test_what_changes_no_schedule_leaves_the_stamp(self, bench: Bench) -> None:
        row = await put(bench)
        before = await stamp(bench)
        await timetable.drop(bench.store, "never")
        await timetable.read_all(bench.store)
        assert not (await fire(bench, replace(row, version=row.version + 99), new_job("a"))).done
        await bench.add("b")
        worker = await bench.worker()
        await worker.finish(await worker.take("b"))
        await bench.store.sweep()
        assert await stamp(bench) == before

    async def test_put_and_drop_wake_one_idle_worker(self, bench: Bench) -> None:
        hands = await idle_workers(bench, 3)
        await put(bench)
        assert sorted(await woken(hands)) == [0, 0, 1]
        [told] = [hand for hand in hands if hand.mail.wakes]
        assert (await told.exchange(want=1)).schedules == await stamp(bench)
        await timetable.drop(bench.store, "s")
        assert sum(await woken(hands)) == 2

    async def test_who_is_woken_need_not_listen_to_any_queue_of_the_schedule(self, bench: Bench) -> None:
        [worker] = await idle_workers(bench, 1, queues=["far away"])
        await put(bench)
        await worker.mail.woken()


class FireRules:
    """A slot is fired once, whoever tries."""

    async def test_a_fired_slot_moves_on_and_its_jobs_are_there(self, bench: Bench) -> None:
        row = await put(bench)
        bench.clock.advance(1_003)
        fired = await fire(bench, row, new_job("a"), new_job("b", delay=5_000), at=START + 1_003)
        assert (fired.done, [answer.status for answer in fired.answers]) == (True, ["accepted", "accepted"])
        after = fired.row
        assert after is not None
        assert (after.next_slot, after.fired, after.last_slot, after.last_job) == (NEXT, 2, SLOT, "a")
        assert (after.last_at, after.body) == (START + 1_003, row.body)
        assert after.version > row.version
        assert await row_of(bench) == after
        assert await bench.states("a", "b") == ["ready", "scheduled"]

    async def test_a_slot_is_fired_once(self, bench: Bench) -> None:
        row = await put(bench)
        first = await fire(bench, row, new_job("a"))
        again = await fire(bench, row, new_job("a"))
        other = await fire(bench, row, new_job("another"))
        assert (first.done, again.done, other.done) == (True, False, False)
        assert (again.row, again.answers, other.row) == (first.row, [], first.row)
        assert await bench.state("another") is None
        assert sorted(await bench.kinds()) == ["enqueued", "schedule_fired"]

    async def test_slots_follow_one_another(self, bench: Bench) -> None:
        row = await put(bench)
        for n in range(3):
            fired = await fire(bench, row, new_job(f"j{n}"), next_slot=row.next_slot + 1_000)
            assert fired.row is not None
            row = fired.row
        assert (row.fired, row.last_slot, row.last_job, row.next_slot) == (3, SLOT + 2_000, "j2", SLOT + 3_000)

    async def test_another_version_is_not_fired(self, bench: Bench) -> None:
        row = await put(bench)
        newer = await put(bench, body=b"2")
        fired = await fire(bench, row, new_job("a"))
        assert (fired.done, fired.row, fired.answers) == (False, newer, [])
        assert await bench.state("a") is None

    async def test_a_schedule_that_was_paused_meanwhile_is_not_fired(self, bench: Bench) -> None:
        row = await put(bench)
        paused = await put(bench, paused="by hand")
        fired = await fire(bench, row, new_job("a"))
        assert (fired.done, fired.row) == (False, paused)
        assert await bench.state("a") is None

    async def test_a_dropped_schedule_is_not_fired(self, bench: Bench) -> None:
        row = await put(bench)
        await timetable.drop(bench.store, "s")
        fired = await fire(bench, row, new_job("a"))
        assert (fired.done, fired.row, fired.answers) == (False, None, [])
        assert await bench.state("a") is None

    async def test_a_slot_without_jobs_only_moves_on(self, bench: Bench) -> None:
        row = await put(bench)
        fired = await fire(bench, row)
        assert fired.done
        assert fired.row is not None
        assert (fired.row.next_slot, fired.row.fired, fired.row.last_slot) == (NEXT, 0, SLOT)

    async def test_the_last_slot_is_followed_by_none(self, bench: Bench) -> None:
        row = await put(bench)
        fired = await fire(bench, row, new_job("a"), next_slot=0)
        assert fired.row is not None
        assert fired.row.next_slot == 0

    async def test_fires_of_one_call_are_independent(self, bench: Bench) -> None:
        rows = [await put(bench, name) for name in "abc"]
        await timetable.drop(bench.store, "b")
        fired = await timetable.fire(bench.store, [firing(row, new_job(f"job of {row.name}")) for row in rows])
        assert [one.done for one in fired] == [True, False, True]
        assert await bench.states("job of a", "job of b", "job of c") == ["ready", None, "ready"]

    async def test_the_same_slot_twice_in_one_call_is_fired_once(self, bench: Bench) -> None:
        row = await put(bench)
        fired = await timetable.fire(bench.store, [firing(row, new_job("a")), firing(row, new_job("b"))])
        assert [one.done for one in fired] == [True, False]
        assert await bench.states("a", "b") == ["ready", None]

    async def test_slots_may_follow_one_another_in_one_call(self, bench: Bench) -> None:
        row = await put(bench)
        slots = [(SLOT, []), (SLOT + 5, [new_job("a")]), (SLOT + 9, [new_job("b")])]
        moved = replace(row, next_slot=NEXT, fired=2, last_slot=SLOT + 9)
        newest = await bench.newest()
        fired = await timetable.fire(bench.store, [Firing(row, moved, slots)], "w1")
        assert fired[0].done
        told = [event for event in await bench.events(newest) if event.kind == "schedule_fired"]
        assert [(event.worker, event.task, event.data) for event in told] == [
            ("w1", jobs[0].task if jobs else "", {"slot": slot, "jobs": [job.id for job in jobs]})
            for slot, jobs in slots
        ]  # fmt: skip
        after = await row_of(bench)
        assert after is not None
        assert (after.next_slot, after.fired, after.last_slot, after.last_job) == (NEXT, 2, SLOT + 9, "b")
        assert fired[-1].row == after

    async def test_one_of_many_that_come_at_once_fires(self, bench: Bench) -> None:
        row = await put(bench)
        stores = [bench.store, await bench.connect()] * 6
        tries = [fire(bench, row, new_job(f"j{n}"), store=store) for n, store in enumerate(stores)]
        fired = await asyncio.gather(*tries)
        assert sum(one.done for one in fired) == 1
        assert await bench.counts() == {"ready": 1}
        assert {one.row.last_job for one in fired if one.row} == {job.id for job in await bench.everything(queue="q")}

    async def test_a_job_that_is_there_already_is_a_duplicate_and_the_slot_is_fired(self, bench: Bench) -> None:
        await bench.add("a")
        fired = await fire(bench, await put(bench), new_job("a"), new_job("b"))
        assert (fired.done, [answer.status for answer in fired.answers]) == (True, ["duplicate", "accepted"])
        assert await bench.counts() == {"ready": 2}

    async def test_a_job_whose_key_is_held_is_a_duplicate_and_the_slot_is_fired(self, bench: Bench) -> None:
        row = await put(bench)
        first = await fire(bench, row, unique_job("a"))
        assert first.row is not None
        second = await fire(bench, first.row, unique_job("b"), next_slot=NEXT + 1_000)
        [answer] = second.answers
        assert (second.done, answer.status, answer.holder) == (True, Accept.DUPLICATE, "a")
        assert second.row is not None
        assert (second.row.last_slot, second.row.last_job) == (NEXT, "a")
        assert await bench.state("b") is None

    async def test_a_job_fired_while_the_last_one_runs_is_its_successor(self, bench: Bench) -> None:
        first = await fire(bench, await put(bench), unique_job("a", Policy.REPLACE))
        worker = await bench.worker()
        claim = await worker.take("a")
        assert first.row is not None
        second = await fire(bench, first.row, unique_job("b", Policy.REPLACE))
        assert second.row is not None
        assert (second.answers[0].status, second.row.last_job) == (Accept.ACCEPTED, "b")
        assert (await bench.state("b"), await holder(bench)) == (State.WAITING, ("a", "b"))
        await worker.finish(claim)
        await worker.take("b")

    async def test_a_fired_job_holds_its_key(self, bench: Bench) -> None:
        await fire(bench, await put(bench), unique_job("a"))
        assert await holder(bench) == ("a", "")

    async def test_fired_jobs_wake_idle_workers_like_an_insert(self, bench: Bench) -> None:
        row = await put(bench)
        hands = await idle_workers(bench, 3)
        await fire(bench, row, new_job("a"), new_job("b"))
        assert sorted(await woken(hands)) == [0, 1, 1]

    async def test_a_fired_slot_is_an_event(self, bench: Bench) -> None:
        row = await put(bench)
        newest = await bench.newest()
        await fire(bench, row, new_job("a", task="m.f", queue="mail"), new_job("b"))
        [event] = [event for event in await bench.events(newest) if event.kind == "schedule_fired"]
        assert (event.job, event.task, event.queue) == ("s", "m.f", "mail")
        assert event.data == {"slot": SLOT, "jobs": ["a", "b"]}
        assert await bench.kinds("a", newest) == ["enqueued"]

    async def test_what_is_known_of_the_last_slot_outlives_its_job(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        row = await put(bench)
        first = await fire(bench, row, new_job("a"))
        worker = await bench.worker()
        await worker.finish(await worker.take("a"))
        await bench.store.sweep()
        assert await bench.state("a") is None
        assert await row_of(bench) == first.row
        assert not (await fire(bench, row, new_job("a"))).done
        assert await bench.state("a") is None

    async def test_a_schedule_outlives_any_time(self, bench: Bench) -> None:
        row = await put(bench, next_slot=0)
        await bench.passes(10_000)
        bench.clock.advance(400 * 24 * HOUR)
        await bench.store.sweep()
        assert await row_of(bench) == row

    @pytest.mark.parametrize(
        "sizes", [[MAX_BATCH + 1], [600, 600], [0] * (MAX_BATCH + 1)], ids=["jobs", "jobs in all", "schedules"]
    )
    async def test_more_than_a_batch_is_not_fired(self, bench: Bench, sizes: Sequence[int]) -> None:
        row = await put(bench)
        firings = [firing(row, *[new_job(f"j{n}-{m}") for m in range(size)]) for n, size in enumerate(sizes)]
        with pytest.raises(StoreError):
            await timetable.fire(bench.store, firings)
        assert await row_of(bench) == row

    async def test_a_full_batch_is_fired_in_one_step(self, bench: Bench) -> None:
        row = await put(bench)
        fired = await fire(bench, row, *[new_job(f"j{n}") for n in range(MAX_BATCH)])
        assert fired.row is not None
        assert fired.row.fired == MAX_BATCH
        assert await bench.counts() == {"ready": MAX_BATCH}
