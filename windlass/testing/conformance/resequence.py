"""Numbered lanes: jobs run in the order of their numbers, and a missing number is waited for."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.core.terms import Terms
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import Bench, move
from windlass.testing.conformance.outcomes import (
    DEAD,
    DONE,
    LOSE_TO_CANCEL,
)
from windlass.testing.conformance.strict import ordered, runs
from windlass.testing.conformance.wake import idle_workers, woken

DAY = 86_400_000


async def add_numbers(bench: Bench, *numbers: int, lane: str = "k", gap: int = 10_000) -> None:
    """Jobs ``n1``, ``n2``, … as numbered, in the order given."""
    for number in numbers:
        await bench.add(f"n{number}", terms=Terms(key=lane, seq=number, gap=gap))


class ResequenceRules:
    """Numbered jobs run by their numbers; a missing one is waited for, not for ever."""

    async def test_they_run_by_number(self, bench: Bench) -> None:
        await add_numbers(bench, 3, 1, 4, 2)
        worker = await bench.worker()
        assert await runs(worker, 5) == ["n1", "n2", "n3", "n4"]

    async def test_a_missing_number_is_waited_for(self, bench: Bench) -> None:
        await add_numbers(bench, 1, 3, 4)
        worker = await bench.worker()
        assert await runs(worker, 3) == ["n1"]
        await add_numbers(bench, 2)
        assert await runs(worker, 4) == ["n2", "n3", "n4"]

    async def test_the_first_number_is_waited_for_too(self, bench: Bench) -> None:
        await add_numbers(bench, 2)
        worker = await bench.worker()
        assert await worker.ids() == []
        await add_numbers(bench, 1)
        assert await runs(worker, 3) == ["n1", "n2"]

    async def test_the_number_that_was_missing_wakes(self, bench: Bench) -> None:
        await add_numbers(bench, 2)
        [idle] = await idle_workers(bench, 1)
        await add_numbers(bench, 3)
        assert await woken([idle]) == [0]
        await add_numbers(bench, 1)
        await idle.mail.woken()
        assert await idle.ids() == ["n1"]

    async def test_one_that_has_to_wait_sets_an_alarm(self, bench: Bench) -> None:
        [idle] = await idle_workers(bench, 1)
        await add_numbers(bench, 2, gap=5_000)
        await idle.mail.woken()
        assert (await idle.exchange(want=1)).next_due == 5_000

    async def test_it_is_waited_for_as_long_as_the_gap(self, bench: Bench) -> None:
        await add_numbers(bench, 2, gap=5_000)
        worker = await bench.worker()
        assert (await worker.exchange(want=1)).next_due == 5_000
        bench.clock.advance(4_999)
        assert await worker.ids() == []
        bench.clock.advance(1)
        assert await worker.ids() == ["n2"]

    async def test_the_gap_counts_also_while_nobody_asks(self, bench: Bench) -> None:
        await add_numbers(bench, 2, gap=5_000)
        bench.clock.advance(2_000)
        worker = await bench.worker()
        assert (await worker.exchange(want=1)).next_due == 3_000
        bench.clock.advance(3_000)
        assert await worker.ids() == ["n2"]

    async def test_reprioritising_starts_no_new_wait(self, bench: Bench) -> None:
        await add_numbers(bench, 2, gap=5_000)
        worker = await bench.worker()
        bench.clock.advance(2_000)
        await bench.change(Action.REPRIORITISE, "n2", priority=9)
        assert (await worker.exchange(want=1)).next_due == 3_000

    async def test_a_sweep_that_finds_a_gap_over_wakes(self, bench: Bench) -> None:
        await add_numbers(bench, 2, gap=5_000)
        [idle] = await idle_workers(bench, 1)
        bench.clock.advance(5_000)
        await bench.store.sweep()
        await idle.mail.woken()
        assert await idle.ids() == ["n2"]

    async def test_the_gap_counts_from_when_the_lane_was_free(self, bench: Bench) -> None:
        await add_numbers(bench, 1, 3, gap=5_000)
        worker = await bench.worker()
        one = await worker.take("n1")
        bench.clock.advance(4_000)
        await worker.beat()
        reply = await worker.exchange([move(one, DONE)], want=5)
        assert (reply.claims, reply.next_due) == ([], 5_000)
        bench.clock.advance(4_999)
        assert await worker.ids() == []
        bench.clock.advance(1)
        assert await worker.ids() == ["n3"]

    async def test_the_gap_counts_from_when_the_head_stood_there(self, bench: Bench) -> None:
        await add_numbers(bench, 9, gap=5_000)
        worker = await bench.worker()
        assert await worker.ids() == []
        bench.clock.advance(3_000)
        await add_numbers(bench, 5, gap=5_000)
        assert (await worker.exchange(want=1)).next_due == 5_000
        bench.clock.advance(4_999)
        assert await worker.ids() == []
        bench.clock.advance(1)
        five = await worker.take("n5")
        reply = await worker.exchange([move(five, DONE)], want=5)
        assert (reply.claims, reply.next_due) == ([], 5_000)

    async def test_after_a_gap_the_lane_goes_on_from_there(self, bench: Bench) -> None:
        await add_numbers(bench, 3, 4, 6, gap=5_000)
        worker = await bench.worker()
        assert await worker.ids() == []
        bench.clock.advance(5_000)
        assert await runs(worker, 3) == ["n3", "n4"]
        await add_numbers(bench, 5, gap=5_000)
        assert await runs(worker, 3) == ["n5", "n6"]

    async def test_a_late_number_goes_at_once(self, bench: Bench) -> None:
        await add_numbers(bench, 2, gap=1_000)
        worker = await bench.worker()
        assert await worker.ids() == []
        bench.clock.advance(1_000)
        two = await worker.take("n2")
        await add_numbers(bench, 3, 1)
        assert await worker.ids() == []
        await worker.finish(two)
        assert await runs(worker, 3) == ["n1", "n3"]

    async def test_a_number_that_comes_twice_runs_twice(self, bench: Bench) -> None:
        await add_numbers(bench, 1, 2)
        await bench.add("again", terms=Terms(key="k", seq=1))
        worker = await bench.worker()
        assert await runs(worker, 4) == ["n1", "again", "n2"]

    async def test_what_a_lane_expects_outlives_its_jobs(self, bench: Bench) -> None:
        await add_numbers(bench, 1, 2)
        worker = await bench.worker()
        assert await runs(worker, 3) == ["n1", "n2"]
        await bench.store.leave(worker.id)
        for _ in range(6):
            bench.clock.advance(DAY)
            await bench.store.sweep()
        await add_numbers(bench, 4)
        worker = await bench.worker("w2")
        assert await worker.ids() == []
        await add_numbers(bench, 3)
        assert await runs(worker, 3) == ["n3", "n4"]

    async def test_what_an_empty_lane_expects_is_forgotten_in_the_end(self, bench: Bench) -> None:
        await add_numbers(bench, 1, 2)
        worker = await bench.worker()
        assert await runs(worker, 3) == ["n1", "n2"]
        await bench.store.leave(worker.id)
        for _ in range(8):
            bench.clock.advance(DAY)
            await bench.store.sweep()
        await add_numbers(bench, 3)
        worker = await bench.worker("w2")
        assert await worker.ids() == []
        (hold,) = await bench.store.holds(["n3"])
        assert hold is not None
        assert hold.missing == 1

    async def test_a_dead_letter_is_over_like_any_other(self, bench: Bench) -> None:
        await add_numbers(bench, 1, 2)
        worker = await bench.worker()
        reply = await worker.exchange([move(await worker.take("n1"), DEAD)], want=5)
        assert [claim.id for claim in reply.claims] == ["n2"]

    @pytest.mark.parametrize("action", [Action.CANCEL, Action.DELETE, Action.MOVE])
    async def test_a_number_that_is_gone_is_not_waited_for(self, bench: Bench, action: Action) -> None:
        await add_numbers(bench, 1, 2, 3)
        worker = await bench.worker()
        one = await worker.take("n1")
        await bench.change(action, "n2", **({"queue": "y"} if action is Action.MOVE else {}))
        reply = await worker.exchange([move(one, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["n3"]

    async def test_a_head_that_is_gone_lets_the_next_start(self, bench: Bench) -> None:
        await add_numbers(bench, 1, 2)
        await bench.change(Action.CANCEL, "n1")
        worker = await bench.worker()
        assert await worker.ids() == ["n2"]

    @pytest.mark.parametrize("how", LOSE_TO_CANCEL)
    async def test_a_number_keeps_the_lane_until_it_is_over(self, bench: Bench, how: str) -> None:
        await add_numbers(bench, 1, 2)
        worker = await bench.worker()
        await worker.settle(await worker.take("n1"), LOSE_TO_CANCEL[how])
        if (await bench.job("n1")).state is State.SCHEDULED:
            assert await worker.ids() == []
            bench.clock.advance(3_000)
        assert await runs(worker, 3) == ["n1", "n2"]

    async def test_a_scheduled_number_is_waited_for_like_one_that_is_missing(self, bench: Bench) -> None:
        await bench.add("n1", delay=2_000, terms=Terms(key="k", seq=1))
        await add_numbers(bench, 2)
        worker = await bench.worker()
        assert await worker.ids() == []
        bench.clock.advance(2_000)
        assert await runs(worker, 3) == ["n1", "n2"]

    async def test_a_replay_is_a_late_number(self, bench: Bench) -> None:
        await add_numbers(bench, 1, 2, 3)
        worker = await bench.worker()
        await worker.settle(await worker.take("n1"), DEAD)
        two = await worker.take("n2")
        await bench.change(Action.RETRY, "n1")
        await worker.finish(two)
        assert await runs(worker, 3) == ["n1", "n3"]

    async def test_priorities_do_not_count(self, bench: Bench) -> None:
        await bench.add("n1", priority=0, terms=Terms(key="k", seq=1))
        await bench.add("n2", priority=9, terms=Terms(key="k", seq=2))
        worker = await bench.worker()
        assert await runs(worker, 3) == ["n1", "n2"]

    async def test_lanes_of_other_keys_and_queues_count_for_themselves(self, bench: Bench) -> None:
        await add_numbers(bench, 1)
        await bench.add("m1", terms=Terms(key="other", seq=1))
        await bench.add("m2", terms=Terms(key="another", seq=2))
        await bench.add("x1", queue="x", terms=Terms(key="k", seq=1))
        worker = await bench.worker(queues=["q", "x"])
        assert await worker.ids() == ["n1", "m1", "x1"]

    async def test_ordered_and_numbered_jobs_of_a_key_are_two_lanes(self, bench: Bench) -> None:
        await add_numbers(bench, 1)
        await bench.add("o", **ordered())
        worker = await bench.worker()
        assert await worker.ids() == ["n1", "o"]

    async def test_hundreds_that_come_backwards_run_forwards(self, bench: Bench) -> None:
        await add_numbers(bench, *range(200, 0, -1))
        worker = await bench.worker()
        assert await runs(worker, 201) == [f"n{number}" for number in range(1, 201)]
