"""What the tests of the console share."""

from __future__ import annotations

import msgspec
import pytest

from tests.web.kit import new_job
from windlass import Windlass
from windlass.console import Console
from windlass.core.access import make_access
from windlass.store.base import Store


@pytest.fixture
async def store(app: Windlass) -> Store:
    return (await app.client()).store


@pytest.fixture
def console(app: Windlass) -> Console:
    return Console(app, make_access("ann", ["*"]))


async def fill(store: Store, count: int) -> None:
    """Jobs ``j0`` and on, every third of them in ``bill``; their argument ``n`` is their number."""
    for start in range(0, count, 1_000):
        await store.insert([
            new_job(
                f"j{n}", *(("bill.charge", "bill") if n % 3 == 0 else ()),
                payload=msgspec.json.encode({"n": n, "even": n % 2 == 0}),
            )
            for n in range(start, min(start + 1_000, count))
        ])  # fmt: skip


async def walk(console: Console, filter: str, limit: int = 50) -> tuple[list[str], int]:
    """The ids in the order they came, and how many pages were partial."""
    found: list[str] = []
    partial, after = 0, ""
    while True:
        page = await console.jobs(filter, after, limit)
        assert len(page.jobs) <= limit
        found += [row.id for row in page.jobs]
        partial += page.partial
        after = page.cursor
        if not after:
            return found, partial
