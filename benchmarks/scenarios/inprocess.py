"""What a job costs without a disk and without a second process, beside bare asyncio on the same loop."""

from collections.abc import Iterable
from dataclasses import replace

from benchmarks import peers
from benchmarks.harness import space
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import answer_of, variables
from benchmarks.peers.model import Contender
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial

CONCURRENCY = 256
NAMES = {"windlass": "windlass", "bare_batch": "asyncio, batches", "bare_await": "asyncio, one by one"}


def scenarios(plan: Plan) -> list[Scenario]:
    """One question."""
    return [
        Scenario(
            "inprocess",
            f"no-op coroutines on memory://, one embedded worker, concurrency {CONCURRENCY}",
            plan.rounds,
            (Metric("rate", "jobs/s"),),
            _groups,
            _measure,
        )
    ]


def _groups() -> Iterable[list[Contender]]:
    windlass = peers.WINDLASS
    base = Contender("windlass", windlass, windlass.stores[0], windlass.pools[0])
    for operation, name in NAMES.items():
        yield [replace(base, name=name, client=operation)]


def _measure(trial: Trial) -> Metrics:
    operation = next(key for key, name in NAMES.items() if name == trial.contender.name)
    module = ["-m", "benchmarks.apps.inprocess", operation, str(trial.plan.inprocess), str(CONCURRENCY)]
    with space.fresh(trial.contender) as folder:
        env = variables(trial.environment, trial.contender, folder)
        return answer_of([str(trial.environment.program), *module], env, timeout=180)
