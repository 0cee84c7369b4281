"""The engines that can be measured: who stands beside Windlass, what is asked, how much of it, and where it is told."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peers, scenarios
from benchmarks.harness import paths, plan
from benchmarks.harness.plan import Plan
from benchmarks.peers.model import Peer
from benchmarks.report import methods, targets
from benchmarks.report.targets import Target
from benchmarks.scenarios import on_redis
from benchmarks.scenarios.base import Scenario


@dataclass(frozen=True)
class Engine:
    """One store of Windlass with everything a run of it needs."""

    name: str
    title: str
    peers: tuple[Peer, ...]
    full: Plan
    quick: Plan
    build: Callable[[Plan], list[Scenario]]
    targets: tuple[Target, ...]
    method: str
    docs: Path
    server: bool = False

    def plan(self, quick: bool) -> Plan:
        """The sizes of a run."""
        return self.quick if quick else self.full

    def measured(self, run: dict[str, object], names: Callable[[str], object]) -> list[Scenario]:
        """The scenarios a recorded run has samples of."""
        plans = (self.plan(bool(run["quick"])), self.full)
        every = {one.name: one for sizes in reversed(plans) for one in self.build(sizes)}
        return [one for one in every.values() if names(one.name)]


SQLITE = Engine(
    name="sqlite",
    title="Benchmarks on SQLite",
    peers=peers.SQLITE,
    full=plan.FULL,
    quick=plan.QUICK,
    build=scenarios.build,
    targets=targets.SQLITE,
    method=methods.SQLITE,
    docs=paths.DOCS,
)
REDIS = Engine(
    name="redis",
    title="Benchmarks on Redis",
    peers=peers.REDIS,
    full=plan.REDIS_FULL,
    quick=plan.REDIS_QUICK,
    build=on_redis.build,
    targets=targets.REDIS,
    method=methods.REDIS,
    docs=paths.DOCS / "redis",
    server=True,
)
ALL = {engine.name: engine for engine in (SQLITE, REDIS)}


def of(run: dict[str, object]) -> Engine:
    """The engine of a recorded run; the first records name none."""
    return ALL[str(run.get("engine", SQLITE.name))]
