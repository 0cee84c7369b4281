"""Spans and how they hang together, on every engine, with a worker in this process."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from opentelemetry import baggage
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from tests.observe.collected import Book, Seen
from tests.worker.helpers import eventually, within
from windlass import (
    Cancel,
    ConfigError,
    EnqueueError,
    JobFailed,
    Snooze,
    Windlass,
    chain,
    chord,
    current,
    every,
    flow,
    group,
)
from windlass.console.console import Console
from windlass.core.access import EVERYTHING
from windlass.observe.tracing import trace


async def test_one_trace_from_the_caller_through_threads_to_nested_jobs(app: Windlass, book: Book) -> None:
    trace(app, tracer_provider=book.provider)

    @app.task(name="inner")
    async def inner() -> None: ...

    @app.task(name="outer")
    def outer() -> None:
        with book.tracer.start_as_current_span("user"):
            inner.delay()

    async with app.worker():
        with book.tracer.start_as_current_span("request"):
            handle = await outer.enqueue()
        await within(handle)
        await eventually(book.has(1, "process", task="inner"))
        await eventually(lambda: sum(map(settled_by, book.find("settle"))) == 2)
    request, send, process = book.one("request"), book.one("send", task="outer"), book.one("process", task="outer")
    user, nested, last = book.one("user"), book.one("send", task="inner"), book.one("process", task="inner")
    assert len({span.trace for span in book.all()}) == 1
    assert [send.parent, process.parent, user.parent, nested.parent, last.parent] == [
        request.id, send.id, process.id, user.id, nested.id,
    ]  # fmt: skip
    assert [send.kind, process.kind, book.find("settle")[0].kind] == ["PRODUCER", "CONSUMER", "CLIENT"]
    assert {span.parent for span in book.find("settle")} <= {process.id, last.id}
    assert (await Console(app, EVERYTHING).job(handle.id)).trace_id == request.trace, "the dashboard leads to it"
    assert process.said == {
        "messaging.system": "windlass", "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.destination.name": "default", "messaging.message.id": handle.id,
        "messaging.message.conversation_id": handle.id, "windlass.task": "outer", "windlass.attempt": 1,
        "windlass.waited_ms": process.said["windlass.waited_ms"], "windlass.outcome": "succeeded",
    }  # fmt: skip
    assert last.said["messaging.message.conversation_id"] == handle.id


async def test_every_way_to_call_carries_the_trace(app: Windlass, book: Book) -> None:
    trace(app, tracer_provider=book.provider)

    @app.task(name="called")
    async def called(number: int) -> None: ...

    async with app.worker():
        with book.tracer.start_as_current_span("request"):
            await called.enqueue(1)
            await asyncio.to_thread(called.delay, 2)
            called.send(3)
            await asyncio.to_thread(called.send, 4)
            await app.queue("default").add("called", {"number": 5})
            await app.enqueue_many([called.s(6), called.s(7)])
            await called.options(delay="10ms", headers={"kept": "yes"}).enqueue(8)
        await eventually(book.has(8, "process"))
    request, sends = book.one("request"), {span.id: span for span in book.find("send")}
    assert len(sends) == 7
    assert {span.parent for span in sends.values()} == {request.id}
    assert {span.parent for span in book.find("process")} == set(sends)
    (batch,) = [span for span in sends.values() if "messaging.batch.message_count" in span.said]
    assert batch.said["messaging.batch.message_count"] == 2
    assert "messaging.message.id" not in batch.said


async def test_attempts_are_siblings_that_say_what_became_of_them(app: Windlass, book: Book) -> None:
    trace(app, tracer_provider=book.provider)

    @app.task(name="flaky", retries=1, backoff="10ms")
    def flaky() -> None:
        raise LookupError("not there")

    @app.task(name="asleep")
    async def asleep() -> None:
        if not current().snoozes:
            raise Snooze("10ms")

    @app.task(name="unwanted")
    async def unwanted() -> None:
        raise Cancel("not needed")

    @app.task(name="slow", timeout="50ms", retries=0)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with app.worker():
        for task in (flaky, asleep, unwanted, slow):
            await task.enqueue()
        await eventually(book.has(6, "process"))
    send, (first, second) = book.one("send", task="flaky"), book.find("process", task="flaky")
    assert [first.parent, second.parent] == [send.id, send.id]
    assert [(span.outcome, span.status, span.said["windlass.attempt"]) for span in (first, second)] == [
        ("retried", "ERROR", 1), ("failed", "ERROR", 2),
    ]  # fmt: skip
    assert first.said["error.type"] == "LookupError"
    assert first.events == ["exception"]
    assert [span.outcome for span in book.find("process", task="asleep")] == ["snoozed", "succeeded"]
    stopped, late = book.one("process", task="unwanted"), book.one("process", task="slow")
    assert (stopped.outcome, stopped.status, "error.type" in stopped.said) == ("cancelled", "UNSET", False)
    assert (late.outcome, late.status, late.said["error.type"]) == ("failed", "ERROR", "windlass.errors.TaskTimeout")


async def test_members_of_workflows_are_in_the_trace_of_their_workflow(app: Windlass, book: Book) -> None:
    trace(app, tracer_provider=book.provider)

    @app.task(name="step")
    async def step(number: int) -> int:
        return number

    @app.task(name="total")
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    @app.task(name="over")
    async def over() -> int:
        return sum(current().results)

    @app.task(name="grown")
    async def grown() -> int:
        answer: int = await current().replace(chain(step.s(1), step.s()))
        return answer

    works = [
        chain(step.s(1), step.s()), group(step.s(1), step.s(2)), chord([step.s(1), step.s(2)], total.s()),
        flow(over.s(), needs=[step.s(3)]), chain(grown.s(), step.s()),
    ]  # fmt: skip
    async with app.worker():
        for number, work in enumerate(works):
            with book.tracer.start_as_current_span(f"work {number}") as span:
                trace_id = f"{span.get_span_context().trace_id:032x}"
                handle = await work.enqueue()
            await within(handle)
            members = [span for span in book.find("process") if span.trace == trace_id]
            assert len(members) == [2, 2, 3, 2, 4][number]
            assert all(member.said["windlass.workflow"] for member in members)
    outcomes = [span.outcome for span in book.find("process", task="grown")]
    assert outcomes == ["waiting"], "it is not over: a workflow is it now"
    assert not [span for span in book.all() if span.status == "ERROR"]


async def test_a_batch_is_one_span_with_links_to_all_its_sends(app: Windlass, book: Book) -> None:
    trace(app, tracer_provider=book.provider)

    @app.task(name="many", batch=3, batch_wait="30s", retries=0)
    async def many(numbers: list[int]) -> list[Any]:
        with book.tracer.start_as_current_span("inside"):
            return [number or ValueError("nothing") for number in numbers]

    async with app.worker():
        for number in range(3):
            await many.enqueue(number)
        await eventually(book.has(1, "settle"))
    process = book.one("process")
    assert process.links == [span.id for span in book.find("send")]
    assert (process.parent, process.said["messaging.batch.message_count"]) == ("", 3)
    assert (process.outcome, process.status, process.said["error.type"]) == ("mixed", "ERROR", "ValueError")
    assert book.one("inside").parent == process.id
    settle = book.one("settle")
    assert (settle.parent, settle.said["messaging.batch.message_count"]) == (process.id, 3)


async def test_a_schedules_job_begins_a_trace_that_its_attempts_share(app: Windlass, book: Book) -> None:
    trace(app, tracer_provider=book.provider)

    @app.schedule(every("1s"), name="often")
    @app.task(name="ticked", retries=1, backoff="10ms")
    async def ticked() -> None:
        if current().attempt == 1:
            raise LookupError

    async with app.worker(), app.worker():
        first, second = (await eventually(book.has(2, "process")))[:2]
    assert (first.parent, second.parent) == (book.find("send")[0].id,) * 2
    assert book.find("send")[0].said["windlass.schedule"] == "often"
    sent = {span.said["messaging.message.id"] for span in book.find("send")}
    assert len(sent) == len(book.find("send")), "who came too late tells nothing"
    assert {span.said["messaging.message.id"] for span in book.find("process")} <= sent


@pytest.mark.parametrize("count", [3, 30])
async def test_an_exchange_is_a_span_in_each_of_its_traces_or_linked_to_many(
    solo: Windlass, book: Book, count: int
) -> None:
    trace(solo, tracer_provider=book.provider)
    gate, entered = asyncio.Event(), 0

    @solo.task(name="held")
    async def held() -> None:
        nonlocal entered
        entered += 1
        await gate.wait()

    async with solo.worker(concurrency=count):
        handles = [await held.enqueue() for _ in range(count)]
        await eventually(lambda: entered == count)
        gate.set()
        for handle in handles:
            await within(handle)
        await eventually(lambda: sum(map(settled_by, book.find("settle"))) == count)
    settles, runs = book.find("settle"), {span.id for span in book.find("process")}
    if count == 3:
        assert {span.parent for span in settles} == runs
    else:
        assert [span.parent for span in settles] == [""]
        assert set(settles[0].links) == runs


def settled_by(span: Seen) -> int:
    return int(span.said.get("messaging.batch.message_count", 1))


async def test_linked_runs_begin_traces_of_their_own(solo: Windlass, book: Book) -> None:
    trace(solo, tracer_provider=book.provider, linked=True)

    @solo.task(name="apart")
    async def apart() -> None: ...

    async with solo.worker():
        await within(await apart.enqueue())
    send, process = book.one("send"), book.one("process")
    assert (process.parent, process.links, process.trace == send.trace) == ("", [send.id], False)


# -- sampling


async def test_what_is_not_sampled_costs_no_span_and_keeps_its_trace_id(app: Windlass, book: Book) -> None:
    trace(app, tracer_provider=book.provider, sample=0)
    seen: list[str] = []

    @app.task(name="inner")
    async def inner() -> None:
        seen.append(current().headers["traceparent"])

    @app.task(name="outer")
    def outer() -> None:
        seen.append(current().headers["traceparent"])
        with book.tracer.start_as_current_span("user"):
            inner.delay()

    async with app.worker():
        await outer.enqueue()
        await eventually(lambda: len(seen) == 2)
    assert not book.all(), "also not what a task begins itself"
    assert seen[0].endswith("-00")
    assert seen[1].endswith("-00")
    assert seen[0][3:35] == seen[1][3:35]


async def test_a_callers_decision_is_kept_whatever_the_rate(solo: Windlass, book: Book) -> None:
    trace(solo, tracer_provider=book.provider, sample=0)

    @solo.task(name="followed")
    async def followed() -> None: ...

    other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
    async with solo.worker():
        with book.tracer.start_as_current_span("request"):
            await within(await followed.enqueue())
        await within(await followed.options(headers={"traceparent": f"{other}-01", "tracestate": "a=1"}).enqueue())
        await within(await followed.options(headers={"traceparent": f"{other}-00", "tracestate": "a=1"}).enqueue())
    assert len(book.find("process")) == 2
    assert book.find("send")[1].parent == "b7ad6b7169203331"
    assert book.find("process")[1].trace == "0af7651916cd43dd8448eb211c80319c"


async def test_a_job_that_came_without_a_trace_begins_one(solo: Windlass, book: Book) -> None:
    @solo.task(name="alone")
    async def alone() -> None: ...

    handle = await alone.enqueue()
    trace(solo, tracer_provider=book.provider)
    async with solo.worker():
        await within(handle)
    assert book.one("process").parent == ""


async def test_baggage_goes_where_the_trace_goes(solo: Windlass, book: Book) -> None:
    trace(solo, tracer_provider=book.provider, sample=0)
    seen: list[object] = []

    @solo.task(name="carried")
    def carried() -> None:
        seen.append(baggage.get_baggage("tenant"))

    token = attach(baggage.set_baggage("tenant", "acme"))
    async with solo.worker():
        await within(await carried.enqueue())
        with book.tracer.start_as_current_span("request"):
            await within(await carried.enqueue())
    detach(token)
    assert seen == ["acme", "acme"]


# -- what goes wrong


class Broken(SpanProcessor):
    """Raises wherever a span passes, and counts how often."""

    def __init__(self, at: str) -> None:
        self.at, self.calls = at, 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self._pass("start")

    def on_end(self, span: ReadableSpan) -> None:
        self._pass("end")

    def _pass(self, at: str) -> None:
        if at == self.at:
            self.calls += 1
            raise RuntimeError("no disk")


@pytest.mark.parametrize("at", ["start", "end"])
async def test_a_tracer_that_raises_breaks_no_job(
    solo: Windlass, at: str, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    provider, broken = TracerProvider(), Broken(at)
    provider.add_span_processor(broken)
    trace(solo, tracer_provider=provider)

    @solo.task(name="fine")
    def fine() -> int:
        return 7

    @solo.task(name="wrong", retries=0)
    async def wrong() -> None:
        raise LookupError("its own")

    async with solo.worker():
        assert await within(await fine.enqueue()) == 7
        assert await asyncio.to_thread(lambda: fine.delay().get(timeout=20)) == 7
        with pytest.raises(JobFailed, match="its own"):
            await within(await wrong.enqueue())
    assert broken.calls >= 6
    assert "tracing failed" in caplog.text


async def test_a_thread_that_was_given_up_leaves_no_span_open(solo: Windlass, book: Book) -> None:
    trace(solo, tracer_provider=book.provider)
    release = threading.Event()

    @solo.task(name="stuck", timeout="50ms", retries=0)
    def stuck() -> None:
        release.wait(20)

    async with solo.worker():
        with pytest.raises(JobFailed):
            await within(await stuck.enqueue())
        span = book.one("process")
        release.set()
    assert (span.outcome, span.said["error.type"]) == ("failed", "windlass.errors.TaskTimeout")
    assert len(book.find("process")) == 1


async def test_a_refused_call_is_an_error_of_its_send(solo: Windlass, book: Book) -> None:
    trace(solo, tracer_provider=book.provider)

    @solo.task(name="one")
    async def one(number: int) -> None: ...

    await one.options(id="same").enqueue(1)
    with pytest.raises(EnqueueError):
        await one.options(id="same").enqueue(2)
    good, bad = book.find("send")
    assert (good.status, bad.status, bad.said["error.type"]) == ("UNSET", "ERROR", "conflict")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sample": 10}, "sample is 10; give a part between 0 and 1"),
        ({"sample": True}, "sample is True"),
        ({"logs": "sample"}, "did you mean 'sampled'"),
    ],
)
def test_wrong_options_are_refused_where_they_are_written(solo: Windlass, options: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        trace(solo, **options)


def test_an_app_is_traced_once(solo: Windlass) -> None:
    trace(solo)
    with pytest.raises(ConfigError, match="traced already"):
        trace(solo)
