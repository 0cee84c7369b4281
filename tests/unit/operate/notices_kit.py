"""What the tests of notices share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from windlass import Notice, Reject, Windlass
from windlass.testing import Harness


@pytest.fixture
def app() -> Windlass:
    app = Windlass("shop", "memory://")

    @app.task(name="charge", queue="payments")
    async def charge(order: int, note: str = "") -> None:
        raise Reject(f"card of {order} declined")

    @app.task(name="mail", queue="emails")
    async def mail() -> None:
        raise ValueError("no such host")

    return app


@pytest.fixture
def h(app: Windlass) -> Iterator[Harness]:
    with Harness(app) as h:
        yield h


# -- the arithmetic


def notice(**more: Any) -> Notice:
    return Notice(**{"kind": "dead", "app": "shop", "title": "t", "text": "x", "id": "n1", "queue": "q", **more})
