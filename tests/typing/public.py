"""Checked by mypy, never run: what an editor knows of the public API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_type

from windlass import (
    AsyncTask,
    Current,
    Event,
    Handle,
    JobInfo,
    Keep,
    Signature,
    State,
    SyncHandle,
    SyncTask,
    Windlass,
    current,
)
from windlass.admin import JobPage
from windlass.core.job import ErrorInfo, LogLine, Progress

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


class Shop:
    @app.task
    @staticmethod
    def static(n: int) -> str:
        return str(n)
