"""Commits: items, records, jobs and workflows changed in one step, or none of them."""

from __future__ import annotations

import asyncio

import pytest

from windlass.core.job import State
from windlass.core.limits import Limits
from windlass.core.terms import queue_gate
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH, Accept
from windlass.store.items import Append, Commit, Committed, Put, StreamEnd
from windlass.store.jobs import Declared
from windlass.testing.conformance.bench import START, Bench, new_job
from windlass.testing.conformance.graph_drafts import chain
from windlass.testing.conformance.wake import idle_workers, woken


def put(key: str, body: bytes | None = b"x", expect: int = 0) -> Put:
    return Put(shelf="s", key=key, body=body, expect=expect)


def new(body: bytes, expect: int = -1, stream: str = "a") -> Append:
    return Append(log="l", stream=stream, bodies=[body], expect=expect)


async def commit(bench: Bench, *items: Put, appends: list[Append] | None = None, **fields: object) -> Committed:
    [done] = await bench.store.commit([Commit(items=list(items), appends=appends or [], **fields)])  # type: ignore[arg-type]
    return done


async def traces(bench: Bench) -> tuple[int, int, list[str]]:
    """What there is: items and records by number, jobs by id."""
    jobs = sorted(job.id for job in await bench.everything())
    return len(await bench.store.shelf("s")), len(await bench.store.records("l")), jobs


