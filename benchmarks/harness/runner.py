"""Runs scenarios in alternating rounds and records every sample. Judges nothing."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.envs import Environment
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Failure
from benchmarks.peers.model import Contender
from benchmarks.scenarios.base import Scenario, Trial

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sample:
    """One measurement of one contender in one round."""

    scenario: str
    contender: str
    setting: str
    bare: bool
    round: int
    metrics: dict[str, float]
    runtime: str = "python"


@dataclass
class Record:
    """Everything a run found out."""

    samples: list[Sample] = field(default_factory=list)
    scouted: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)


class Runner:
    """Holds what every scenario of a run shares."""

    def __init__(self, plan: Plan, environments: dict[str, Environment], say: Say) -> None:
        self.plan = plan
        self.environments = environments
        self.record = Record()
        self._say = say

    def run(self, scenario: Scenario) -> None:
        """All rounds of one scenario; the order of contenders rotates with every round."""
        self._say(f"{scenario.name}: {scenario.title}")
        started = time.monotonic()
        contenders = self._line_up(scenario)
        out: set[str] = set()
        for number in range(scenario.rounds):
            start = number % max(len(contenders), 1)
            for contender in contenders[start:] + contenders[:start]:
                rounds = scenario.rounds if contender.peer.major else self.plan.minor_rounds
                if number < rounds and contender.name not in out and not self._measure(scenario, contender, number):
                    out.add(contender.name)
        self._say(f"  {time.monotonic() - started:.0f} s")

    def _line_up(self, scenario: Scenario) -> list[Contender]:
        """One contender per group: the preset of the group, or with scouting the fastest of all."""
        chosen = []
        for group in scenario.groups():
            group = [contender for contender in group if contender.peer.name in self.environments]
            preset = [contender for contender in group if contender.pool.preset and contender.store.preset]
            if scenario.name in self.plan.majors_only:
                group = [contender for contender in group if contender.peer.major]
            if self.plan.scout and len(group) > 1:
                chosen += self._scout(scenario, group)
            else:
                chosen += (preset or group)[:1]
        return chosen

    def _scout(self, scenario: Scenario, group: Iterable[Contender]) -> list[Contender]:
        best: tuple[float, Contender] | None = None
        for contender in group:
            try:
                metrics = scenario.measure(self._trial(contender, self.plan.scout_jobs))
            except Failure as failure:
                self._fail(scenario, contender, failure)
                continue
            judged = scenario.metrics[0]
            value = metrics[judged.name]
            found = {"scenario": scenario.name, "contender": contender.name, "setting": contender.setting}
            self.record.scouted.append({**found, "rate": value})
            self._say(f"  scout {contender.name:24} {contender.setting:32} {value:12,.2f} {judged.unit}")
            if best is None or (value > best[0]) == judged.higher:
                best = (value, contender)
        return [best[1]] if best else []

    def _measure(self, scenario: Scenario, contender: Contender, number: int) -> bool:
        try:
            metrics = scenario.measure(self._trial(contender, None))
        except Failure as failure:
            self._fail(scenario, contender, failure)
            return False
        peer = contender.peer
        about = (scenario.name, contender.name, contender.setting, peer.bare)
        self.record.samples.append(Sample(*about, number, metrics, peer.runtime))
        figures = "  ".join(f"{name} {value:,.2f}" for name, value in metrics.items())
        self._say(f"  {number + 1}  {contender.name:24} {contender.setting:32} {figures}")
        return True

    def _trial(self, contender: Contender, jobs: int | None) -> Trial:
        return Trial(contender, self.environments[contender.peer.name], self.plan, jobs)

    def _fail(self, scenario: Scenario, contender: Contender, failure: Failure) -> None:
        found = {"scenario": scenario.name, "contender": contender.name, "setting": contender.setting}
        self.record.failures.append({**found, "reason": str(failure)})
        self._say(f"  -  {contender.name:24} {contender.setting:32} failed: {failure}")
