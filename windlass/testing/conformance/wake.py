"""Wake-ups: a worker that wanted more jobs is idle, and as many idle workers are woken as jobs became ready."""

from __future__ import annotations

from typing import Any

from windlass.core.job import State
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import LEASE, Bench, Hand, move
from windlass.testing.conformance.outcomes import DEAD, RETRY_LATER, RETRY_NOW


async def idle_workers(bench: Bench, count: int, **fields: Any) -> list[Hand]:
    """Workers that asked and got nothing."""
    hands = [await bench.worker(f"idle-{n}", **fields) for n in range(count)]
    for hand in hands:
        assert await hand.claim() == []
    return hands


async def woken(hands: list[Hand]) -> list[int]:
    """How often each worker was woken, once everything sent so far has arrived."""
    for hand in hands:
        await hand.mail.flush()
    return [hand.mail.wakes for hand in hands]


class IdleRules:
    """The idle mark is set in the step that grants less than was wanted."""

    async def test_less_than_wanted_is_idle(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.claim(2)
        assert (await worker.info()).idle

    async def test_all_that_was_wanted_is_not_idle(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        worker = await bench.worker()
        await worker.claim(2)
        assert not (await worker.info()).idle

    async def test_wanting_nothing_is_not_idle(self, bench: Bench) -> None:
        worker = await bench.worker()
        await worker.claim()
        await worker.exchange(want=0)
        assert not (await worker.info()).idle

    async def test_the_mark_goes_when_the_worker_is_served(self, bench: Bench) -> None:
        worker = await bench.worker()
        await worker.claim()
        assert (await worker.info()).idle
        await bench.add("a")
        await worker.take("a")
        assert not (await worker.info()).idle


class WakeRules:
    """Every way a job becomes ready wakes somebody who waits for it."""

    async def test_an_insert_wakes_an_idle_worker(self, bench: Bench) -> None:
        [worker] = await idle_workers(bench, 1)
        await bench.add("a")
        await worker.mail.woken()
        assert await worker.ids() == ["a"]

    async def test_an_insert_wakes_as_many_as_there_are_jobs(self, bench: Bench) -> None:
        hands = await idle_workers(bench, 4)
        await bench.add("a", "b")
        assert sorted(await woken(hands)) == [0, 0, 1, 1]

    async def test_an_insert_wakes_everyone_if_there_is_enough(self, bench: Bench) -> None:
        hands = await idle_workers(bench, 3)
        await bench.add(*"abcdefgh")
        assert await woken(hands) == [1, 1, 1]

    async def test_two_inserts_wake_two_workers(self, bench: Bench) -> None:
        hands = await idle_workers(bench, 3)
        await bench.add("a")
        await bench.add("b")
        assert sorted(await woken(hands)) == [0, 1, 1]

    async def test_nobody_is_woken_for_what_is_not_ready_or_not_new(self, bench: Bench) -> None:
        await bench.add("old", queue="other")
        await bench.add("first", delay=1_000)
        hands = await idle_workers(bench, 2)
        await bench.add("later", delay=1_000)
        await bench.add("old", queue="other")
        await bench.add("x", queue="other")
        await bench.add("elsewhere", queue="other", delay=10)
        assert await woken(hands) == [0, 0]

    async def test_one_is_woken_to_set_its_alarm_when_the_next_due_time_came_nearer(self, bench: Bench) -> None:
        await bench.add("later", delay=5_000)
        hands = await idle_workers(bench, 2)
        await bench.add("sooner", "as soon", delay=1_000)
        assert sorted(await woken(hands)) == [0, 1]
        [told] = [hand for hand in hands if hand.mail.wakes]
        assert (await told.exchange(want=1)).next_due == 1_000

    async def test_a_worker_that_is_not_idle_is_left_alone(self, bench: Bench) -> None:
        await bench.add("a")
        busy = await bench.worker()
        await busy.take("a")
        await bench.add("b")
        assert await woken([busy]) == [0]

    async def test_a_worker_is_woken_for_any_of_its_queues(self, bench: Bench) -> None:
        [worker] = await idle_workers(bench, 1, queues=["x", "y"])
        await bench.add("a", queue="y")
        await worker.mail.woken()

    async def test_a_sweep_that_makes_jobs_ready_wakes_as_many(self, bench: Bench) -> None:
        await bench.add("a", "b", delay=1_000)
        hands = await idle_workers(bench, 3)
        bench.clock.advance(1_000)
        assert (await bench.store.sweep()).promoted == 2
        assert sorted(await woken(hands)) == [0, 1, 1]

    async def test_an_exchange_wakes_others_for_due_jobs_it_does_not_take(self, bench: Bench) -> None:
        await bench.add("a", "b", delay=1_000)
        [idle] = await idle_workers(bench, 1)
        worker = await bench.worker()
        bench.clock.advance(1_000)
        await worker.take("a")
        await idle.mail.woken()
        assert await idle.ids() == ["b"]

    async def test_a_promotion_by_hand_wakes(self, bench: Bench) -> None:
        await bench.add("a", delay=1_000)
        [worker] = await idle_workers(bench, 1)
        await bench.change(Action.PROMOTE, "a")
        await worker.mail.woken()

    async def test_a_replay_wakes(self, bench: Bench) -> None:
        await bench.ended("a", DEAD)
        [worker] = await idle_workers(bench, 1)
        await bench.change(Action.RETRY, "a")
        await worker.mail.woken()

    async def test_a_move_wakes_in_the_new_queue(self, bench: Bench) -> None:
        await bench.add("a", queue="other")
        [worker] = await idle_workers(bench, 1)
        await bench.change(Action.MOVE, "a", queue="q")
        await worker.mail.woken()

    async def test_a_retry_without_delay_wakes_another(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        [idle] = await idle_workers(bench, 1)
        await worker.exchange([move(claim, RETRY_NOW)])
        await idle.mail.woken()

    async def test_jobs_of_a_worker_that_leaves_wake_others(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        [idle] = await idle_workers(bench, 1)
        await bench.store.leave("w1")
        await idle.mail.woken()

    async def test_jobs_of_a_dead_worker_wake_others(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        [idle] = await idle_workers(bench, 1)
        await bench.passes(LEASE + 1, idle)
        await idle.mail.woken()
        assert await idle.ids() == ["a"]

    async def test_claims_that_go_back_by_a_beat_wake_others(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        [idle] = await idle_workers(bench, 1)
        await worker.beat(held=[])
        await idle.mail.woken()

    async def test_a_retry_wakes_when_it_is_due(self, bench: Bench) -> None:
        await bench.ended("a", RETRY_LATER)
        [idle] = await idle_workers(bench, 1)
        bench.clock.advance(2_000)
        await bench.store.sweep()
        await idle.mail.woken()
        assert await bench.state("a") == State.READY

    async def test_a_wake_up_reaches_a_worker_on_another_connection(self, bench: Bench) -> None:
        [idle] = await idle_workers(bench, 1, store=await bench.connect())
        await bench.add("a")
        await idle.mail.woken()

    async def test_a_worker_that_listens_after_its_first_beat_is_woken_too(self, bench: Bench) -> None:
        worker = await bench.worker()
        await bench.store.unlisten(worker.id)
        await bench.store.listen(worker.id, worker.mail.deliver)
        await worker.claim()
        await bench.add("a")
        await worker.mail.woken()


class SignalRules:
    """A signal is a plain wake-up by name."""

    async def test_a_signal_reaches_its_name_alone(self, bench: Bench) -> None:
        hands = [await bench.worker(f"idle-{n}") for n in range(2)]
        await bench.store.signal([hands[0].id])
        await hands[0].mail.woken()
        assert await woken(hands) == [1, 0]

    async def test_a_signal_crosses_connections(self, bench: Bench) -> None:
        worker = await bench.worker()
        other = await bench.connect()
        await other.signal(["nobody", worker.id])
        await worker.mail.woken()

    async def test_a_signal_to_nobody_is_lost(self, bench: Bench) -> None:
        await bench.store.signal(["nobody"])
        await bench.store.signal([])
        worker = await bench.worker()
        assert await woken([worker]) == [0]
