"""Batch tasks on real workers: calls gather, one function takes them, each job settles for itself."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.worker.batches_kit import Calls
from tests.worker.helpers import Fleet, Ledger, eventually, soon, within
from windlass import JobFailed, Reject, Retry, Snooze, Windlass, chain, current, once
from windlass.errors import ConfigError, PayloadError
from windlass.store.jobs import Action, Change


def chain_up(calls: Calls) -> list[Any]:
    return [item for docs in calls for item in docs]


async def test_calls_gather_up_to_the_size(app: Windlass) -> None:
    calls: Calls = []

    @app.task(batch=10, batch_wait="5s")
    async def index(docs: list[int]) -> list[int]:
        calls.append(docs)
        return [10 * doc for doc in docs]

    async with app, app.worker(concurrency=4):
        handles = await app.enqueue_many([index.s(n) for n in range(40)])
        assert [await within(handle) for handle in handles] == [10 * n for n in range(40)]
    assert all(len(docs) == 10 for docs in calls)
    assert sorted(chain_up(calls)) == list(range(40))


async def test_what_has_gathered_runs_when_the_wait_is_over(app: Windlass) -> None:
    calls: Calls = []

    @app.task(batch=100, batch_wait="100ms")
    async def index(docs: list[str]) -> None:
        calls.append(docs)

    async with app, app.worker():
        first = [await index.enqueue("a"), await index.enqueue("b")]
        assert [await within(handle) for handle in first] == [None, None]
        assert await within(await index.enqueue("c")) is None
    assert sorted(chain_up(calls)) == ["a", "b", "c"]
    assert len(calls) <= 3


async def test_a_batch_is_one_slot_and_gathers_more_than_there_are_slots(app: Windlass) -> None:
    calls: Calls = []

    @app.task(batch=50, batch_wait="10s")
    async def index(docs: list[int]) -> None:
        calls.append(docs)

    async with app, app.worker(concurrency=1) as worker:
        handles = await app.enqueue_many([index.s(n) for n in range(50)])
        await within(asyncio.gather(*handles))
        await eventually(lambda: not worker.executor.held)
        assert worker.executor.room(0, 0) == 1
    assert [len(docs) for docs in calls] == [50]


async def test_threads_take_batches_too(app: Windlass) -> None:
    names = []

    @app.task(batch=5, batch_wait="2s")
    def index(docs: list[int]) -> list[int]:
        names.append(threading.current_thread().name)
        return docs

    async with app, app.worker():
        handles = await app.enqueue_many([index.s(n) for n in range(5)])
        assert [await within(handle) for handle in handles] == [0, 1, 2, 3, 4]
    assert len(names) == 1
    assert names[0].startswith("windlass-")


async def test_an_exception_in_the_list_fails_that_job_alone(app: Windlass) -> None:
    @app.task(batch=4, batch_wait="2s")
    async def index(docs: list[int]) -> list[int | Exception]:
        return [ValueError("odd") if doc % 2 else doc for doc in docs]

    async with app, app.worker():
        handles = await app.enqueue_many([index.s(n) for n in range(4)])
        assert await within(handles[0]) == 0
        assert await within(handles[2]) == 2
        for handle in (handles[1], handles[3]):
            with pytest.raises(JobFailed, match="odd"):
                await within(handle)


async def test_raising_fails_all_and_each_retries_for_itself(app: Windlass) -> None:
    calls: Calls = []

    @app.task(batch=3, batch_wait="200ms", retries=2, backoff=0.01)
    async def index(docs: list[int]) -> list[int]:
        calls.append(docs)
        if len(calls) == 1:
            raise ConnectionError("down")
        return docs

    async with app, app.worker():
        handles = await app.enqueue_many([index.s(n) for n in range(3)])
        assert [await within(handle) for handle in handles] == [0, 1, 2]
        assert [(await handle.info()).attempts for handle in handles] == [1, 1, 1]
    assert sorted(calls[0]) == [0, 1, 2]


async def test_each_may_say_what_it_wants_for_itself(app: Windlass) -> None:
    seen: dict[str, int] = {}

    @app.task(batch=4, batch_wait="100ms", retries=3)
    async def index(docs: list[str]) -> list[str | Exception]:
        answers: list[str | Exception] = []
        for doc in docs:
            seen[doc] = seen.get(doc, 0) + 1
            wish = {"retry": Retry(delay=0.01), "snooze": Snooze(0.01), "reject": Reject("no")}.get(doc)
            answers.append(wish if wish is not None and (seen[doc] == 1 or doc == "reject") else doc)
        return answers

    async with app, app.worker():
        handles = await app.enqueue_many([index.s(doc) for doc in ("fine", "retry", "snooze", "reject")])
        assert [await within(handle) for handle in handles[:3]] == ["fine", "retry", "snooze"]
        with pytest.raises(JobFailed, match="no"):
            await within(handles[3])
    assert seen == {"fine": 1, "retry": 2, "snooze": 2, "reject": 1}


async def test_a_list_of_another_length_fails_all(app: Windlass) -> None:
    @app.task(batch=2, batch_wait="2s")
    async def index(docs: list[int]) -> list[int]:
        return [1]

    async with app, app.worker():
        for handle in await app.enqueue_many([index.s(1), index.s(2)]):
            with pytest.raises(JobFailed, match="got a batch of 2 and gave 1 results"):
                await within(handle)


async def test_a_payload_that_does_not_fit_leaves_the_others_alone(app: Windlass) -> None:
    calls: Calls = []

    @app.task(batch=3, batch_wait="1s", name="index")
    async def index(docs: list[int]) -> None:
        calls.append(docs)

    async with app:
        handles = await app.enqueue_many([index.s(1), index.s(2)])
        bad = await index.enqueue(3)
        change = Change(action=Action.EDIT, payload=b'{"docs": "three"}')
        await (await app.client()).store.change(change, [bad.id])
        async with app.worker():
            assert [await within(handle) for handle in handles] == [None, None]
            with pytest.raises(JobFailed, match="does not fit"):
                await within(bad)
    assert sorted(chain_up(calls)) == [1, 2]


async def test_current_in_a_batch_knows_all_its_jobs(app: Windlass) -> None:
    @app.task(batch=3, batch_wait="2s")
    async def index(docs: list[int]) -> list[list[str]]:
        job = current()
        job.progress(50, "half")
        job.log("seen")
        return [job.batch] * len(docs)

    async with app, app.worker():
        handles = await app.enqueue_many([index.s(n) for n in range(3)])
        results = [await within(handle) for handle in handles]
        assert results == [[handle.id for handle in handles]] * 3
        for handle in handles:
            assert [line.text for line in await handle.logs()] == ["seen"]
            progress = (await handle.info()).progress
            assert progress is not None
            assert progress.message == "half"


async def test_what_a_batch_cannot_do_is_said(app: Windlass) -> None:
    @app.task
    async def other() -> None: ...

    @app.task(batch=2, batch_wait="50ms")
    async def index(docs: list[str]) -> None:
        if docs[0] == "once":
            async with once():
                pass
        await current().replace(other.s())

    async with app, app.worker():
        with pytest.raises(JobFailed, match="in a batch needs a key"):
            await within(await index.enqueue("once"))
        with pytest.raises(JobFailed, match="cannot go on as a workflow"):
            await within(await index.enqueue("replace"))


async def test_a_breaker_hears_of_each_job_of_a_batch(app: Windlass) -> None:
    api = app.breaker("api", errors=3, open_for="1h")

    @app.task(batch=4, batch_wait="1s", breaker="api")
    async def index(docs: list[int]) -> list[int | Exception]:
        return [doc or ConnectionError() for doc in docs]

    async with app, app.worker():
        handles = await app.enqueue_many([index.s(n) for n in (1, 0, 0, 0)])
        assert await within(handles[0]) == 1

        async def is_open() -> bool:
            return (await api.state()).state == "open"

        await eventually(is_open)
        assert (await api.state()).errors == 3


async def test_a_batch_task_in_a_workflow_is_given_its_values(app: Windlass) -> None:
    calls: Calls = []

    @app.task
    async def make(n: int) -> int:
        return n * 100

    @app.task(batch=4, batch_wait="300ms")
    async def index(docs: list[int]) -> list[int]:
        calls.append(docs)
        return [doc + 1 for doc in docs]

    async with app, app.worker():
        flows = [await chain(make.s(n), index.s()).enqueue() for n in range(4)]
        assert [await within(flow) for flow in flows] == [1, 101, 201, 301]
    assert sorted(chain_up(calls)) == [0, 100, 200, 300]


async def test_other_jobs_run_while_a_batch_gathers(app: Windlass) -> None:
    @app.task(batch=10, batch_wait="1h")
    async def index(docs: list[int]) -> None: ...

    @app.task
    async def quick(n: int) -> int:
        return n

    async with app, app.worker(concurrency=2) as worker:
        await index.enqueue(1)
        await eventually(lambda: worker.executor.held)
        handles = await app.enqueue_many([quick.s(n) for n in range(30)])
        assert [await within(handle) for handle in handles] == list(range(30))


async def test_what_a_gathering_batch_does_not_need_is_left_to_other_workers(app: Windlass) -> None:
    """A batch asks for more than there are slots, and other jobs come as well: they do not wait at this worker."""

    @app.task(batch=100, batch_wait="1h")
    async def index(docs: list[int]) -> None: ...

    @app.task
    async def slow(n: int) -> int:
        await asyncio.sleep(0.05)
        return n

    async with app, app.worker(concurrency=2) as first:
        await index.enqueue(1)
        await eventually(lambda: first.executor.held)
        handles = await app.enqueue_many([slow.s(n) for n in range(60)])
        async with app.worker(concurrency=20) as second:
            await eventually(lambda: second.executor.active > 2)
            assert [await within(handle) for handle in handles] == list(range(60))
        assert first.executor.completed < 200, "no endless to and fro"


async def test_middleware_goes_around_the_batch(app: Windlass) -> None:
    seen = []

    @app.around_run
    async def layer(job: Any, call_next: Any) -> Any:
        seen.append("before")
        result = await call_next()
        seen.append(result)
        return result

    @app.task(batch=2, batch_wait="2s")
    async def index(docs: list[int]) -> list[int]:
        return docs

    @app.task(batch=2, batch_wait="2s")
    def threaded(docs: list[int]) -> list[int]:
        return docs

    async with app, app.worker():
        for task in (index, threaded):
            handles = await app.enqueue_many([task.s(1), task.s(2)])
            assert [await within(handle) for handle in handles] == [1, 2]
    assert seen == ["before", [1, 2], "before", [1, 2]]


async def test_declaring_and_calling(app: Windlass) -> None:
    with pytest.raises(ConfigError, match="one parameter"):

        @app.task(batch=2)  # type: ignore[arg-type]
        async def two(docs: list[int], more: int) -> None: ...

    with pytest.raises(ConfigError, match="runs on the loop or in a thread"):

        @app.task(batch=2, runs_in="process")
        def child(docs: list[int]) -> None: ...

    with pytest.raises(ConfigError, match="annotate it as list"):

        @app.task(batch=2)  # type: ignore[arg-type]
        async def no_list(doc: int) -> None: ...

    @app.task(batch=2)
    async def index(docs: list[int]) -> list[int | Exception]:
        return [doc or ValueError("none") for doc in docs]

    assert await index(5) == 5
    with pytest.raises(ValueError, match="none"):
        await index(0)
    with pytest.raises(PayloadError):
        await index.enqueue("five")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="takes batches"):
        index.map([1, 2])


def test_a_killed_worker_leaves_each_job_of_its_batch_to_another(fleet: Fleet, ledger: Ledger) -> None:
    from tests.worker.jobs import caller

    app = caller(fleet.env["E2E_URL"])
    index = app.tasks["tests.worker.jobs.index_slowly"]
    first = fleet.start()
    handles = [index.delay(n) for n in range(3)]
    soon(lambda: len(ledger.lines("start")) == 3)
    first.kill()
    fleet.start(env={"E2E_PAUSE": "0"})
    assert [handle.get(timeout=30) for handle in handles] == [0, 1, 2]
    assert len(ledger.lines("end")) == 3
    app.sync.close()
