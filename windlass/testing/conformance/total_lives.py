"""Short lives of jobs, each with the events it adds to the totals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from windlass.core.job import State
from windlass.core.lifecycle import Outcome
from windlass.core.terms import Policy
from windlass.store.answers import Accept
from windlass.store.jobs import Action
from windlass.testing.conformance.backpressure import press, tune
from windlass.testing.conformance.bench import HOUR, LEASE, Bench, new_job
from windlass.testing.conformance.graph_adopt import inner, waiting
from windlass.testing.conformance.graph_drafts import callbacks, chain, group
from windlass.testing.conformance.outcomes import BACK, DEAD, DONE, RETRY_LATER, RETRY_NOW, SNOOZE, STOPPED
from windlass.testing.conformance.schedules import fire, put
from windlass.testing.conformance.unique import call

Life = Callable[[Bench], Awaitable[None]]

LIVES: dict[str, tuple[Life, dict[str, int]]] = {}
"""The ways a job of task ``t`` in queue ``q`` can live, by name, and what each adds to the totals."""


def adds(**kinds: int) -> Callable[[Life], Life]:
    """Register a life under its function's name, with the events it adds."""

    def register(life: Life) -> Life:
        LIVES[life.__name__.replace("_", " ")] = (life, kinds)
        return life

    return register


async def run(bench: Bench, *outcomes: Outcome) -> None:
    """A job that comes to each of these outcomes in turn, as soon as it can be claimed."""
    await bench.add("a")
    worker = await bench.worker()
    for outcome in outcomes:
        await worker.settle(await worker.take("a"), outcome)
        await bench.passes(3_000, worker)


# -- coming in


@adds(enqueued=3)
async def three_come_in(bench: Bench) -> None:
    await bench.add("a", "b")
    await bench.add("c", delay=HOUR)


@adds(enqueued=1, duplicate=2)
async def the_same_again(bench: Bench) -> None:
    for _ in range(3):
        await bench.add("a")


@adds(enqueued=1)
async def an_id_of_another(bench: Bench) -> None:
    await bench.add("a")
    [answer] = await bench.store.insert([new_job("a", payload=b"[2]")])
    assert answer.status is Accept.CONFLICT


@adds(enqueued=1, duplicate=1)
async def a_unique_key_that_is_held(bench: Bench) -> None:
    await call(bench, "a")
    await call(bench, "b")


@adds(enqueued=1, replaced=2)
async def a_job_that_is_replaced(bench: Bench) -> None:
    for id in "abc":
        await call(bench, id, Policy.REPLACE)


@adds(enqueued=2, replaced=1, started=2, succeeded=2)
async def a_successor(bench: Bench) -> None:
    worker = await bench.worker()
    await call(bench, "a", Policy.REPLACE)
    claim = await worker.take("a")
    await call(bench, "b", Policy.REPLACE)
    await call(bench, "c", Policy.REPLACE)
    await worker.finish(claim)
    await worker.finish(await worker.take("b"))


@adds(enqueued=1)
async def a_queue_that_drains(bench: Bench) -> None:
    await bench.add("a")
    await tune(bench, draining=True)
    [answer] = await bench.add("b")
    assert answer.status is Accept.REFUSED


@adds(enqueued=2)
async def a_queue_that_is_full(bench: Bench) -> None:
    assert (await press(bench, "a", "b", "c", most=2))[2].status is Accept.FULL


@adds(enqueued=3, failed=1)
async def a_full_queue_that_drops_its_oldest(bench: Bench) -> None:
    await press(bench, "a", "b", "c", most=2, drop_oldest=True)
    assert await bench.state("a") == State.FAILED


@adds(enqueued=2, schedule_fired=2)
async def a_schedule_that_fires(bench: Bench) -> None:
    row = await put(bench)
    bench.clock.advance(1_000)
    fired = await fire(bench, row, new_job("a"))
    assert fired.done
    assert fired.row is not None
    assert not (await fire(bench, row, new_job("a"))).done
    assert (await fire(bench, fired.row, new_job("b"))).done


