"""The app of the workflow tests: small tasks of every kind, also for worker processes and their children."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tests.worker.helpers import SHORT, Ledger, within
from windlass import Failure, Windlass, chain, chord, current, group
from windlass.calls.task import Task

app = Windlass(os.environ.get("E2E_NAME", "graphs"), os.environ.get("E2E_URL", "memory://"), **SHORT)
ledger = Ledger(os.environ.get("E2E_LEDGER", os.devnull))


def declare_all(other: Windlass) -> None:
    """The same tasks in another app. Those that grow work out of tasks of this module run in children of its own."""
    for task in app.tasks.values():
        given = {"name": task.name, "queue": task.queue, "runs_in": task.runs_in, **task.layer}
        other.declared.add_task(task.fn, given)


class Tasks:
    """The tasks of this module as another app has them."""

    def __init__(self, other: Windlass) -> None:
        self._app = other

    def __getattr__(self, name: str) -> Any:
        return self._app.tasks[f"{__name__}.{name}"]


async def value_of(work: Any) -> Any:
    return await within(await work.enqueue())


def of(task: Task[Any, Any]) -> Any:
    """The task as the running app has it: the embedded workers of the tests run an app of their own."""
    return current()._app.tasks[task.name]


def caller(name: str, url: str) -> Windlass:
    """The same app as the worker processes have, in the test's process."""
    other = Windlass(name, url, **SHORT)
    declare_all(other)
    return other


@app.task
async def add(x: int, y: int) -> int:
    ledger.write("add", current().id, current().attempt)
    return x + y


@app.task
def double(x: int) -> int:
    return 2 * x


@app.task(runs_in="process")
def square(x: int) -> int:
    return x * x


@app.task
async def total(numbers: list[int]) -> int:
    ledger.write("total", current().id, current().attempt)
    return sum(numbers)


@app.task(runs_in="process")
def total_in_child(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
async def echo(value: Any = None) -> Any:
    return value


@app.task
async def boom(*ignored: Any) -> int:
    raise ValueError("no money")


@app.task(queue="second")
def in_second(x: int) -> int:
    return x + 100


@app.task
async def keep(path: str, value: Any = None) -> None:
    Ledger(path).write(f"{value}", current().id)


@app.task
async def keep_value(value: Any, path: str) -> None:
    text = f"{value.type}: {value.message}" if isinstance(value, Failure) else f"{value}"
    Ledger(path).write(text, current().id)


@app.task
async def told(values: list[int | Failure]) -> list[Any]:
    return [value.message if isinstance(value, Failure) else value for value in values]


@app.task
async def gathered(order: int) -> list[Any]:
    found = current().results
    return [order, [value.type if isinstance(value, Failure) else value for value in found]]


@app.task
async def slow(x: int, seconds: float) -> int:
    ledger.write("slow", current().id, current().attempt)
    await asyncio.sleep(seconds)
    ledger.write("slept", current().id, current().attempt)
    return x


@app.task(retries=2, backoff=0.01)
async def flaky(x: int, path: str) -> int:
    Ledger(path).write(f"{x}", current().id)
    if current().attempt < 3:
        raise ValueError("again")
    return x


@app.task
async def fails_until(path: str) -> str:
    if not os.path.exists(path):  # noqa: ASYNC240 - a file in a test
        raise ValueError("not yet")
    return "at last"


# -- jobs that grow


@app.task
async def replaced_on_loop(n: int) -> int:
    await asyncio.sleep(0)
    return await current().replace(chain(of(add).s(n, 1), of(double).s()))  # type: ignore[no-any-return]


@app.task
def replaced_in_thread(n: int) -> int:
    return current().replace(chain(of(add).s(n, 1), of(double).s()))  # type: ignore[no-any-return]


@app.task(runs_in="process")
def replaced_in_child(n: int) -> int:
    return current().replace(chain(add.s(n, 1), double.s()))  # type: ignore[no-any-return]


@app.task(runs_in="process")
async def replaced_in_child_async(n: int) -> int:
    await asyncio.sleep(0)
    return await current().replace(chain(add.s(n, 1), double.s()))  # type: ignore[no-any-return]


@app.task
async def waits_on_loop(n: int) -> list[int]:
    if (found := current().results) is None:
        await current().wait_for(group(of(add).s(i, 1) for i in range(n)))
    return [*found, n]


@app.task
def waits_in_thread(n: int) -> list[int]:
    found = current().wait_for(*(of(add).s(i, 1) for i in range(n)))
    return [*found, n]


@app.task(runs_in="process")
def waits_in_child(n: int) -> list[int]:
    found = current().wait_for(group(add.s(i, 1) for i in range(n)))
    return [*found, n]


@app.task(runs_in="process")
async def waits_in_child_async(n: int) -> list[int]:
    found = await current().wait_for(*(add.s(i, 1) for i in range(n)))
    return [*found, n]


@app.task
async def countdown(n: int) -> int:
    """Replaces itself by itself, n times."""
    return 0 if n == 0 else await current().replace(of(countdown).s(n - 1))


@app.task
async def fanned(n: int) -> Any:
    return await current().replace(group(of(double).s(i) for i in range(n)))


@app.task
async def chorded(n: int) -> Any:
    return await current().replace(chord([of(fanned).s(i) for i in range(n)], of(echo).s()))


@app.task
async def replaced_by_failure() -> Any:
    return await current().replace(chain(of(add).s(1, 1), of(boom).s()))


@app.task
async def waits_for_failure() -> Any:
    return await current().wait_for(of(boom).s())


@app.task(retries=2, backoff=0.01)
async def waits_then_fails_twice() -> Any:
    found = await current().wait_for(of(add).s(1, 2))
    if current().attempt < 3:
        raise ValueError("again")
    return [found, current().attempt]


@app.task
def replaced_in_vain(n: int) -> Any:
    return current().replace(of(add).s("one", n))


@app.task
async def waits_long() -> Any:
    return await current().wait_for(of(add).s(1, 2).set(delay="1h"))


@app.task
async def workflow_id() -> str | None:
    workflow = current().workflow
    return workflow.id if workflow else None
