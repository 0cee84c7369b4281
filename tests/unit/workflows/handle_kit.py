"""What the tests of workflow handles and pictures share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.worker.helpers import SHORT
from windlass import (
    Windlass,
    chain,
    current,
)


@dataclass
class Point:
    day: date
    x: int = 0


async def strict(x: int, y: int) -> int:
    if y == 0:
        raise ValueError("no y")
    return x + y


class Shop:
    """An app and its tasks."""

    def __init__(self, url: str) -> None:
        self.app = app = Windlass("handles", url, **SHORT)
        self.seen: list[Any] = []
        self.gate = asyncio.Event()
        self.broken = True

        @app.task(name="add")
        async def add(x: int, y: int = 0) -> int:
            return x + y

        @app.task(name="total")
        async def total(xs: list[int]) -> int:
            return sum(xs)

        @app.task(name="charge")
        async def charge(x: int = 0) -> int:
            if self.broken:
                raise ValueError("no money")
            return x

        @app.task(name="wait")
        async def wait() -> str:
            await self.gate.wait()
            return "waited"

        @app.task(name="point")
        async def point(x: int) -> Point:
            return Point(date(2030, 1, 31), x)

        @app.task(name="note")
        async def note(*args: Any) -> None:
            self.seen.append(args)

        @app.task(name="grow")
        async def grow(n: int) -> int:
            return await current().replace(chain(add.s(n), add.s(1)))

        self.add, self.total, self.charge, self.wait, self.point, self.note = add, total, charge, wait, point, note
        self.grow, self.strict = grow, app.task(name="strict")(strict)


@pytest.fixture(params=["memory", "sqlite"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    made = Shop("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db?durability=normal")
    yield made
    await made.app.close()


@pytest.fixture
async def working(shop: Shop) -> AsyncIterator[Shop]:
    async with shop.app.worker():
        yield shop
        shop.gate.set()
