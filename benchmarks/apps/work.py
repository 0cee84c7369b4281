"""What a job does: nothing, sleep, or burn a processor. Each kind as a plain function and, where it fits, a coroutine.

Jobs that take time hand their start to the mark, so that a trial's clock runs from the first start to the last end.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.apps.marks import mark

IO_SECONDS = 0.1
NAP_SECONDS = 0.001
CPU_STEPS = 60_000  # about four milliseconds


def noop(value: int) -> int:
    mark()
    return value


async def noop_await(value: int) -> int:
    mark()
    return value


def io(value: int) -> int:
    started = time.monotonic_ns()
    time.sleep(IO_SECONDS)
    mark(started)
    return value


async def io_await(value: int) -> int:
    started = time.monotonic_ns()
    await asyncio.sleep(IO_SECONDS)
    mark(started)
    return value


def nap(value: int) -> int:
    started = time.monotonic_ns()
    time.sleep(NAP_SECONDS)
    mark(started)
    return value


def cpu(value: int) -> int:
    started = time.monotonic_ns()
    total = 0
    for number in range(CPU_STEPS):
        total += number * number
    mark(started)
    return value


async def cpu_await(value: int) -> int:
    """For systems that run coroutines only: it holds up its loop, which is all right with one process per core."""
    return cpu(value)


PLAIN: dict[str, Callable[[int], int]] = {"noop": noop, "io": io, "nap": nap, "cpu": cpu}
COROUTINES: dict[str, Callable[[int], Coroutine[Any, Any, int]]] = {
    "noop": noop_await,
    "io": io_await,
    "cpu": cpu_await,
}


def total(values: list[int]) -> int:
    """What a chord's body and a tree's parents give: one more than what is under them."""
    mark()
    return 1 + sum(values)


def fans(size: int) -> tuple[int, ...]:
    """How many children the nodes of a tree have, level by level: 9, 10 and 10 make a tree of 1,000."""
    return (9, 10, 10) if size == 1000 else (size - 1,)


def check(found: object, value: int) -> None:
    """A result that is not the argument is a wrong one."""
    if found != value:
        raise AssertionError(f"wrong result: {found!r} instead of {value}")
