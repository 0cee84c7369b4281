"""Jobs that take time: many that wait at once, plain functions in threads, and work for two processors.

The clock runs from the start of the first job to the end of the last, so that the ideal is plain arithmetic.
"""

from collections.abc import Iterable
from functools import partial

from benchmarks.apps.work import IO_SECONDS, NAP_SECONDS
from benchmarks.harness import backlog
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Failure, Worker
from benchmarks.peers.model import Contender
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial
from benchmarks.scenarios.on_redis import lineup

IO_JOBS, IO_WIDTH = 2_000, 500
NAP_WIDTH = 20
TIME, TO_IDEAL, RATE = (
    Metric("time", "s", higher=False),
    Metric("to ideal", "×", higher=False),
    Metric("rate", "jobs/s"),
)


def scenarios(plan: Plan) -> list[Scenario]:
    """Three questions."""
    io = f"{IO_JOBS:,} jobs that sleep {IO_SECONDS:g} s, {IO_WIDTH} at once"
    nap = f"plain functions that sleep {NAP_SECONDS * 1000:g} ms, {NAP_WIDTH} at once"
    return [
        Scenario("io", io, plan.side_rounds, (TIME, TO_IDEAL), _by("io"), _measure_io),
        Scenario("threads", nap, plan.side_rounds, (RATE, TO_IDEAL), _by("nap"), _measure_nap),
        Scenario(
            "cpu", "jobs of some 4 ms of Python, two processes", plan.side_rounds, (RATE,), _by("cpu"), _measure_cpu
        ),
    ]


def _by(role: str) -> partial[Iterable[list[Contender]]]:
    return partial(lineup.workers, role, True, role)


def _seconds(trial: Trial, count: int) -> float:
    with (
        backlog.ready(trial.environment, trial.contender, count) as place,
        Worker(trial.environment, trial.contender, place) as worker,
    ):
        totals = worker.wait_for(count)
    if totals.count != count:
        raise Failure(f"{totals.count} of {count} jobs ran")
    return (totals.last_ns - totals.first_ns) / 1e9


def _measure_io(trial: Trial) -> Metrics:
    seconds = _seconds(trial, IO_JOBS)
    return {"time": seconds, "to ideal": seconds / (IO_JOBS / IO_WIDTH * IO_SECONDS)}


def _measure_nap(trial: Trial) -> Metrics:
    count = trial.count(trial.plan.naps)
    seconds = _seconds(trial, count)
    return {"rate": count / seconds, "to ideal": seconds / (count / NAP_WIDTH * NAP_SECONDS)}


def _measure_cpu(trial: Trial) -> Metrics:
    count = trial.plan.cpu
    return {"rate": count / _seconds(trial, count)}
