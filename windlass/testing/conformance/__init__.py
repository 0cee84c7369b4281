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

from windlass.store.base import Clock, Store, StoreSettings
from windlass.testing.conformance._rewrite import EXPLAINED
from windlass.testing.conformance.ageing import AgeingRules
from windlass.testing.conformance.aside import AsideRules, ParkRules
from windlass.testing.conformance.backpressure import DrainingRules, DropRules, FullRules
from windlass.testing.conformance.beat import BeatAnswerRules, PresenceRules, ReconcileRules
from windlass.testing.conformance.bench import (
    Bench,
    Engine,
    Hand,
    Listener,
    MakeBench,
    MakeStore,
    ManualClock,
)
from windlass.testing.conformance.cancel import CancelRules
from windlass.testing.conformance.change import ChangeRules, EditRules, NewTermRules, RescheduleRules, RetryRules
from windlass.testing.conformance.change_lane import LaneChangeRules
from windlass.testing.conformance.clock import ClockRules, JumpRules
from windlass.testing.conformance.commits import CommitRules
from windlass.testing.conformance.concurrency import ConcurrencyRules
from windlass.testing.conformance.counts import CountRules
from windlass.testing.conformance.crash import CrashRules, LeaseRules, LeaveRules
from windlass.testing.conformance.events import EventKindRules, EventRules
from windlass.testing.conformance.exchange import ClaimRules, ClaimTimeRules, FenceRules, SettleRules
from windlass.testing.conformance.expiry import ExpiryRules
from windlass.testing.conformance.faults import FaultRules, GraphFaultRules
from windlass.testing.conformance.find import FindRules, GetRules
from windlass.testing.conformance.gate_limits import LimitRules, ReleaseRules, UnitRules
from windlass.testing.conformance.gate_rates import RateRules, SeveralGateRules, WantRules
from windlass.testing.conformance.gates import ClosureRules, PauseRules, TuneRules
from windlass.testing.conformance.graph_adopt import AdoptRules, ReplaceRules
from windlass.testing.conformance.graph_adopt_faults import AdoptFaultRules
from windlass.testing.conformance.graph_audit import AuditRules, Lose
from windlass.testing.conformance.graph_blame import BlameRules
from windlass.testing.conformance.graph_insert import OpenRules, StageRules
from windlass.testing.conformance.graph_keep import BoundRules, GraphRetentionRules
from windlass.testing.conformance.graph_read import (
    ClaimValueRules,
    GraphWatchRules,
    InputRules,
    JoinValueRules,
    ListingRules,
)
from windlass.testing.conformance.graph_retry import ReopenRules
from windlass.testing.conformance.graph_spread import JoinRules, SpreadRules
from windlass.testing.conformance.graph_stop import FailFastRules, MemberCancelRules, StopRules
from windlass.testing.conformance.holds import HoldRules, LaneCountRules
from windlass.testing.conformance.insert import InsertRules
from windlass.testing.conformance.items import ItemRules
from windlass.testing.conformance.lane_heads import GraphLaneRules, HeadRules, OpeningRules
from windlass.testing.conformance.lane_moves import LaneAsideRules, LaneHandRules
from windlass.testing.conformance.lanes import KeyRules, TurnRules
from windlass.testing.conformance.life import LifeRules
from windlass.testing.conformance.logs import LogKeepRules, LogReaderRules, LogRules
from windlass.testing.conformance.notes import NoteRules
from windlass.testing.conformance.order import OrderRules
from windlass.testing.conformance.replies import LostReplyRules
from windlass.testing.conformance.resequence import ResequenceRules
from windlass.testing.conformance.retention import RetentionRules
from windlass.testing.conformance.schedules import FireRules, ScheduleRules, StampRules
from windlass.testing.conformance.shelves import ShelfEndRules, ShelfRules
from windlass.testing.conformance.solo import SoloRules
from windlass.testing.conformance.strict import OrderedRules
from windlass.testing.conformance.sweep import SweepRules
from windlass.testing.conformance.totals import TotalRules
from windlass.testing.conformance.unique import UniqueRules, UniqueWindowRules
from windlass.testing.conformance.unique_replace import DebounceRules, UniqueReplaceRules
from windlass.testing.conformance.unique_successor import SuccessorRules, UniqueRetryRules
from windlass.testing.conformance.wake import IdleRules, SignalRules, WakeRules
from windlass.testing.conformance.watch import WatchRules
from windlass.testing.conformance.workflow_retry import DeleteRules, WorkflowRetryRules

__all__ = [
    "EXPLAINED",
    "Bench",
    "Conformance",
    "Engine",
    "Hand",
    "Listener",
    "Lose",
    "MakeBench",
    "MakeStore",
    "ManualClock",
]


class Conformance(
    LifeRules,
    InsertRules,
    OrderRules,
    ClaimRules,
    ClaimTimeRules,
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
    EventKindRules,
    NoteRules,
    GetRules,
    FindRules,
    ChangeRules,
    RetryRules,
    EditRules,
    NewTermRules,
    ClockRules,
    JumpRules,
    IdleRules,
    WakeRules,
    SignalRules,
    CountRules,
    ConcurrencyRules,
    StageRules,
    OpenRules,
    SpreadRules,
    JoinRules,
    BlameRules,
    ClaimValueRules,
    InputRules,
    JoinValueRules,
    GraphWatchRules,
    ListingRules,
    StopRules,
    MemberCancelRules,
    FailFastRules,
    ReopenRules,
    WorkflowRetryRules,
    DeleteRules,
    AdoptRules,
    ReplaceRules,
    AdoptFaultRules,
    GraphRetentionRules,
    BoundRules,
    AuditRules,
    TuneRules,
    PauseRules,
    ClosureRules,
    LimitRules,
    UnitRules,
    ReleaseRules,
    RateRules,
    SeveralGateRules,
    WantRules,
    TurnRules,
    KeyRules,
    HeadRules,
    LaneHandRules,
    LaneAsideRules,
    OpeningRules,
    GraphLaneRules,
    OrderedRules,
    ResequenceRules,
    AgeingRules,
    HoldRules,
    LaneCountRules,
    UniqueRules,
    UniqueWindowRules,
    UniqueReplaceRules,
    DebounceRules,
    SuccessorRules,
    UniqueRetryRules,
    FullRules,
    DropRules,
    DrainingRules,
    ItemRules,
    LogRules,
    LogReaderRules,
    LogKeepRules,
    CommitRules,
    ScheduleRules,
    StampRules,
    FireRules,
    RescheduleRules,
    LaneChangeRules,
    ShelfRules,
    ShelfEndRules,
    TotalRules,
    FaultRules,
    GraphFaultRules,
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
