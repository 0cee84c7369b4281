"""What the tests of the Celery layer share: tasks as Celery's users write them, and a worker in a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from windlass.celery import Celery, chain, group
from windlass.celery.exceptions import Reject

WAIT = 60


@contextmanager
def working(app: Celery, **options: Any) -> Iterator[None]:
    """A worker of this app, in a thread with a loop of its own."""
    started: list[Any] = []
    ready = threading.Event()

    async def serve() -> None:
        leave = asyncio.Event()
        async with app.windlass.worker(**{"queues": app.worker_queues(), "concurrency": 10, **options}):
            started[:] = [asyncio.get_running_loop(), leave]
            ready.set()
            await leave.wait()
        await app.windlass.close()

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(WAIT)
    assert started, "the worker did not start"
    try:
        yield
    finally:
        started[0].call_soon_threadsafe(started[1].set)
        thread.join(WAIT)
        app.close()


def soon(check: Callable[[], Any], timeout: float = WAIT) -> Any:
    """The first true answer, or an error."""
    deadline = time.monotonic() + timeout
    while not (answer := check()):
        assert time.monotonic() < deadline, f"not within {timeout} s (last: {answer!r})"
        time.sleep(0.01)
    return answer


class TooHot(Exception):
    """An error of the user's own, with more than a text."""

    def __init__(self, degrees: int, where: str) -> None:
        super().__init__(degrees, where)
        self.degrees, self.where = degrees, where

    def __str__(self) -> str:
        return f"{self.degrees} degrees in {self.where}"


def declare(app: Celery) -> SimpleNamespace:
    """Tasks for the canvas tests, and ``seen``, where they say what they did."""
    seen: list[Any] = []
    plain = declare_plain(app)
    return SimpleNamespace(
        app=app, seen=seen, **plain, **declare_telling(app, seen), **declare_bound(app, plain),
        put_back=declare_put_back(app, seen),
    )  # fmt: skip


def declare_put_back(app: Celery, seen: list[Any]) -> Any:
    @app.task(name="put_back", bind=True, acks_late=True)
    def put_back(self):  # type: ignore[no-untyped-def]
        seen.append(self.request.delivery_info["redelivered"])
        if not seen[-1]:
            raise Reject("not now", requeue=True)
        return self.request.retries

    return put_back


def declare_plain(app: Celery) -> dict[str, Any]:
    @app.task(name="add")
    def add(x, y):  # type: ignore[no-untyped-def]
        return x + y

    @app.task(name="identity")
    def identity(x):  # type: ignore[no-untyped-def]
        return x

    @app.task(name="total")
    def total(numbers):  # type: ignore[no-untyped-def]
        return sum(numbers)

    @app.task(name="add_to_all")
    def add_to_all(numbers, value):  # type: ignore[no-untyped-def]
        return [number + value for number in numbers]

    @app.task(name="fail")
    def fail(*args):  # type: ignore[no-untyped-def]
        raise ValueError(f"failed with {args}")

    return {"add": add, "identity": identity, "total": total, "add_to_all": add_to_all, "fail": fail}


def declare_telling(app: Celery, seen: list[Any]) -> dict[str, Any]:
    @app.task(name="note")
    def note(what):  # type: ignore[no-untyped-def]
        seen.append(what)
        return what

    @app.task(name="errback")
    def errback(task_id):  # type: ignore[no-untyped-def]
        seen.append(("errback", task_id))

    @app.task(name="errback3")
    def errback3(request, exc, traceback):  # type: ignore[no-untyped-def]
        seen.append(("errback3", request.id, request.task, repr(exc), traceback))

    return {"note": note, "errback": errback, "errback3": errback3}


def declare_bound(app: Celery, plain: dict[str, Any]) -> dict[str, Any]:
    add, fail = plain["add"], plain["fail"]

    @app.task(name="ids", bind=True)
    def ids(self, i):  # type: ignore[no-untyped-def]
        return [self.request.root_id, self.request.parent_id, i]

    @app.task(name="collect_ids", bind=True)
    def collect_ids(self, found, i):  # type: ignore[no-untyped-def]
        return [found, [self.request.root_id, self.request.parent_id, i]]

    @app.task(name="replaced_by_add", bind=True)
    def replaced_by_add(self, x, y):  # type: ignore[no-untyped-def]
        return self.replace(add.s(x, y))

    @app.task(name="replaced_by_chain", bind=True)
    def replaced_by_chain(self, x):  # type: ignore[no-untyped-def]
        return self.replace(chain(add.s(x, 1), add.s(10), replaced_by_add.s(100)))

    @app.task(name="replaced_by_group", bind=True)
    def replaced_by_group(self, x):  # type: ignore[no-untyped-def]
        return self.replace(group(add.s(x, i) for i in range(3)))

    @app.task(name="adding", bind=True)
    def adding(self, numbers, lazy=False):  # type: ignore[no-untyped-def]
        for number in numbers:
            self.add_to_chord(add.s(number, 10), lazy=lazy)
        return "own"

    @app.task(name="adding_chord", bind=True)
    def adding_chord(self, numbers):  # type: ignore[no-untyped-def]
        self.add_to_chord(group(add.s(number, 10) for number in numbers) | plain["total"].s())
        return "own"

    @app.task(name="replaced_by_failure", bind=True)
    def replaced_by_failure(self, *args):  # type: ignore[no-untyped-def]
        return self.replace(fail.si(7))

    return {
        "ids": ids, "collect_ids": collect_ids, "replaced_by_add": replaced_by_add,
        "replaced_by_chain": replaced_by_chain, "replaced_by_group": replaced_by_group,
        "replaced_by_failure": replaced_by_failure, "adding": adding, "adding_chord": adding_chord,
    }  # fmt: skip
