"""The app and tasks that the tests of plans use."""

from __future__ import annotations

from typing import Any

from windlass import Windlass

app = Windlass("plans", "memory://")


@app.task(name="step")
async def step(*args: Any) -> Any: ...


@app.task(name="two")
async def two(x: int, y: int = 0) -> int:
    return x + y
