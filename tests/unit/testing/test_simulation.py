"""Thousands of stories of crashes, zombies, lost messages and jumping clocks, and proof that the checks would notice.

``WINDLASS_SIM_SEEDS`` says how many seeds to play. A failure names its seed; play it again with
``python -m windlass.testing.simulation --seed N``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from tests.thorough import played
from windlass.core import lifecycle
from windlass.core.job import Fence, State
from windlass.core.links import Edge
from windlass.store.jobs import ExchangeReply
from windlass.store.memory import MemoryStore, claims, endings, spreading, sweeps, todos, waking
from windlass.store.memory import clock as memory_clock
from windlass.store.memory.hub import Hub
from windlass.store.memory.records import WorkerRow
from windlass.testing.simulation import World, find_violation, simulate
from windlass.testing.simulation.world import PROFILES

SEEDS = int(os.environ.get("WINDLASS_SIM_SEEDS", played(300, 1000)))
SHARDS = 10
ENOUGH = 400
"""Within so many seeds a removed safety line must show."""

Break = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_story_ends_well(shard: int) -> None:
    found = find_violation(range(shard, SEEDS, SHARDS))
    assert found is None, f"seed {found[0]}:\n  " + "\n  ".join(found[1])


def test_a_seed_is_always_the_same_story() -> None:
    def play(seed: int) -> object:
        world = World(seed)
        world.play()
        return world.t, [(entry.at, entry.groups) for entry in world.hub.entries]

    assert play(7) == play(7)
    assert play(7) != play(8)


def test_the_stories_are_eventful() -> None:
    """Or the checks would have nothing to check."""
    seen: set[str] = set()
    kinds: set[str] = set()
    late = 0
    for seed in range(150):
        world = World(seed)
        world.play()
        seen.add(world.profile.name)
        late += world.history.late
        kinds |= {group[0] for entry in world.hub.entries for group in entry.groups}
        kinds |= {
            "quarantined" for job in world.hub.jobs.values() if job.reason in (lifecycle.CRASHED, lifecycle.LEASE_LOST)
        }
    assert seen == {profile.name for profile in PROFILES}
    assert kinds >= {"lost", "released", "retried", "snoozed", "cancelled", "failed", "replayed", "duplicate"}
    assert kinds >= {"quarantined", "skipped", "workflow_succeeded", "workflow_failed", "workflow_cancelled"}
    assert late, "no late settle was ever refused"


# -- safety lines taken out, one at a time


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """Whoever names a running job may settle it, also one who was given up.

    Refusing those who were given up is a line of its own in front of the fence; with it in place no zombie gets as far
    as the fence, so it is taken out as well.
    """
    beat = MemoryStore.beat

    async def forgiving(self, presence, acked_seq, held):
        return await beat(self, presence, acked_seq if presence.id in self.hub.workers else 0, held)

    patch.setattr(MemoryStore, "beat", forgiving)

    def settle(hub: Hub, worker: WorkerRow, moves, now):
        for move in moves:
            job = hub.jobs.get(move.id)
            if job is not None and job.state is State.RUNNING and job.worker in hub.workers:
                worker.running[job.id] = job
                hub.workers[job.worker].running[job.id] = job
        return real(hub, worker, moves, now)

    def holder(worker: WorkerRow | None, id: str, fence: Fence):
        return worker.running.get(id) if worker else None

    real = claims.settle
    patch.setattr(claims, "settle", settle)
    patch.setattr(claims, "holder", holder)


def no_regrant(patch: pytest.MonkeyPatch) -> None:
    """A resent exchange is answered with nothing."""
    real = MemoryStore.exchange

    async def exchange(self, worker, seq, moves, want):
        row = self.hub.workers.get(worker)
        if row is not None and not row.dead and row.last_seq == seq:
            return ExchangeReply()
        return await real(self, worker, seq, moves, want)

    patch.setattr(MemoryStore, "exchange", exchange)


def no_seq_check(patch: pytest.MonkeyPatch) -> None:
    """A resent exchange is applied again, as if it were new."""
    real = MemoryStore.exchange

    async def exchange(self, worker, seq, moves, want):
        row = self.hub.workers.get(worker)
        if row is not None and row.last_seq >= seq:
            row.last_seq = seq - 1
        return await real(self, worker, seq, moves, want)

    patch.setattr(MemoryStore, "exchange", exchange)


def no_reconciliation(patch: pytest.MonkeyPatch) -> None:
    """What a worker does not hold stays its own."""
    real = MemoryStore.beat

    async def beat(self, presence, acked_seq, held):
        return await real(self, presence, -1, held)

    patch.setattr(MemoryStore, "beat", beat)


def no_acked_seq(patch: pytest.MonkeyPatch) -> None:
    """Claims whose reply is still on its way are taken back."""
    real = MemoryStore.beat

    async def beat(self, presence, acked_seq, held):
        return await real(self, presence, 1 << 60, held)

    patch.setattr(MemoryStore, "beat", beat)


def no_lease_extension(patch: pytest.MonkeyPatch) -> None:
    """A jump of the clock counts as silence."""
    patch.setattr(memory_clock.StoreClock, "_extend", lambda self, gap, workers: None)


def no_hidden_step_back(patch: pytest.MonkeyPatch) -> None:
    """The store's clock is the host's."""
    patch.setattr(memory_clock.StoreClock, "now", lambda self, workers: self.host())


def no_solo(patch: pytest.MonkeyPatch) -> None:
    """A job that killed twice runs among others."""
    patch.setattr(lifecycle, "runs_alone", lambda crashes, max_crashes: False)


def no_crash_limit(patch: pytest.MonkeyPatch) -> None:
    """Poison is tried for ever."""
    patch.setattr(lifecycle, "after_crash", lambda crashes, max_crashes, cancel: State.READY)


def no_recovery(patch: pytest.MonkeyPatch) -> None:
    """The dead keep what they had."""
    patch.setattr(sweeps, "reap", lambda hub, now, limit, reply: 0)


def no_wake_up(patch: pytest.MonkeyPatch) -> None:
    """Nobody is told of new work."""
    patch.setattr(Hub, "wake", lambda self, queue, count, who=None: None)


def no_promotion(patch: pytest.MonkeyPatch) -> None:
    """What is due stays scheduled."""
    patch.setattr(waking, "promote", lambda hub, now, limit: Counter())


def no_bookkeeping(patch: pytest.MonkeyPatch) -> None:
    """A job that expires is counted in both states."""
    real = endings.expire

    def expire(hub, row, now):
        hub.counts[row.queue][row.state] += 1
        real(hub, row, now)

    patch.setattr(endings, "expire", expire)


def no_spreading(patch: pytest.MonkeyPatch) -> None:
    """The end of a node means nothing to others."""
    patch.setattr(spreading, "meet", lambda step, source, out, edge: None)


def no_edge_states(patch: pytest.MonkeyPatch) -> None:
    """An edge is decided each time its source ends."""
    real = spreading.spread

    def spread(step, row):
        row.links.edges = [Edge.OPEN] * len(row.links.edges)
        real(step, row)

    patch.setattr(todos, "spread", spread)


def no_reopening(patch: pytest.MonkeyPatch) -> None:
    """What was given up stays so when its culprit is retried."""
    patch.setattr(spreading, "unmeet", lambda step, source, out, edge: None)


BREAKS: list[Break] = [
    no_fence, no_regrant, no_seq_check, no_reconciliation, no_acked_seq, no_lease_extension, no_hidden_step_back,
    no_solo, no_crash_limit, no_recovery, no_wake_up, no_promotion, no_bookkeeping,
    no_spreading, no_edge_states, no_reopening,
]  # fmt: skip


@pytest.mark.parametrize("take_out", BREAKS, ids=lambda take_out: take_out.__name__)
def test_a_safety_line_taken_out_is_noticed(take_out: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    take_out(monkeypatch)
    found = find_violation(range(ENOUGH))
    assert found is not None, f"{take_out.__name__}: {take_out.__doc__} Nothing was noticed in {ENOUGH} seeds"
    monkeypatch.undo()
    assert simulate(found[0]) == [], "the same story with the line in place ends well"
