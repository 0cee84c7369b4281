"""How long a caller waits for the result of a no-op on an idle worker."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from statistics import quantiles

from benchmarks.harness import backlog
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Worker, ask
from benchmarks.peers.model import Contender
from benchmarks.scenarios import lineup
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial


def scenarios(plan: Plan) -> list[Scenario]:
    """One question at two durabilities."""
    return [
        Scenario(
            f"latency:{durability}",
            f"enqueue until the result is in hand, idle worker, durability {durability}",
            plan.rounds,
            (Metric("p50", "ms", higher=False), Metric("p99", "ms", higher=False)),
            partial(_groups, durability),
            measure,
        )
        for durability in ("full", "relaxed")
    ]


def _groups(durability: str) -> Iterable[list[Contender]]:
    for (contender,) in lineup.quiet(durability):
        yield [contender]
        if "async" in contender.peer.clients:
            yield [replace(contender, name=f"{contender.name} (await)", client="async")]


def measure(trial: Trial) -> Metrics:
    """One call at a time on a worker that has run one job."""
    operation = "latency_await" if trial.contender.client == "async" else "latency"
    samples = trial.samples()
    with (
        backlog.ready(trial.environment, trial.contender, 1) as folder,
        Worker(trial.environment, trial.contender, folder) as worker,
    ):
        worker.wait_for(1)
        answer = ask(trial.environment, trial.contender, folder, operation, {"samples": samples})
    return cut(answer["seconds"])


def cut(seconds: list[float]) -> Metrics:
    """The middle and the tail, in milliseconds."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    return {"p50": cuts[49] * 1000, "p99": cuts[98] * 1000}
