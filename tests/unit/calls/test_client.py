"""The client on one loop: calls that share an insert, bounded buffers, and what cancelling means."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from tests.drafts import Plugged, Ready
from tests.worker.helpers import eventually, within
from windlass import Windlass
from windlass.connections import sender as sender_module
from windlass.connections.sender import EAGER, LANES, Sender, batches
from windlass.core.job import NewJob
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH, Accept, Answer


class SlowStore:
    """Takes inserts one at a time, when the test says so."""

    def __init__(self) -> None:
        self.inserts: list[list[str]] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        self.inserts.append([job.id for job in jobs])
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return [Answer(Accept.ACCEPTED) for _ in jobs]


def job(id: str, size: int = 2) -> NewJob:
    return NewJob(id=id, task="t", queue="q", payload=b"x" * size)


def draft(id: str) -> Any:
    return Ready(job(id))


def sender() -> tuple[Sender, Any]:
    store: Any = SlowStore()
    return Sender(Plugged(store)), store


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_lone_call_goes_out_in_the_next_turn_of_the_loop() -> None:
    send, store = sender()
    call = asyncio.ensure_future(send.send([draft("a")]))
    await turns(2)
    assert store.inserts == [["a"]]
    store.gate.set()
    assert (await within(call))[0].status is Accept.ACCEPTED


async def test_calls_of_one_turn_and_calls_made_meanwhile_share_an_insert() -> None:
    send, store = sender()
    calls = [asyncio.ensure_future(send.send([draft(str(n))])) for n in range(5)]
    await turns(3)
    calls += [asyncio.ensure_future(send.send([draft(str(n))])) for n in range(5, 10)]
    await turns(3)
    assert store.inserts == [["0", "1", "2", "3", "4"]]
    store.gate.set()
    await within(asyncio.gather(*calls))
    assert store.inserts == [["0", "1", "2", "3", "4"], ["5", "6", "7", "8", "9"]]
    await within(send.send([draft("later")]))
    assert store.inserts[-1] == ["later"], "and it is idle again"


async def test_inserts_are_bounded_in_number_and_size() -> None:
    send, store = sender()
    calls = [asyncio.ensure_future(send.send([draft(str(n))])) for n in range(2 * MAX_BATCH + 10)]
    await asyncio.sleep(0)
    store.gate.set()
    await within(asyncio.gather(*calls))
    assert [len(ids) for ids in store.inserts] == [EAGER, MAX_BATCH, MAX_BATCH + 10 - EAGER]
    cut = batches([job(str(n), 400_000) for n in range(5)])
    assert [len(part) for part in cut] == [2, 2, 1]
    assert [len(part) for part in batches([job("huge", 3_000_000), job("small")])] == [1, 1]


async def test_the_buffer_is_bounded_and_callers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "BUFFER_JOBS", 5)
    send, store = sender()
    calls = [asyncio.ensure_future(send.send([draft(str(n))])) for n in range(20)]
    await turns(5)
    assert len(send._waiting) <= 5
    store.gate.set()
    await within(asyncio.gather(*calls))
    assert sorted((id for ids in store.inserts for id in ids), key=int) == [str(n) for n in range(20)]


async def test_cancelled_before_it_is_sent_a_call_is_withdrawn() -> None:
    send, store = sender()
    first = asyncio.ensure_future(send.send([draft("first")]))
    await turns(2)
    second = asyncio.ensure_future(send.send([draft("second")]))
    third = asyncio.ensure_future(send.send([draft("third")]))
    await turns(2)
    second.cancel()
    store.gate.set()
    await within(asyncio.gather(first, third))
    assert store.inserts == [["first"], ["third"]]
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_cancelled_after_it_is_sent_the_others_go_on() -> None:
    send, store = sender()
    first = asyncio.ensure_future(send.send([draft("first")]))
    await turns(2)
    second = asyncio.ensure_future(send.send([draft("second")]))
    await turns(1)
    first.cancel()
    store.gate.set()
    await within(second)
    assert store.inserts == [["first"], ["second"]]


async def test_an_error_reaches_everyone_in_the_batch_and_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    send, store = sender()
    caplog.set_level(logging.ERROR)
    store.error = StoreError("no")
    calls = [asyncio.ensure_future(send.send([draft(f"{n}a"), draft(f"{n}b")])) for n in range(3)]
    await asyncio.sleep(0)
    store.gate.set()
    answers = await within(asyncio.gather(*calls, return_exceptions=True))
    assert [str(answer) for answer in answers] == ["no"] * 3
    store.error = None
    assert (await within(send.send([draft("x")])))[0].status is Accept.ACCEPTED
    del calls, answers
    gc.collect()
    await asyncio.sleep(0)
    assert "never retrieved" not in caplog.text


async def test_what_the_store_refuses_of_one_caller_costs_the_others_nothing() -> None:
    send, store = sender()
    plain = store.insert

    async def insert(jobs: Sequence[NewJob]) -> list[Answer]:
        if any(job.id == "bad" for job in jobs):
            raise StoreError("this record is too large")
        answers: list[Answer] = await plain(jobs)
        return answers

    store.insert = insert
    store.gate.set()
    calls = [asyncio.ensure_future(send.send([draft(id)])) for id in ("a", "b", "bad", "c")]
    answers = await within(asyncio.gather(*calls, return_exceptions=True))
    assert [str(answer) if isinstance(answer, Exception) else len(answer) for answer in answers] == [
        1, 1, "this record is too large", 1
    ]  # fmt: skip
    assert [id for batch in store.inserts for id in batch] == ["a", "b", "c"]


async def test_flush_waits_for_what_is_under_way() -> None:
    send, store = sender()
    calls = [asyncio.ensure_future(send.send([draft("0")]))]
    await turns(2)
    calls += [asyncio.ensure_future(send.send([draft(str(n))])) for n in (1, 2)]
    await turns(1)
    flushing = asyncio.ensure_future(send.flush())
    await asyncio.sleep(0.01)
    assert not flushing.done()
    store.gate.set()
    await within(flushing)
    assert len(store.inserts) == 2
    await asyncio.gather(*calls)
    await within(send.flush())


async def test_a_wake_up_for_events_is_heard_together_with_results() -> None:
    """The mailbox may hand over both in one go."""
    app = Windlass("c", "memory://")
    own = await app.client()
    heard: list[int] = []
    stop = own.waiter.follow(lambda: heard.append(1))
    from windlass.core.job import Finished, State

    own.waiter._deliver([Finished("some-job", State.SUCCEEDED, b"1")])
    assert heard
    stop()
    own.waiter._deliver([])
    assert len(heard) == 1
    await app.close()


# -- one client per loop


async def test_a_loop_has_one_client_and_each_loop_its_own() -> None:
    app = Windlass("c", "memory://")
    first, second = await asyncio.gather(app.client(), app.client())
    assert first is second

    def elsewhere() -> Any:
        async def use() -> Any:
            other = await app.client()
            await app.close()
            return other

        return asyncio.run(use())

    assert await asyncio.to_thread(elsewhere) is not first
    assert await app.client() is first
    await app.close()
    again = await app.client()
    assert again is not first
    assert again.opened
    await app.close()
    await app.close()


async def test_closing_on_one_loop_leaves_another_alone() -> None:
    """Also while the other one has calls under way that nobody waits for."""
    app = Windlass("c", "memory://")

    @app.task
    async def ping() -> None: ...

    def elsewhere() -> None:
        async def use() -> None:
            ping.send()
            await asyncio.sleep(0)
            done.append(await ping.enqueue())
            await app.close()

        asyncio.run(use())

    done: list[Any] = []
    ping.send()
    await asyncio.to_thread(elsewhere)
    await app.close()
    await eventually(lambda: counted(app, 3))
    await app.close()


async def counted(app: Windlass, count: int) -> bool:
    return await app.queue("default").counts() == {"ready": count}


async def test_an_app_as_a_context() -> None:
    app = Windlass("c", "memory://")
    async with app as same:
        assert same is app
        assert (await app.client()).opened
    assert not app.connections.clients


async def test_the_first_of_a_crowd_go_out_while_others_still_call_and_no_more_than_two_at_a_time() -> None:
    send, store = sender()
    calls = [asyncio.ensure_future(send.send([draft(f"j{n}")])) for n in range(300)]
    await turns(5)
    assert [len(batch) for batch in store.inserts[:1]] == [EAGER]
    assert len(store.inserts) == LANES
    store.gate.set()
    answers = await within(asyncio.gather(*calls))
    assert [answer.status for [answer] in answers] == [Accept.ACCEPTED] * 300
    assert sorted(id for batch in store.inserts for id in batch) == sorted(f"j{n}" for n in range(300))


async def test_the_next_batch_of_a_large_call_is_under_way_before_the_last_is_answered() -> None:
    send, store = sender()
    call = asyncio.ensure_future(send.send([draft(f"j{n}") for n in range(3 * MAX_BATCH)]))
    await turns(5)
    assert [batch[0] for batch in store.inserts] == ["j0", f"j{MAX_BATCH}"]
    store.gate.set()
    assert len(await within(call)) == 3 * MAX_BATCH
    assert [id for batch in store.inserts for id in batch] == [f"j{n}" for n in range(3 * MAX_BATCH)]
