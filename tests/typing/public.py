"""Checked by mypy, never run: what an editor knows of the public API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from windlass import (
    AsyncTask,
    Breaker,
    BreakerInfo,
    Chain,
    Chord,
    Current,
    Event,
    Failure,
    Flow,
    Group,
    Handle,
    Holder,
    JobInfo,
    Keep,
    LimitInfo,
    Lock,
    Once,
    Queue,
    QueueStatus,
    Rate,
    Reason,
    ScheduleInfo,
    Signature,
    State,
    SyncHandle,
    SyncTask,
    SyncWorkflow,
    TaskGate,
    Tree,
    Why,
    Windlass,
    Work,
    Workflow,
    WorkflowInfo,
    WorkflowPage,
    WorkflowProgress,
    chain,
    chord,
    cron,
    current,
    every,
    flow,
    group,
    once,
    once_at,
)
from windlass.core.job import ErrorInfo, LogLine, Progress
from windlass.operate.admin import JobPage

app = Windlass("shop", "memory://", include=["shop.tasks"], tz="Europe/Berlin", lease="15s", retries=3)


@app.task
async def add(x: int, y: int = 0) -> int:
    return x + y


@app.task(queue="emails", retries=5, backoff="exponential", timeout=30, keep=Keep(count=5))
def send(to: str, *, subject: str) -> list[str]:
    return [to, subject]


@app.task(runs_in="process", timeout=timedelta(minutes=5))
def crunch(data: bytes) -> None: ...


async def tasks() -> None:
    assert_type(await add(1, 2), int)
    assert_type(send("a", subject="b"), list[str])
    asynchronous: AsyncTask[..., int] = add
    plain: SyncTask[..., list[str]] = send
    print(asynchronous.name, plain.runs_in)  # noqa: T201


async def handles() -> None:
    handle = await add.enqueue(1, y=2)
    assert_type(handle, Handle[int])
    assert_type(await handle, int)
    assert_type(await handle.result(timeout="5s"), int)
    assert_type(handle.get(timeout=1), int)
    assert_type(handle.sync, SyncHandle[int])
    assert_type(await handle.info(), JobInfo | None)
    assert_type(await handle.state(), State | None)
    assert_type(await handle.error(), ErrorInfo | None)
    assert_type(await handle.progress(), Progress | None)
    assert_type(await handle.logs(), list[LogLine])
    assert_type(await handle.cancel("why"), bool)
    assert_type(await (await crunch.enqueue(b"")), None)


def sync_handles() -> None:
    handle = send.delay("a", subject="b")
    assert_type(handle, SyncHandle[list[str]])
    assert_type(handle.get(timeout=10), list[str])
    assert_type(handle.state, State | None)
    assert_type(handle.ready(), bool)
    assert_type(send.apply_async(["a"], {"subject": "b"}, countdown=10, priority=9), SyncHandle[list[str]])


async def options() -> None:
    call = send.options(delay="10m", priority=9, id="welcome:42", headers={"a": "b"})
    assert_type(await call.enqueue("a", subject="b"), Handle[list[str]])
    assert_type(call.delay("a", subject="b"), SyncHandle[list[str]])
    assert_type(call.s("a", subject="b"), Signature[list[str]])
    call.send("a", subject="b")


async def signatures() -> None:
    one = add.s(1, 2)
    assert_type(one, Signature[int])
    assert_type(await app.enqueue_many([one, send.s("a", subject="b")]), list[Handle[Any]])
    assert_type(app.sync.enqueue_many([one]), list[SyncHandle[Any]])


async def workflows() -> None:
    assert_type(add.s("anything"), Signature[int])
    assert_type(add.si(1, y=2), Signature[int])
    assert_type(send.options(priority=9).si("a", subject="b"), Signature[list[str]])
    assert_type(add.si(1).set(queue="slow", id="x"), Signature[int])
    assert_type(app.sig("by.name", {"x": 1}, queue="slow"), Signature[Any])
    assert_type(await add.si(1), Handle[int])
    assert_type(await add.si(1).enqueue(), Handle[int])
    assert_type(add.si(1).delay(), SyncHandle[int])
    assert_type(add.map([1, 2]), Signature[list[int]])
    assert_type(add.starmap([(1, 2)]), Signature[list[int]])
    assert_type(add.chunks([(1, 2)], 10), Group[list[int]])
    assert_type(await (await add.chunks([(1, 2)], 10)), list[list[int]])

    assert_type(add.s() | send.si("a", subject="b"), Chain[list[str]])
    assert_type(add.s() | send.s() | add.s(), Chain[int])
    assert_type(chain(add.s(1), send.s()), Chain[list[str]])
    assert_type(chain(add.s(1), send.s(), add.s()), Chain[int])
    assert_type(chain([add.s(n) for n in range(9)]), Chain[Any])
    assert_type(chain(add.s(), add.s(), add.s(), add.s(), add.s(), add.s(), add.s()), Chain[Any])
    many = group(add.si(1, 2), add.si(3, 4))
    assert_type(many, Group[int])
    as_work: Work[list[int]] = many
    assert_type(await as_work.enqueue(), Handle[list[int]] | Workflow[list[int]])
    assert_type(group(add.si(n) for n in range(3)), Group[int])
    assert_type(await many, Workflow[list[int]])
    assert_type(await (await many), list[int])
    assert_type(await (await group(many, many)), list[list[int]])
    assert_type(many.delay(), SyncWorkflow[list[int]])
    assert_type(many.delay().get(timeout=5), list[int])
    assert_type(many.keep_errors(), Group[int | Failure])
    assert_type(await (await many.at_least(1)), list[int | Failure])
    assert_type(many | add.s(), Chain[int])
    assert_type(chord([add.si(1)], send.s()), Chord[list[str]])
    assert_type(chord(many)(send.s()), Chord[list[str]])
    assert_type(chord(many, send.s()).keep_errors(), Chord[list[str]])
    assert_type(await (await chord(many, send.s())), list[str])
    assert_type(flow(add.si(1), needs=[send.si("a", subject="b"), many.if_fails("ignore")]), Flow[int])
    assert_type(chain(add.s(1)).on_error(send.s()).then(add.s()).on_end(add.si(1)).fail_fast(), Chain[int])
    assert_type(many.named("x").with_id("y"), Group[int])


async def workflow_handles() -> None:
    handle = await chain(add.s(1), add.s(2))
    assert_type(handle, Workflow[int])
    assert_type(await handle, int)
    assert_type(await handle.result(timeout="5s"), int)
    assert_type(handle.sync, SyncWorkflow[int])
    assert_type(await handle.state(), State | None)
    assert_type(await handle.info(), WorkflowInfo | None)
    assert_type(await handle.progress(), WorkflowProgress)
    assert_type(await handle.cancel("why"), bool)
    assert_type(await handle.jobs(), list[JobInfo])
    assert_type(await handle.tree(), Tree)
    assert_type(await handle.mermaid(), str)
    assert_type(handle.sync.state, State | None)
    assert_type(handle.sync.progress().done, int)
    assert_type(app.workflow("id"), Workflow[Any])
    assert_type(app.sync.workflow("id"), SyncWorkflow[Any])
    assert_type(await app.workflows(state="failed"), WorkflowPage)
    assert_type(app.sync.workflows(limit=5), WorkflowPage)


async def schedules() -> None:
    @app.schedule(every("10 minutes"), missed="skip", overlap="queue", jitter="30s", priority=9)
    @app.task
    async def above(x: int = 0) -> str:
        return str(x)

    @app.task(queue="q")
    @app.schedule(cron("0 9 * * 1-5", tz="Europe/Berlin"), name="n", args=[1], start="5m", limit=3)
    def below(x: int) -> str:
        return str(x)

    assert_type(await above(1), str)
    assert_type(below(1), str)
    assert_type(below.delay(1), SyncHandle[str])
    assert_type(
        await app.schedules.put("s", once_at(datetime.now(UTC)), above, kwargs={"x": 1}, gap="skip"), ScheduleInfo
    )
    assert_type(await app.schedules.get("s"), ScheduleInfo | None)
    assert_type(await app.schedules.list(), list[ScheduleInfo])
    assert_type(await app.schedules.pause("s", "why"), ScheduleInfo)
    assert_type(await app.schedules.resume("s"), ScheduleInfo)
    assert_type(await app.schedules.remove("s"), bool)
    assert_type(await app.schedules.run("s"), Handle[Any])
    assert_type(await app.schedules.preview(every(30), n=3, repeat="both"), list[datetime])
    assert_type(app.sync.schedules.list(), list[ScheduleInfo])
    assert_type(app.sync.schedules.run("s"), SyncHandle[Any])
    assert_type(app.sync.schedules.preview("s"), list[datetime])


async def others() -> None:
    assert_type(await app.queue("emails", retries=3).add("by.name", {"to": "a"}, priority=9), Handle[Any])
    assert_type(await app.queue("emails").counts(), dict[str, int])
    assert_type(app.job("id"), Handle[Any])
    assert_type(await app.jobs(state="failed"), JobPage)
    assert_type(await app.dead.replay(task="x"), int)
    assert_type(current(), Current)
    assert_type(current().attempt, int)
    async for event in app.events(queue="emails"):
        assert_type(event, Event)


@app.task(
    rate="10/m", limit=3, key=["order"], key_limit=2, key_rate="5/s", ordered=True, gap_timeout="10s",
    units=lambda order: 2, unique=lambda order, **_: order, unique_policy="debounce", unique_for="5s",
    debounce_max="1m", when_full="reject", full_timeout=5, breaker="stripe",
)  # fmt: skip
async def charge(order: int) -> str:
    return str(order)


async def flow_control() -> None:
    call = charge.options(key="vip", seq=3, units=2, unique=True, when_full="drop_oldest", key_rate=Rate(1_000))
    assert_type(await call.enqueue(1), Handle[str])
    queue = app.queue("mail", rate="5/s", limit=10, max_ready=100, ageing="1m", ordered=False, key_limit=None)
    assert_type(queue, Queue)
    await queue.pause()
    await queue.resume()
    await queue.tune(rate="5/s", limit=None, key_limit=2, key_rate=None, max_ready=5)
    await queue.untune()
    await queue.drain(timeout="10m")
    assert_type(await queue.purge(state="ready"), int)
    assert_type(await queue.move_to("other", state=["ready", State.SCHEDULED]), int)
    assert_type(await queue.info(), QueueStatus)
    assert_type((await queue.info()).limits, LimitInfo)
    await charge.pause()
    await charge.resume()
    await charge.tune(rate="1/s", limit=None)
    await charge.untune()
    assert_type(app.task_gate("other.task"), TaskGate)
    assert_type(await app.task_gate("other.task").info(), LimitInfo)
    assert_type(await app.limits(), list[LimitInfo])
    assert_type(await app.holder(charge, 42), Holder | None)
    assert_type(app.sync.holder("other.task", "x"), Holder | None)
    assert_type(app.sync.limits(), list[LimitInfo])
    app.sync.queue("mail").tune(rate="5/s")
    app.sync.task_gate("other.task").tune(limit=3)
    assert_type(app.sync.queue("mail").purge(), int)


async def why_not() -> None:
    handle = await charge.enqueue(1)
    assert_type(handle.existing, bool)
    assert_type(await handle.promote(), bool)
    assert_type(await handle.move_to("other"), bool)
    assert_type(await handle.reprioritise(9), bool)
    assert_type(await handle.reschedule(delay="1h"), bool)
    assert_type(await handle.why(), Why)
    assert_type(handle.sync.why().reasons, list[Reason])
    assert_type(handle.sync.why().main.until, datetime | None)


@app.task(batch=100, batch_wait="1s", queue="docs")
async def index(docs: list[bytes]) -> list[int]:
    return [len(doc) for doc in docs]


@app.task(batch=100)
async def index_some(docs: list[bytes]) -> list[int | Exception]:
    return []


@app.task(batch=100)
async def index_quietly(docs: list[bytes]) -> None: ...


@app.task(batch=100)
def index_in_thread(docs: list[bytes]) -> list[int | Exception]:
    return []


@app.task(batch=100, breaker="stripe")
def index_quietly_in_thread(docs: list[bytes]) -> None: ...


async def batches() -> None:
    assert_type(index, AsyncTask[[bytes], int])
    assert_type(index_some, AsyncTask[[bytes], int])
    assert_type(index_quietly, AsyncTask[[bytes], None])
    assert_type(index_in_thread, SyncTask[[bytes], int])
    assert_type(index_quietly_in_thread, SyncTask[[bytes], None])
    assert_type(await index.enqueue(b"a"), Handle[int])
    assert_type(await index(b"a"), int)
    assert_type(index_in_thread(b"a"), int)
    assert_type(current().batch, list[str])


async def locks() -> None:
    async with app.lock("invoice:42", ttl="30s", wait=True) as lock:
        assert_type(lock, Lock)
        assert_type(lock.token, int)
        assert_type(lock.lost, bool)
        lock.check()
    with app.lock("invoice:42", wait=timedelta(seconds=5)) as held:
        assert_type(held, Lock)


async def charged(order: int, *, note: str = "") -> bytes:
    return b""


def charged_here(order: int) -> bytes:
    return b""


async def only_once() -> None:
    async with once() as block:
        assert_type(block, Once)
        assert_type(block.done, bool)
        block.result = 5
    with app.once("charge:42", ttl="1h", wait=False) as found:
        assert_type(found, Once)
    assert_type(await once("charge:42").run(charged, 42, note="a"), bytes)
    assert_type(once("charge:42", "24h").call(charged_here, 42), bytes)


async def breakers() -> None:
    stripe = app.breaker("stripe", errors=5, window="1m", error_rate=0.5, open_for="30s", when_open="hold")
    assert_type(stripe, Breaker)
    async with app.breaker("stripe") as entered:
        assert_type(entered, Breaker)
    with stripe:
        pass
    assert_type(await stripe.state(), BreakerInfo)
    assert_type(await stripe.open(for_="10m"), BreakerInfo)
    assert_type(await stripe.close(), BreakerInfo)
    assert_type(await stripe.auto(), BreakerInfo)
    assert_type((await stripe.state()).until, datetime | None)
    app.worker(queues={"critical": 5, "low": 1})
    app.worker(queues=["critical*5", "low"])


class Shop:
    @app.task
    @staticmethod
    def static(n: int) -> str:
        return str(n)
