"""What the tests of the pump share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worker.helpers import SHORT
from windlass import Windlass
from windlass.store.base import Store
from windlass.store.jobs import ExchangeReply
from windlass.testing.failing import FailingStore, Faults
from windlass.worker.service import Worker


@pytest.fixture
def app() -> Windlass:
    return Windlass("parts", "memory://", **SHORT)


def order_faults(app: Windlass) -> Faults:
    """Let every connection of the app obey the same orders."""
    faults, plain = Faults(), app.connections.new_store
    app.connections.new_store = lambda: FailingStore(plain(), faults)  # type: ignore[method-assign]
    return faults


def patch_exchange(worker: Worker, exchange: Any) -> Any:
    """Stand between the pump and its store; gives the store's own exchange."""
    plain = worker.pump._store.exchange

    class Between:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def exchange(self, *args: Any) -> ExchangeReply:
            return await exchange(*args)

    store: Store = worker.pump._store
    worker.pump._store = Between()
    return plain
