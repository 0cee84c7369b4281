"""What a worker holds and uses: memory when idle and after work, processor time when idle."""

import time
from functools import partial

from benchmarks.harness import backlog
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Worker, ask
from benchmarks.scenarios import lineup
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial


def scenarios(plan: Plan) -> list[Scenario]:
    """One question; memory is the resident set of all the worker's processes."""
    return [
        Scenario(
            "memory",
            "what one worker holds and uses",
            plan.minor_rounds,
            (
                Metric("idle", "MB", higher=False),
                Metric("worked", "MB", higher=False),
                Metric("idle cpu", "%", higher=False),
            ),
            partial(lineup.quiet, "full"),
            _measure,
        )
    ]


def _measure(trial: Trial) -> Metrics:
    count = trial.count(trial.plan.drain)
    with (
        backlog.ready(trial.environment, trial.contender, 1) as folder,
        Worker(trial.environment, trial.contender, folder) as worker,
    ):
        worker.wait_for(1)
        time.sleep(1)
        before = worker.usage()
        time.sleep(trial.plan.idle_seconds)
        idle = worker.usage()
        ask(trial.environment, trial.contender, folder, "fill", {"count": count})
        worker.wait_for(count + 1)
        time.sleep(0.5)
        worked = worker.usage()
    cpu = (idle.cpu_seconds - before.cpu_seconds) / trial.plan.idle_seconds * 100
    return {"idle": idle.rss_mb, "worked": worked.rss_mb, "idle cpu": cpu}