@adds()
async def a_slot_without_jobs(bench: Bench) -> None:
    assert (await fire(bench, await put(bench))).done


# -- running


@adds(enqueued=1, started=1)
async def a_claim(bench: Bench) -> None:
    await bench.add("a")
    await (await bench.worker()).take("a")


@adds(enqueued=1, started=1, succeeded=1)
async def success(bench: Bench) -> None:
    await run(bench, DONE)


@adds(enqueued=1, started=1, failed=1)
async def failure(bench: Bench) -> None:
    await run(bench, DEAD)


@adds(enqueued=1, started=4, retried=2, snoozed=1, succeeded=1)
async def retries_and_a_snooze(bench: Bench) -> None:
    await run(bench, RETRY_NOW, RETRY_LATER, SNOOZE, DONE)


@adds(enqueued=1, started=3, released=2, cancelled=1)
async def handed_back_twice_and_stopped(bench: Bench) -> None:
    await run(bench, BACK, BACK, STOPPED)


@adds(enqueued=1, started=1)
async def notes(bench: Bench) -> None:
    await bench.add("a")
    worker = await bench.worker()
    assert await worker.note(await worker.take("a"), "hello", "you", progress=b'{"percent":5}')


@adds(enqueued=2, started=2, released=2)
async def a_worker_that_leaves(bench: Bench) -> None:
    await bench.add("a", "b")
    worker = await bench.worker()
    await worker.claim()
    for _ in range(2):
        await bench.store.leave(worker.id)


@adds(enqueued=2, started=2, released=1)
async def a_claim_that_was_never_received(bench: Bench) -> None:
    await bench.add("a", "b")
    worker = await bench.worker()
    await worker.claim()
    for _ in range(2):
        await worker.beat(held=["b"])


@adds(enqueued=1, started=2, lost=2, failed=1)
async def a_job_that_crashes_its_workers(bench: Bench) -> None:
    await bench.add("a", max_crashes=2)
    await bench.crash("a")
    await bench.crash("a")
    assert await bench.state("a") == State.FAILED


@adds(enqueued=1, started=1, lost=1)
async def a_worker_that_is_dead(bench: Bench) -> None:
    await bench.add("a")
    await (await bench.worker()).take("a")
    await bench.passes(LEASE + 5_000)
    assert await bench.state("a") == State.READY


@adds(enqueued=1, started=1, lost=1, cancelled=1)
async def a_crash_with_a_cancel_pending(bench: Bench) -> None:
    await bench.add("a")
    worker = await bench.worker()
    await worker.take("a")
    await bench.change(Action.CANCEL, "a")
    await bench.store.leave(worker.id, crashed=True)


# -- what time and people do


@adds(enqueued=3, cancelled=2, failed=1)
async def expiry(bench: Bench) -> None:
    await bench.add("a", delay=HOUR, expires_in=1_000)
    await bench.add("b", expires_in=1_000, expire_to=State.FAILED)
    bench.clock.advance(1_000)
    await bench.store.sweep()
    await bench.add("c", expires_in=1)
    bench.clock.advance(1)
    assert await (await bench.worker()).claim() == []
    await bench.store.sweep()


@adds(enqueued=2, cancelled=2)
async def a_cancel_of_what_waits(bench: Bench) -> None:
    await bench.add("a")
    await bench.add("b", delay=HOUR)
    for _ in range(2):
        await bench.change(Action.CANCEL, "a", "b", "never")


@adds(enqueued=1, started=1, cancelled=1)
async def a_cancel_of_what_runs(bench: Bench) -> None:
    await bench.add("a")
    worker = await bench.worker()
    claim = await worker.take("a")
    for _ in range(2):
        await bench.change(Action.CANCEL, "a")
    await worker.settle(claim, RETRY_LATER)


