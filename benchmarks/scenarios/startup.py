"""How long a worker takes from the start of its process to the end of its first job."""

from functools import partial
from statistics import median

from benchmarks.harness import backlog
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Worker
from benchmarks.scenarios import lineup
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial


def scenarios(plan: Plan) -> list[Scenario]:
    """One question."""
    return [
        Scenario(
            "startup",
            "worker process started until its first job ran",
            plan.rounds,
            (Metric("time", "ms", higher=False),),
            partial(lineup.quiet, "full"),
            measure,
        )
    ]


def measure(trial: Trial) -> Metrics:
    """The median of some starts."""
    return {"time": median(_once(trial) for _ in range(trial.plan.startup))}


def _once(trial: Trial) -> float:
    with (
        backlog.ready(trial.environment, trial.contender, 1) as folder,
        Worker(trial.environment, trial.contender, folder) as worker,
    ):
        totals = worker.wait_for(1)
        return (totals.first_ns - worker.started_ns) / 1e6
