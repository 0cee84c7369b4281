"""Unique keys whose policy changes the holder: replace and debounce."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.core.lifecycle import Outcome
from windlass.core.terms import Policy
from windlass.store.answers import Accept
from windlass.store.jobs import Declared
from windlass.testing.conformance.bench import HOUR, START, Bench
from windlass.testing.conformance.graph_adopt import adopt, inner
from windlass.testing.conformance.unique import AGAIN, DEBOUNCE, KEEP, REPLACE, REPLACING, call, holder, succeeded_by


class UniqueReplaceRules:
    """A holder that has not started takes over the arguments of the last call."""

    @pytest.mark.parametrize("fields", [{}, {"delay": HOUR}], ids=["ready", "scheduled"])
    async def test_the_holder_gets_the_arguments_of_the_call(self, bench: Bench, fields: dict[str, int]) -> None:
        await call(bench, "a", REPLACE, **fields)
        before = await bench.job("a")
        bench.clock.advance(10)
        answer = await call(bench, "b", REPLACE, payload=b"[2]", meta=b'{"source":"s"}', version=2, priority=7, delay=9)
        assert (answer.status, answer.holder) == (Accept.REPLACED, "a")
        after = await bench.job("a")
        assert (after.payload, after.meta, after.version, after.priority) == (b"[2]", b'{"source":"s"}', 2, 7)
        assert (after.state, after.due_at, after.enqueued_at) == (before.state, before.due_at, before.enqueued_at)
        assert (after.run, after.attempt, after.queue, after.task) == (1, 0, "q", "t")
        assert await bench.state("b") is None
        assert await holder(bench) == ("a", "")

    async def test_a_replaced_holder_is_an_event_of_its_own(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE)
        await call(bench, "b", REPLACE)
        assert await bench.kinds() == ["enqueued", "replaced"]
        assert await bench.kinds("a") == ["enqueued", "replaced"]

    @pytest.mark.parametrize("priority", [1, 5, 9])
    async def test_a_replaced_holder_keeps_its_place(self, bench: Bench, priority: int) -> None:
        await bench.add("first")
        await call(bench, "a", REPLACE)
        await bench.add("last")
        await call(bench, "b", REPLACE, priority=priority)
        worker = await bench.worker()
        claims = await worker.claim()
        assert [claim.id for claim in claims] == ["first", "a", "last"]
        assert (claims[1].payload, claims[1].priority) == (b'"b"', priority)

    async def test_a_scheduled_holder_has_its_new_priority_when_due(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE, delay=1_000)
        await bench.add("other")
        await call(bench, "b", REPLACE, priority=9)
        bench.clock.advance(1_000)
        worker = await bench.worker()
        assert await worker.ids() == ["a", "other"]

    async def test_the_last_call_counts(self, bench: Bench) -> None:
        for id in "abcde":
            await call(bench, id, REPLACE)
        worker = await bench.worker()
        [claim] = await worker.claim()
        assert (claim.id, claim.payload) == ("a", b'"e"')

    async def test_a_call_that_keeps_changes_no_holder_and_one_that_replaces_changes_any(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE)
        assert (await call(bench, "b", KEEP)).status is Accept.DUPLICATE
        assert (await bench.job("a")).payload == b'"a"'
        await call(bench, "x", KEEP, key="other")
        assert (await call(bench, "y", REPLACE, key="other")).status is Accept.REPLACED
        assert (await bench.job("x")).payload == b'"y"'

    @pytest.mark.parametrize("policy", REPLACING)
    async def test_another_task_replaces_nothing(self, bench: Bench, policy: Policy) -> None:
        await call(bench, "a", policy, delay=1_000)
        before = await bench.job("a")
        answer = await call(bench, "b", policy, task="u")
        assert answer.status is Accept.REFUSED
        assert answer.reason
        assert await bench.job("a") == before

    @pytest.mark.parametrize("outcome", AGAIN.values(), ids=AGAIN)
    async def test_a_holder_that_will_run_again_is_replaced_too(self, bench: Bench, outcome: Outcome) -> None:
        await call(bench, "a", REPLACE)
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), outcome)
        before = await bench.job("a")
        answer = await call(bench, "b", REPLACE)
        assert (answer.status, answer.holder) == (Accept.REPLACED, "a")
        after = await bench.job("a")
        assert (after.attempt, after.snoozes, after.due_at) == (before.attempt, before.snoozes, before.due_at)
        bench.clock.advance(5_000)
        assert (await worker.take("a")).payload == b'"b"'

    async def test_a_holder_that_waits_for_its_children_is_replaced_too(self, bench: Bench) -> None:
        await call(bench, "p", REPLACE)
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await adopt(bench, worker, await worker.take("p"), inner("x"))
        assert (await call(bench, "b", REPLACE)).holder == "p"
        assert await bench.state("p") == State.WAITING
        await bench.play(other)
        claim = await worker.take("p")
        assert (claim.payload, claim.awaits) == (b'"b"', "c")

    async def test_a_holder_that_was_set_aside_is_found_under_its_new_version(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE, version=2)
        worker, newer = await bench.worker("w1"), await bench.worker("w2", declares={"t": Declared((2,))})
        assert await worker.claim() == []
        assert (await call(bench, "b", REPLACE, version=1)).status is Accept.REPLACED
        assert await newer.claim() == []
        claim = await worker.take("a")
        assert (claim.version, claim.payload) == (1, b'"b"')

    async def test_a_replaced_holder_is_known_by_its_new_arguments(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE)
        await call(bench, "b", REPLACE)
        assert (await call(bench, "a", REPLACE, payload=b'"b"')).status is Accept.DUPLICATE

    async def test_a_call_sent_again_replaces_once_more_and_makes_no_second(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE)
        for _ in range(2):
            assert (await call(bench, "b", REPLACE)).status is Accept.REPLACED
        assert await bench.counts() == {"ready": 1}

    async def test_replacing_wakes_nobody(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE, delay=HOUR)
        worker = await bench.worker()
        assert await worker.claim() == []
        await call(bench, "b", REPLACE)
        await worker.mail.flush()
        assert worker.mail.wakes == 0


class DebounceRules:
    """A holder that has not started is put off by every call."""

    async def test_every_call_begins_the_delay_anew(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=1_000)
        for id in "bcd":
            bench.clock.advance(900)
            answer = await call(bench, id, DEBOUNCE, delay=1_000)
            assert (answer.status, answer.holder) == (Accept.REPLACED, "a")
        worker = await bench.worker()
        bench.clock.advance(999)
        assert await worker.claim() == []
        bench.clock.advance(1)
        assert (await worker.take("a")).payload == b'"d"'

    async def test_it_is_put_off_no_longer_than_the_most(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=1_000, most=2_500)
        for id in "bc":
            bench.clock.advance(900)
            await call(bench, id, DEBOUNCE, delay=1_000, most=2_500)
        job = await bench.job("a")
        assert (job.state, job.due_at, job.payload) == (State.SCHEDULED, START + 2_500, b'"c"')

    async def test_a_ready_holder_is_put_off_too(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=1_000)
        bench.clock.advance(1_000)
        await bench.store.sweep()
        assert await bench.state("a") == State.READY
        await call(bench, "b", DEBOUNCE, delay=1_000)
        job = await bench.job("a")
        assert (job.state, job.due_at) == (State.SCHEDULED, START + 2_000)
        assert await bench.counts() == {"scheduled": 1}
        worker = await bench.worker()
        assert await worker.claim() == []
        bench.clock.advance(1_000)
        assert (await worker.take("a")).payload == b'"b"'

    async def test_a_ready_holder_that_was_put_off_the_most_stays_ready(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=1_000, most=1_500)
        bench.clock.advance(2_000)
        await bench.store.sweep()
        answer = await call(bench, "b", DEBOUNCE, delay=1_000, most=1_500)
        assert answer.status is Accept.REPLACED
        worker = await bench.worker()
        assert (await worker.take("a")).payload == b'"b"'

    async def test_a_holder_put_off_is_found_by_the_alarm_of_its_new_time(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=1_000)
        await call(bench, "b", DEBOUNCE, delay=4_000)
        worker = await bench.worker()
        assert (await worker.exchange(want=1)).next_due == 4_000

    async def test_a_holder_hurried_by_a_shorter_delay_wakes_somebody_to_set_the_alarm_anew(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=5_000)
        worker = await bench.worker()
        assert await worker.claim() == []
        await call(bench, "b", DEBOUNCE, delay=1_000)
        await worker.mail.woken()
        assert (await worker.exchange(want=1)).next_due == 1_000

    async def test_a_call_without_a_delay_makes_it_ready(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=5_000)
        worker = await bench.worker()
        assert await worker.claim() == []
        await call(bench, "b", DEBOUNCE)
        await worker.mail.woken()
        assert (await worker.take("a")).payload == b'"b"'

    async def test_a_successor_is_put_off_while_it_waits(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench, DEBOUNCE, delay=1_000)
        bench.clock.advance(900)
        answer = await call(bench, "c", DEBOUNCE, delay=1_000)
        assert (answer.status, answer.holder) == (Accept.REPLACED, "b")
        assert await bench.state("b") == State.WAITING
        await worker.finish(claim)
        job = await bench.job("b")
        assert (job.state, job.due_at, job.payload) == (State.SCHEDULED, START + 1_900, b'"c"')
