"""How fast a backlog is worked off. The store is filled first, then the worker starts; the clock runs from the first
executed job to the last, both stamped by the jobs themselves, so neither start-up nor the watcher's polling counts.

A worker that takes batches gains or loses at most one batch at either end, which the numbers of jobs make small.
"""

from collections.abc import Iterable
from functools import partial

from benchmarks.harness import backlog
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Failure, Worker, ask
from benchmarks.peers.model import Contender
from benchmarks.scenarios import lineup
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial

RATE = (Metric("rate", "jobs/s"),)


def scenarios(plan: Plan) -> list[Scenario]:
    """With and without results, synced to the disk or not."""
    return [
        Scenario(
            f"drain:{durability}:{'results' if results else 'no-results'}",
            f"drain a backlog, results {'kept' if results else 'not kept'}, durability {durability}",
            plan.rounds,
            RATE,
            partial(_groups, durability, results),
            lambda trial: measure(trial, trial.count(trial.plan.drain)),
        )
        for durability, results in plan.drains
    ]


def _groups(durability: str, results: bool) -> Iterable[list[Contender]]:
    yield from lineup.one_process(durability, results)
    yield from lineup.more_processes(durability, results)


def measure(trial: Trial, count: int) -> Metrics:
    """Drains `count` jobs once."""
    with backlog.ready(trial.environment, trial.contender, count) as folder:
        with Worker(trial.environment, trial.contender, folder) as worker:
            totals = worker.wait_for(count)
        left = ask(trial.environment, trial.contender, folder, "pending", {})["pending"]
    if left or totals.count != count:
        raise Failure(f"{totals.count} of {count} jobs ran and {left} are left")
    return {"rate": (count - 1) / (totals.last_ns - totals.first_ns) * 1e9}
