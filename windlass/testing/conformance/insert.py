"""Accepting jobs: one answer per job, duplicates and conflicts, and what a record says of the call."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.core.lifecycle import Failed, Succeeded
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH, Accept
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import HOUR, START, Bench, new_job
from windlass.testing.conformance.outcomes import OOPS

ODD_JSON = '{"a" :1e400,\t"a":[ "\\u0000", "ü日本", 12345678901234567890123, null ]  }'.encode()
ODD_IDS = ["ü", "заказ 42", "it's; --", 'a"b', "100%_{x}", "a|b:c*d/e", "\\n", "x" * 256, "日本"]


class InsertRules:
    """What ``insert`` promises."""

    async def test_an_unknown_id_is_accepted(self, bench: Bench) -> None:
        [answer] = await bench.add("a")
        assert (answer.status, answer.reason) == (Accept.ACCEPTED, "")
        assert await bench.state("a") == State.READY

    async def test_the_record_says_what_the_caller_said(self, bench: Bench) -> None:
        await bench.add(
            "a", task="m.f", queue="mail", payload=b'{"to":"x"}', meta=b'{"source":"s"}', version=3, priority=8,
            max_crashes=7, expires_in=60_000,
        )  # fmt: skip
        job = await bench.job("a")
        assert (job.task, job.queue, job.payload, job.meta) == ("m.f", "mail", b'{"to":"x"}', b'{"source":"s"}')
        assert (job.version, job.priority, job.max_crashes) == (3, 8, 7)
        assert (job.enqueued_at, job.expires_at) == (START, START + 60_000)

    async def test_a_fresh_record_has_no_history(self, bench: Bench) -> None:
        await bench.add("a")
        job = await bench.job("a")
        assert (job.run, job.epoch, job.attempt, job.crashes, job.snoozes) == (1, 0, 0, 0, 0)
        assert (job.started_at, job.finished_at, job.due_at, job.expires_at) == (0, 0, 0, 0)
        assert (job.result, job.error, job.progress) == (None, None, None)
        assert (job.worker, job.reason, job.fingerprint, job.cancel_requested) == ("", "", "", False)

    async def test_no_engine_looks_into_payload_and_meta(self, bench: Bench) -> None:
        await bench.add("a", payload=ODD_JSON, meta=ODD_JSON)
        worker = await bench.worker()
        claim = await worker.take("a")
        await worker.settle(claim, Succeeded(ODD_JSON))
        job = await bench.job("a")
        assert claim.payload == claim.meta == job.payload == job.meta == job.result == ODD_JSON

    @pytest.mark.parametrize("id", ODD_IDS)
    async def test_any_printable_id_works(self, bench: Bench, id: str) -> None:
        await bench.add(id)
        worker = await bench.worker()
        await worker.finish(await worker.take(id))
        assert await bench.state(id) == State.SUCCEEDED

    async def test_a_delay_is_measured_from_the_stores_now(self, bench: Bench) -> None:
        await bench.add("a", delay=2_500)
        job = await bench.job("a")
        assert (job.state, job.due_at) == (State.SCHEDULED, START + 2_500)

    async def test_an_instant_to_come_is_kept_to_the_millisecond(self, bench: Bench) -> None:
        await bench.add("a", at=START + 1)
        job = await bench.job("a")
        assert (job.state, job.due_at) == (State.SCHEDULED, START + 1)

    @pytest.mark.parametrize("at", [1, START - HOUR, START])
    async def test_an_instant_that_has_passed_means_ready_at_once(self, bench: Bench, at: int) -> None:
        await bench.add("a", at=at)
        assert await bench.state("a") == State.READY

    async def test_an_expiry_instant_is_kept(self, bench: Bench) -> None:
        await bench.add("a", expires_at=START + 777)
        assert (await bench.job("a")).expires_at == START + 777

    async def test_the_same_job_again_is_a_duplicate_and_changes_nothing(self, bench: Bench) -> None:
        await bench.add("a", priority=3)
        before = await bench.job("a")
        bench.clock.advance(10)
        [answer] = await bench.add("a", priority=9, queue="other", delay=HOUR, version=2)
        assert answer.status == Accept.DUPLICATE
        assert await bench.job("a") == before

    @pytest.mark.parametrize("other", [{"payload": b'{"x":2}'}, {"task": "u"}], ids=["payload", "task"])
    async def test_an_id_that_belongs_to_another_job_is_a_conflict(
        self, bench: Bench, other: dict[str, object]
    ) -> None:
        await bench.add("a")
        before = await bench.job("a")
        [answer] = await bench.add("a", **other)
        assert answer.status == Accept.CONFLICT
        assert answer.reason
        assert await bench.job("a") == before

    async def test_duplicates_and_conflicts_are_found_within_one_batch(self, bench: Bench) -> None:
        answers = await bench.store.insert([new_job("a"), new_job("a"), new_job("a", payload=b"{}"), new_job("b")])
        assert [answer.status for answer in answers] == ["accepted", "duplicate", "conflict", "accepted"]
        assert await bench.counts() == {"ready": 2}

    async def test_one_bad_job_never_harms_its_neighbours(self, bench: Bench) -> None:
        await bench.add("b")
        answers = await bench.store.insert([new_job("a"), new_job("b", task="u"), new_job("c", delay=5)])
        assert [answer.status for answer in answers] == ["accepted", "conflict", "accepted"]
        assert await bench.states("a", "b", "c") == ["ready", "ready", "scheduled"]

    async def test_a_job_that_runs_or_has_ended_keeps_duplicates_out(self, bench: Bench) -> None:
        await bench.ended("done")
        await bench.ended("dead", Failed(OOPS))
        await bench.add("running")
        worker = await bench.worker()
        await worker.take("running")
        answers = await bench.add("running", "done", "dead")
        assert {answer.status for answer in answers} == {Accept.DUPLICATE}
        assert await worker.claim() == []

    async def test_an_insert_of_which_the_reply_was_lost_may_be_sent_again(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        again = await bench.add("a", "b", "c")
        assert {answer.status for answer in again} == {Accept.DUPLICATE}
        worker = await bench.worker()
        assert await worker.ids() == ["a", "b", "c"]

    async def test_a_deleted_id_is_free_again(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.change(Action.DELETE, "a")
        [answer] = await bench.add("a", payload=b"[]")
        assert answer.status == Accept.ACCEPTED
        worker = await bench.worker()
        assert (await worker.take("a")).payload == b"[]"
        assert await worker.claim() == []

    async def test_no_jobs_get_no_answers(self, bench: Bench) -> None:
        assert await bench.store.insert([]) == []

    async def test_a_full_batch_is_one_call(self, bench: Bench) -> None:
        answers = await bench.add(*[f"j{n}" for n in range(MAX_BATCH)])
        assert len(answers) == MAX_BATCH
        assert await bench.counts() == {"ready": MAX_BATCH}

    async def test_more_than_a_batch_is_refused_as_a_whole(self, bench: Bench) -> None:
        with pytest.raises(StoreError):
            await bench.add(*[f"j{n}" for n in range(MAX_BATCH + 1)])
        assert await bench.states("j0", f"j{MAX_BATCH}") == [None, None]

    async def test_another_connection_sees_an_accepted_job_at_once(self, bench: Bench) -> None:
        other = await bench.connect()
        await bench.add("a")
        [job] = await other.get(["a"])
        assert job == await bench.job("a")