class CommitRules:
    """All or nothing."""

    async def test_items_records_and_jobs_come_in_together(self, bench: Bench) -> None:
        done = await commit(bench, put("a"), put("b"), appends=[new(b"1", 0)], jobs=[new_job("j")])
        assert (done.done, done.ends, [answer.status for answer in done.answers]) == (
            True, [StreamEnd(1, 1)], [Accept.ACCEPTED],
        )  # fmt: skip
        assert [item.key for item in done.items] == ["a", "b"]
        assert await traces(bench) == (2, 1, ["j"])

    @pytest.mark.parametrize("wrong", ["item", "drop", "check", "length"])
    async def test_nothing_comes_in_where_one_thing_is_not_as_expected(self, bench: Bench, wrong: str) -> None:
        await commit(bench, put("there"), appends=[new(b"0")])
        before = await traces(bench)
        items, appends = [put("a"), put("b")], [new(b"1"), new(b"2")]
        if wrong == "item":
            items.append(put("there"))
        elif wrong == "drop":
            items.append(put("there", None, expect=9_999_999))
        elif wrong == "check":
            items.append(Put(shelf="s", key="there", expect=0))
        else:
            appends.append(new(b"3", expect=1))
        done = await commit(bench, *items, appends=appends, jobs=[new_job("j")])
        assert (done.done, done.answers, done.graph) == (False, [], None)
        assert [(item.key, item.version > 0) for item in done.items][:2] == [("a", False), ("b", False)]
        assert done.ends == [StreamEnd(1)] * len(appends)
        assert await traces(bench) == before

    async def test_what_is_expected_is_looked_at_before_anything_is_written(self, bench: Bench) -> None:
        done = await commit(bench, put("a", b"1"), put("a", b"2"))
        assert done.done
        [item] = await bench.store.items("s", ["a"])
        assert item.body == b"2"
        assert not (await commit(bench, put("a", None, expect=-1), put("a", b"3", expect=0))).done

    async def test_steps_of_one_call_are_apart_and_in_order(self, bench: Bench) -> None:
        first, second, third = await bench.store.commit([
            Commit(items=[put("a", b"1")], jobs=[new_job("j1")]),
            Commit(items=[put("a", b"2")], jobs=[new_job("j2")]),
            Commit(items=[put("b", b"3")], appends=[new(b"1", 0)]),
        ])  # fmt: skip
        assert (first.done, second.done, third.done) == (True, False, True)
        assert second.items == first.items
        assert await bench.states("j1", "j2") == [State.READY, None]

    async def test_a_commit_of_nothing_is_done(self, bench: Bench) -> None:
        assert await bench.store.commit([]) == []
        assert await bench.store.commit([Commit()]) == [Committed(done=True)]

    async def test_an_answer_stops_nothing_else(self, bench: Bench) -> None:
        await bench.add("known")
        done = await commit(
            bench, put("a"), jobs=[new_job("known"), new_job("known", payload=b"[9]"), new_job("fresh")]
        )  # fmt: skip
        assert [answer.status for answer in done.answers] == [Accept.DUPLICATE, Accept.CONFLICT, Accept.ACCEPTED]
        assert await traces(bench) == (1, 0, ["fresh", "known"])

    async def test_jobs_wake_idle_workers_like_an_insert(self, bench: Bench) -> None:
        hands = await idle_workers(bench, 3)
        await commit(bench, put("a"), jobs=[new_job("j1"), new_job("j2")])
        assert sorted(await woken(hands)) == [0, 1, 1]

    async def test_scheduled_jobs_are_due_when_they_say(self, bench: Bench) -> None:
        await commit(bench, jobs=[new_job("j", delay=5_000)])
        assert (await bench.job("j")).due_at == START + 5_000

    async def test_jobs_of_a_commit_are_events_like_any(self, bench: Bench) -> None:
        newest = await bench.newest()
        await commit(bench, jobs=[new_job("j")])
        assert await bench.kinds("j", newest) == ["enqueued"]

    async def test_an_event_is_written_with_the_step_or_not_at_all(self, bench: Bench) -> None:
        newest = await bench.newest()
        event = ("schedule_fired", "w", [["nightly", "m.f", "q", {"slot": 5}]])
        assert (await commit(bench, put("a"), event=event)).done
        assert not (await commit(bench, put("a"), event=event)).done
        [seen] = await bench.events(newest)
        assert (seen.kind, seen.job, seen.task, seen.queue, seen.data, seen.worker) == (
            "schedule_fired", "nightly", "m.f", "q", {"slot": 5}, "w",
        )  # fmt: skip

    async def test_a_workflow_comes_in_as_a_whole(self, bench: Bench) -> None:
        plan = chain("c1", "c2", "c3")
        done = await commit(bench, put("a"), graph=plan.graph, nodes=plan.nodes)
        assert done.graph is not None
        assert (done.done, done.graph.status) == (True, Accept.ACCEPTED)
        info = await bench.store.graph(plan.graph.id)
        assert info is not None
        worker = await bench.worker()
        assert len(await worker.claim()) == 1

    async def test_no_workflow_comes_in_where_an_item_is_not_as_expected(self, bench: Bench) -> None:
        await commit(bench, put("a"))
        plan = chain("c1", "c2", "c3")
        done = await commit(bench, put("a"), graph=plan.graph, nodes=plan.nodes)
        assert (done.done, done.graph) == (False, None)
        assert await bench.store.graph(plan.graph.id) is None
        assert (await commit(bench, graph=plan.graph, nodes=plan.nodes)).done

    @pytest.mark.parametrize("what", ["commits", "items", "records", "jobs", "nodes"])
    async def test_more_than_a_batch_is_refused_whole(self, bench: Bench, what: str) -> None:
        many = range(MAX_BATCH + 1)
        commits = {
            "commits": [Commit(items=[put("a")])] * len(many),
            "items": [Commit(items=[put(f"{n}") for n in many])],
            "records": [Commit(appends=[new(b"x")] * 600), Commit(appends=[new(b"x")] * 600)],
            "jobs": [Commit(items=[put("a")], jobs=[new_job(f"{n}") for n in many])],
            "nodes": [Commit(items=[put("a")], nodes=[new_job(f"{n}") for n in many])],
        }
        with pytest.raises(StoreError):
            await bench.store.commit(commits[what])
        assert await traces(bench) == (0, 0, [])

    async def test_of_many_that_come_at_once_one_is_done(self, bench: Bench) -> None:
        stores = [bench.store, await bench.connect()] * 6
        steps = [Commit(items=[put("a", b"%d" % n)], jobs=[new_job(f"j{n}")]) for n in range(len(stores))]
        answers = await asyncio.gather(*[store.commit([step]) for store, step in zip(stores, steps, strict=True)])
        assert sum(answer[0].done for answer in answers) == 1
        assert await bench.counts() == {"ready": 1}

    async def test_a_full_queue_takes_what_has_happened(self, bench: Bench) -> None:
        await bench.tune(queue_gate("q"), declared=Limits(max_ready=1))
        done = await commit(bench, jobs=[new_job("j1"), new_job("j2")])
        assert [answer.status for answer in done.answers] == [Accept.ACCEPTED] * 2

    async def test_declared_workers_take_what_came(self, bench: Bench) -> None:
        worker = await bench.worker(declares={"t": Declared()})
        await commit(bench, jobs=[new_job("j")])
        await worker.take("j")
