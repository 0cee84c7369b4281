"""What the tests of limits, keys and unique jobs share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from tests.worker.helpers import eventually, within
from windlass import Handle

T = TypeVar("T")


class Crew:
    """What ran, in order; ``open`` lets those go on that wait at the door."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.running = self.peak = 0
        self.open = asyncio.Event()

    async def work(self, what: T, door: bool = False) -> T:
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await (self.open.wait() if door else asyncio.sleep(0.005))
            self.done.append(what)
            return what
        finally:
            self.running -= 1


@pytest.fixture
def crew() -> Crew:
    return Crew()


async def all_of(handles: list[Handle[Any]]) -> list[Any]:
    results: list[Any] = await within(asyncio.gather(*(handle.result() for handle in handles)))
    return results


def code(handle: Handle[Any]) -> Callable[[], Awaitable[str]]:
    async def ask() -> str:
        return (await handle.why()).main.code

    return ask


async def reason(handle: Handle[Any], expected: str) -> None:
    """Its main reason comes to be this one."""
    ask = code(handle)

    async def is_it() -> bool:
        return await ask() == expected

    await eventually(is_it)
