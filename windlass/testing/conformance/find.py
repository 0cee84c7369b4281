"""Reading: records by id, and listings that stay put while jobs come and go."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.job import State
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Action, Query
from windlass.testing.conformance.bench import START, Bench, MakeBench, new_job
from windlass.testing.conformance.outcomes import DEAD, RETRY_LATER


async def mixed(bench: Bench) -> None:
    """Jobs of several queues, tasks, states and times, accepted in the order of the alphabet."""
    await bench.ended("a")
    await bench.ended("b", DEAD)
    await bench.ended("c", DEAD, task="u", queue="x")
    bench.clock.advance(100)
    await bench.add("d", delay=5_000)
    await bench.add("e", queue="x")
    bench.clock.advance(100)
    await bench.add("f", queue="y")
    await bench.add("g", queue="y", task="u")
    worker = await bench.worker("runner", queues=["y"])
    await worker.take("f")


FILTERS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "gfedcba"),
    "queue": ({"queue": "x"}, "ec"),
    "one state": ({"states": (State.FAILED,)}, "cb"),
    "two states": ({"states": (State.READY, State.SUCCEEDED)}, "gea"),
    "queue and state": ({"queue": "x", "states": (State.FAILED,)}, "c"),
    "task": ({"task": "u"}, "gc"),
    "fingerprint": ({"fingerprint": "value-error"}, "cb"),
    "fingerprint and task": ({"fingerprint": "value-error", "task": "t"}, "b"),
    "worker": ({"worker": "runner"}, "f"),
    "since": ({"since": START + 100}, "gfed"),
    "until": ({"until": START + 200}, "edcba"),
    "since and until": ({"since": START + 50, "until": START + 150}, "ed"),
    "everything at once": (
        {"queue": "y", "states": (State.RUNNING,), "task": "t", "worker": "runner", "since": START},
        "f",
    ),
    "no match": ({"queue": "none"}, ""),
}


class GetRules:
    """Records by id."""

    async def test_records_come_in_the_order_asked_for_none_where_there_is_none(self, bench: Bench) -> None:
        await bench.add("a", "b")
        jobs = await bench.store.get(["b", "never", "a", "b"])
        assert [job and job.id for job in jobs] == ["b", None, "a", "b"]

    async def test_no_ids_get_no_records(self, bench: Bench) -> None:
        assert await bench.store.get([]) == []

    async def test_many_records_are_one_call(self, bench: Bench) -> None:
        ids = [f"j{n}" for n in range(MAX_BATCH)]
        await bench.add(*ids)
        assert [job and job.id for job in await bench.store.get(ids)] == ids


class FindRules:
    """Listings by filter, page by page."""

    @pytest.mark.parametrize(("filters", "expected"), FILTERS.values(), ids=FILTERS.keys())
    async def test_every_given_field_must_match(self, bench: Bench, filters: dict[str, Any], expected: str) -> None:
        await mixed(bench)
        assert "".join(job.id for job in await bench.everything(**filters)) == expected
        upwards = await bench.everything(**filters, oldest_first=True)
        assert "".join(job.id for job in upwards) == expected[::-1]

    async def test_a_found_record_is_the_whole_record(self, bench: Bench) -> None:
        await mixed(bench)
        for job in await bench.everything():
            assert job == await bench.job(job.id)

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
    @pytest.mark.parametrize("filters", [{}, {"queue": "q"}, {"states": (State.FAILED, State.READY)}, {"task": "t"}])
    async def test_pages_join_without_gap_or_overlap(self, bench: Bench, filters: dict[str, Any], limit: int) -> None:
        await mixed(bench)
        whole = [job.id for job in await bench.everything(**filters)]
        assert [job.id for job in await bench.everything(**filters, limit=limit)] == whole

    async def test_a_page_holds_at_most_its_limit_and_its_cursor_goes_on(self, bench: Bench) -> None:
        await bench.add(*"abcde")
        page = await bench.store.find(Query(queue="q", limit=2))
        assert ([job.id for job in page.jobs], page.partial) == (["e", "d"], False)
        assert page.cursor
        page = await bench.store.find(Query(queue="q", limit=10, after=page.cursor))
        assert ([job.id for job in page.jobs], page.cursor, page.partial) == (["c", "b", "a"], "", False)

    async def test_no_page_is_larger_than_a_batch(self, bench: Bench) -> None:
        await bench.add(*[f"j{n}" for n in range(MAX_BATCH)])
        await bench.add("one more")
        page = await bench.store.find(Query(limit=5 * MAX_BATCH))
        assert len(page.jobs) == MAX_BATCH
        assert page.cursor

    @pytest.mark.parametrize("oldest_first", [False, True], ids=["newest first", "oldest first"])
    async def test_paging_is_not_disturbed_by_new_jobs(self, bench: Bench, oldest_first: bool) -> None:
        await bench.add(*"abcdef")
        seen, cursor = [], ""
        for n in range(20):
            page = await bench.store.find(Query(queue="q", limit=2, after=cursor, oldest_first=oldest_first))
            seen += [job.id for job in page.jobs]
            cursor = page.cursor
            if not cursor:
                break
            if n < 4:
                await bench.add(f"new-{n}")
        old = [id for id in seen if not id.startswith("new")]
        assert old == (list("abcdef") if oldest_first else list("fedcba"))
        assert len(seen) == len(set(seen))
        assert (len(seen) > 6) == oldest_first

    @pytest.mark.parametrize("oldest_first", [False, True], ids=["newest first", "oldest first"])
    async def test_paging_is_not_disturbed_by_jobs_that_go_away(self, bench: Bench, oldest_first: bool) -> None:
        await bench.add(*"abcdef")
        first = await bench.store.find(Query(queue="q", limit=2, oldest_first=oldest_first))
        await bench.change(Action.DELETE, *[job.id for job in first.jobs])
        rest = await bench.store.find(Query(queue="q", limit=9, after=first.cursor, oldest_first=oldest_first))
        assert sorted(job.id for job in [*first.jobs, *rest.jobs]) == list("abcdef")

    async def test_a_listing_by_state_is_in_order_of_acceptance_not_of_change(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        worker = await bench.worker()
        a, b, c = await worker.claim()
        for claim in (b, c, a):
            await worker.finish(claim)
        assert [job.id for job in await bench.everything(states=(State.SUCCEEDED,))] == ["c", "b", "a"]

    async def test_listings_follow_the_changes_of_a_job(self, bench: Bench) -> None:
        await bench.ended("a", DEAD)
        await bench.change(Action.MOVE, "a", queue="x")
        assert [job.id for job in await bench.everything(queue="x", states=(State.FAILED,))] == ["a"]
        await bench.change(Action.RETRY, "a")
        assert await bench.everything(states=(State.FAILED,)) == []
        assert await bench.everything(fingerprint="value-error") == []
        assert [job.id for job in await bench.everything(queue="x", states=(State.READY,))] == ["a"]

    async def test_a_job_waiting_for_its_retry_is_scheduled_with_an_attempt(self, bench: Bench) -> None:
        await bench.ended("a", RETRY_LATER)
        [job] = await bench.everything(states=(State.SCHEDULED,))
        assert (job.id, job.attempt) == ("a", 1)

    async def test_a_page_that_reached_the_scan_bound_says_so(self, make_bench: MakeBench) -> None:
        bench = await make_bench(scan_limit=10)
        await bench.store.insert([new_job(f"j{n}", task="rare" if n in (0, 17) else "t") for n in range(40)])
        found, cursor = [], ""
        for _ in range(60):
            page = await bench.store.find(Query(task="rare", limit=5, after=cursor))
            found += [job.id for job in page.jobs]
            assert page.partial == (bool(page.cursor) and len(page.jobs) < 5)
            cursor = page.cursor
            if not cursor:
                break
        assert (found, cursor) == (["j17", "j0"], "")

    async def test_a_backlog_is_found_behind_many_that_came_and_went_since(self, make_bench: MakeBench) -> None:
        """Whatever priority it has, and whether it was delayed or came back to the end of the line."""
        bench = await make_bench(scan_limit=500)
        expected = [f"j{n:04}" for n in range(2_400)]
        jobs = [
            new_job(id, queue="old", priority=n % 3 * 4, delay=1_000 if n % 700 == 0 else 0)
            for n, id in enumerate(expected)
        ]
        for start in range(0, len(jobs), 800):
            await bench.store.insert(jobs[start : start + 800])
        worker = await bench.worker()
        for round in range(3):
            await bench.add(*(f"new-{round}-{n}" for n in range(100)))
            await worker.finish(*await worker.claim(100))
        bench.clock.advance(2_000)
        await bench.store.sweep()
        await bench.change(Action.REPRIORITISE, "j0100", priority=9)
        found = await bench.everything(states=(State.READY,), limit=500)
        assert [job.id for job in found] == expected[::-1]

    async def test_a_full_page_is_not_partial(self, make_bench: MakeBench) -> None:
        bench = await make_bench(scan_limit=10)
        await bench.add(*[f"j{n}" for n in range(40)])
        page = await bench.store.find(Query(task="t", limit=5))
        assert (len(page.jobs), page.partial) == (5, False)
