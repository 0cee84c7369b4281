"""How long a caller waits for the result of a no-op: on an idle worker, and on one at half of what it can do.

Half load is half of the rate at which the same worker has just drained a backlog. A second client keeps it up at an
even pace, by the fastest way the system has; the pace it really kept is reported beside the latency.
"""

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from benchmarks.harness import backlog
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Worker, ask
from benchmarks.harness.space import Space
from benchmarks.peers.model import Contender
from benchmarks.scenarios import latency
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial
from benchmarks.scenarios.on_redis import lineup

TIMES = (Metric("p50", "ms", higher=False), Metric("p99", "ms", higher=False))
TAIL = Metric("p99/p50", "×", higher=False)
SETTLE = 0.5  # seconds until the load has its pace


def scenarios(plan: Plan) -> list[Scenario]:
    """Two questions."""
    result = "enqueue until the result is in hand"
    loaded = (*TIMES, Metric("load", "jobs/s"))
    return [
        Scenario("latency:idle", f"{result}, idle worker", plan.rounds, (*TIMES, TAIL), _groups, _measure_idle),
        Scenario(
            "latency:half-load", f"{result}, worker at half load", plan.side_rounds, loaded, _groups, _measure_loaded
        ),
    ]


def _groups() -> Iterable[list[Contender]]:
    for (contender,) in lineup.presets("quiet"):
        yield [contender]
        if len(contender.peer.clients) > 1:
            yield [replace(contender, name=f"{contender.name} (sync)", client="sync")]


def _measure_idle(trial: Trial) -> Metrics:
    found = latency.measure(trial)
    return {**found, TAIL.name: found["p99"] / found["p50"]}


def _measure_loaded(trial: Trial) -> Metrics:
    count = trial.count(trial.plan.calibrate)
    with (
        backlog.ready(trial.environment, trial.contender, count) as place,
        Worker(trial.environment, trial.contender, place) as worker,
        ThreadPoolExecutor(1) as beside,
    ):
        totals = worker.wait_for(count)
        rate = (count - 1) / (totals.last_ns - totals.first_ns) * 1e9 / 2
        loading = beside.submit(ask, trial.environment, trial.contender, place, "load", {"rate": rate})
        try:
            time.sleep(SETTLE)
            seconds = _calls(trial, place)
        finally:
            (place.data / "stop").touch()
        load = loading.result()
        worker.wait_for(count + load["sent"] + len(seconds) + 1)
    return {**latency.cut(seconds), "load": load["rate"]}


def _calls(trial: Trial, place: Space) -> list[float]:
    operation = "latency_await" if trial.contender.client == "async" else "latency"
    answer = ask(trial.environment, trial.contender, place, operation, {"samples": trial.samples()})
    seconds: list[float] = answer["seconds"]
    return seconds
