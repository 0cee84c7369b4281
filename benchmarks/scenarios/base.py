"""The shape of a scenario and of one trial of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.harness.envs import Environment
from benchmarks.harness.plan import Plan, share
from benchmarks.peers.model import Contender

Metrics = dict[str, float]


@dataclass(frozen=True)
class Metric:
    """A figure a scenario yields, its unit and which way is better."""

    name: str
    unit: str
    higher: bool = True


@dataclass(frozen=True)
class Trial:
    """One contender about to be measured; `jobs` overrides the plan while scouting."""

    contender: Contender
    environment: Environment
    plan: Plan
    jobs: int | None = None

    def count(self, planned: int) -> int:
        """How many jobs this contender gets."""
        slow = self.contender.peer.slow if self.plan.shares else 1
        return share(min(planned, self.jobs or planned), slow)

    def samples(self) -> int:
        """How many calls are timed one by one."""
        slow = self.contender.peer.slow if self.plan.shares else 1
        return share(self.plan.latency, min(slow, 3))


@dataclass(frozen=True)
class Scenario:
    """A question: `groups` are the contenders, each group standing for its best member."""

    name: str
    title: str
    rounds: int
    metrics: tuple[Metric, ...]
    groups: Callable[[], Iterable[list[Contender]]]
    measure: Callable[[Trial], Metrics]

    @property
    def family(self) -> str:
        """The part of the name before the first colon."""
        return self.name.partition(":")[0]
