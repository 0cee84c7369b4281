"""The store conformance suite: the specification of every engine, as tests that any engine's own test file can run.

    from windlass.testing.conformance import Conformance, Engine

    class TestMyEngine(Conformance):
        @pytest.fixture
        def engine(self, tmp_path: Path) -> Engine:
            return lambda settings, clock: MyStore(f"my:///{tmp_path}/jobs", settings, clock=clock)

It needs pytest-asyncio with ``asyncio_mode = "auto"``. The fixture answers a function that makes unopened stores, all
of them on the same data, which must be empty at the start of each test. The names of the tests are the rules.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

_MODULES = (
    "aside beat cancel change clock concurrency counts crash events exchange expiry find insert notes order replies "
    "retention solo sweep wake watch bench life"
)
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in _MODULES.split()))

from windlass.store.base import Clock, Store, StoreSettings  # noqa: E402
from windlass.testing.conformance.aside import AsideRules, ParkRules  # noqa: E402
from windlass.testing.conformance.beat import BeatAnswerRules, PresenceRules, ReconcileRules  # noqa: E402
from windlass.testing.conformance.bench import (  # noqa: E402
    Bench,
    Engine,
    Hand,
    Listener,
    MakeBench,
    MakeStore,
    ManualClock,
)
from windlass.testing.conformance.cancel import CancelRules  # noqa: E402
from windlass.testing.conformance.change import ChangeRules, EditRules, RetryRules  # noqa: E402
from windlass.testing.conformance.clock import ClockRules, JumpRules  # noqa: E402
from windlass.testing.conformance.concurrency import ConcurrencyRules  # noqa: E402
from windlass.testing.conformance.counts import CountRules  # noqa: E402
from windlass.testing.conformance.crash import CrashRules, LeaseRules, LeaveRules  # noqa: E402
from windlass.testing.conformance.events import EventRules  # noqa: E402
from windlass.testing.conformance.exchange import ClaimRules, FenceRules, SettleRules  # noqa: E402
from windlass.testing.conformance.expiry import ExpiryRules  # noqa: E402
from windlass.testing.conformance.find import FindRules, GetRules  # noqa: E402
from windlass.testing.conformance.insert import InsertRules  # noqa: E402
from windlass.testing.conformance.life import LifeRules  # noqa: E402
from windlass.testing.conformance.notes import NoteRules  # noqa: E402
from windlass.testing.conformance.order import OrderRules  # noqa: E402
from windlass.testing.conformance.replies import LostReplyRules  # noqa: E402
from windlass.testing.conformance.retention import RetentionRules  # noqa: E402
from windlass.testing.conformance.solo import SoloRules  # noqa: E402
from windlass.testing.conformance.sweep import SweepRules  # noqa: E402
from windlass.testing.conformance.wake import IdleRules, WakeRules  # noqa: E402
from windlass.testing.conformance.watch import WatchRules  # noqa: E402

__all__ = [
    "Bench",
    "Conformance",
    "Engine",
    "Hand",
    "Listener",
    "MakeBench",
    "MakeStore",
    "ManualClock",
]


class Conformance(
    LifeRules,
    InsertRules,
    OrderRules,
    ClaimRules,
    SettleRules,
    FenceRules,
    LostReplyRules,
    PresenceRules,
    ReconcileRules,
    BeatAnswerRules,
    LeaveRules,
    LeaseRules,
    CrashRules,
    SoloRules,
    CancelRules,
    ExpiryRules,
    AsideRules,
    ParkRules,
    RetentionRules,
    SweepRules,
    WatchRules,
    EventRules,
    NoteRules,
    GetRules,
    FindRules,
    ChangeRules,
    RetryRules,
    EditRules,
    ClockRules,
    JumpRules,
    IdleRules,
    WakeRules,
    CountRules,
    ConcurrencyRules,
):
    """Every rule. A subclass says how to make its engine."""

    @pytest.fixture
    def engine(self) -> Engine:
        """To be overridden: a function that makes unopened stores on the data of one test."""
        raise NotImplementedError("say how to make a store: override the fixture `engine`")

    @pytest.fixture
    async def make_store(self, engine: Engine) -> AsyncIterator[MakeStore]:
        """Opens connections to the data of the test, and closes them behind it."""
        opened: list[Store] = []

        async def make(*, settings: StoreSettings | None = None, clock: Clock) -> Store:
            store = engine(settings or StoreSettings(), clock)
            opened.append(store)
            await store.open()
            return store

        yield make
        for store in reversed(opened):
            await store.close()

    @pytest.fixture
    async def make_bench(self, make_store: MakeStore) -> MakeBench:
        """A bench with settings of its own; once per test."""

        async def make(**settings: Any) -> Bench:
            clock, chosen = ManualClock(), StoreSettings(**settings)
            return Bench(make_store, await make_store(settings=chosen, clock=clock), clock, chosen)

        return make

    @pytest.fixture
    async def bench(self, make_bench: MakeBench) -> Bench:
        """A bench with default settings."""
        return await make_bench()