@adds(enqueued=2, deleted=2)
async def a_deletion(bench: Bench) -> None:
    await bench.add("a", "b")
    for _ in range(2):
        await bench.change(Action.DELETE, "a", "b")


@adds(enqueued=1, started=2, failed=1, replayed=1, succeeded=1)
async def a_replay(bench: Bench) -> None:
    await bench.ended("a", DEAD)
    await bench.change(Action.RETRY, "a")
    worker = await bench.worker()
    await worker.finish(await worker.take("a"))


@adds(enqueued=2)
async def changes_that_are_no_events(bench: Bench) -> None:
    await bench.add("a", "b", delay=HOUR)
    await bench.change(Action.REPRIORITISE, "a", priority=7)
    await bench.change(Action.EDIT, "a", payload=b"[3]")
    await bench.change(Action.RESCHEDULE, "b", delay=5)
    await bench.change(Action.PROMOTE, "a")
    await bench.change(Action.MOVE, "b", queue="other")


# -- graphs


@adds(enqueued=3, started=3, succeeded=3)
async def a_chain(bench: Bench) -> None:
    await bench.submit(chain("a", "b", "c"))
    assert (await bench.stage(chain("a", "b", "c"), commit=True)).status is Accept.DUPLICATE
    await bench.play(await bench.worker())
    assert (await bench.graph()).state is State.SUCCEEDED


@adds(enqueued=3, started=1, failed=1, skipped=2)
async def a_chain_that_breaks(bench: Bench) -> None:
    await bench.submit(chain("a", "b", "c"))
    await bench.play(await bench.worker(), {"a": DEAD})


@adds(enqueued=4, started=3, succeeded=3, skipped=1)
async def callbacks_one_of_which_is_for_nothing(bench: Bench) -> None:
    await bench.submit(callbacks())
    await bench.play(await bench.worker())


@adds(enqueued=3, cancelled=3)
async def a_workflow_that_is_cancelled(bench: Bench) -> None:
    await bench.submit(chain("a", "b", "c"))
    await bench.change(Action.CANCEL, "g")
    await bench.drain()
    assert (await bench.graph()).state is State.CANCELLED


@adds(enqueued=2, started=3, failed=1, skipped=1, replayed=1, succeeded=2)
async def a_workflow_that_is_retried(bench: Bench) -> None:
    await bench.submit(chain("a", "b"))
    worker = await bench.worker()
    await bench.play(worker, {"a": DEAD})
    await bench.change(Action.RETRY, "g")
    await bench.play(worker)
    assert (await bench.graph()).state is State.SUCCEEDED


@adds(enqueued=2, started=2, succeeded=2, deleted=2)
async def a_workflow_that_is_deleted(bench: Bench) -> None:
    await bench.submit(group("a", "b"))
    await bench.play(await bench.worker())
    await bench.change(Action.DELETE, "g")
    await bench.drain()
    assert await bench.states("a", "b", "g") == [None, None, None]


@adds(enqueued=1, started=2, waiting=1, succeeded=1)
async def a_job_that_waits_for_a_graph_of_its_own(bench: Bench) -> None:
    worker, other = await waiting(bench, inner("x", "y"))
    await bench.play(other)
    await worker.finish(await worker.take("p"))


@adds(enqueued=1, started=1, waiting=1, succeeded=1)
async def a_job_that_a_graph_stands_in_for(bench: Bench) -> None:
    _, other = await waiting(bench, inner("x"), replaced=True)
    await bench.play(other)
    assert await bench.state("p") == State.SUCCEEDED


@adds(enqueued=1, started=1, waiting=1, failed=1)
async def a_job_whose_graph_fails(bench: Bench) -> None:
    _, other = await waiting(bench, inner("x"))
    await bench.play(other, {"x": DEAD})
    assert await bench.state("p") == State.FAILED


@adds()
async def a_graph_that_is_only_staged(bench: Bench) -> None:
    await bench.stage(chain("a", "b"))
