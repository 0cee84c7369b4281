"""Whether the cost of a job depends on how many wait: the drain rate over growing backlogs."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from benchmarks.harness.plan import Plan
from benchmarks.peers.model import Contender
from benchmarks.scenarios import drain, lineup
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial

RATE = (Metric("rate", "jobs/s"),)


def scenarios(plan: Plan) -> list[Scenario]:
    """One question, in the fast setting of the peers that take part in every round."""
    return [
        Scenario(
            "growth",
            "drain rate by backlog, results not kept, durability relaxed",
            plan.growth_rounds,
            RATE,
            partial(_groups, plan),
            _measure,
        )
    ]


def _groups(plan: Plan) -> Iterable[list[Contender]]:
    for (contender,) in lineup.presets("relaxed", False):
        if contender.peer.major:
            sizes = plan.growth if contender.peer.name == "windlass" else plan.peer_growth
            for size in sizes:
                yield [replace(contender, name=f"{contender.name} @ {size:,}", size=size)]


def _measure(trial: Trial) -> Metrics:
    return drain.measure(trial, trial.contender.size)
