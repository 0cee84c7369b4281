"""Whether the cost of a job depends on how many wait: draining and enqueueing beside growing backlogs."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from benchmarks.harness import backlog
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Failure, Worker, ask
from benchmarks.peers.model import Contender
from benchmarks.scenarios import drain
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial
from benchmarks.scenarios.on_redis import lineup
from benchmarks.scenarios.on_redis.enqueue import WIDTH

RATE = (Metric("rate", "jobs/s"),)
ROLES = ("windlass", "bullmq")


def scenarios(plan: Plan) -> list[Scenario]:
    """Three questions of Windlass, one of them of its fastest peer too."""
    ours, both = partial(_groups, plan, ROLES[:1]), partial(_groups, plan, ROLES)
    rounds = plan.growth_rounds
    return [
        Scenario("growth:drain", "drain rate by the number of jobs waiting", rounds, RATE, both, _measure_drain),
        Scenario("growth:enqueue", "concurrent enqueue by the number waiting", rounds, RATE, ours, _measure_enqueue),
        Scenario("growth:scheduled", "drain rate by the number scheduled", rounds, RATE, ours, _measure_scheduled),
    ]


def _groups(plan: Plan, names: Iterable[str]) -> Iterable[list[Contender]]:
    for (contender,) in lineup.presets("one"):
        if contender.name in names:
            sizes = plan.growth if contender.name == "windlass" else plan.peer_growth
            for size in sizes:
                yield [replace(contender, name=f"{contender.name} @ {size:,}", size=size)]


def _measure_drain(trial: Trial) -> Metrics:
    return drain.measure(trial, trial.contender.size)


def _measure_enqueue(trial: Trial) -> Metrics:
    with backlog.ready(trial.environment, trial.contender, trial.contender.size) as place:
        arguments = {"count": trial.plan.concurrent, "width": WIDTH}
        return {"rate": ask(trial.environment, trial.contender, place, "gather", arguments)["rate"]}


def _measure_scheduled(trial: Trial) -> Metrics:
    count = trial.plan.drain
    with (
        backlog.ready(trial.environment, trial.contender, count, scheduled=trial.contender.size) as place,
        Worker(trial.environment, trial.contender, place) as worker,
    ):
        totals = worker.wait_for(count)
    if totals.count != count:
        raise Failure(f"{totals.count} of {count} jobs ran, scheduled ones among them")
    return {"rate": (count - 1) / (totals.last_ns - totals.first_ns) * 1e9}
