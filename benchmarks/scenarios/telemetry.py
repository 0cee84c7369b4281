"""What being seen costs: the drain of a backlog with charts, with metrics served, and traced at one in ten.

"off" counts nothing. Charts are what a worker does unless it is told otherwise. All are measured in the same rounds.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from benchmarks.harness.plan import Plan
from benchmarks.peers.model import Contender
from benchmarks.scenarios import drain
from benchmarks.scenarios.base import Metrics, Scenario, Trial

Groups = Callable[[], Iterable[list[Contender]]]


def scenarios(plan: Plan, groups: Groups) -> list[Scenario]:
    """One question, of Windlass alone."""
    title = "drain a backlog, with telemetry"
    return [Scenario("telemetry", title, plan.rounds, drain.RATE, partial(_variants, groups), _measure)]


def _variants(groups: Groups) -> Iterable[list[Contender]]:
    ours = next((group[0] for group in groups() if group[0].name == "windlass"), None)
    if ours is None:
        return
    served = replace(ours.pool, arguments=(*ours.pool.arguments, "--metrics", "0"))
    yield [replace(ours, name="windlass off", flow="off")]
    yield [replace(ours, name="windlass charts")]
    yield [replace(ours, name="windlass metrics", pool=served)]
    yield [replace(ours, name="windlass traced", flow="traced")]


def _measure(trial: Trial) -> Metrics:
    """Enough jobs that the first second, in which a worker is still warming up, is the smaller part."""
    return drain.measure(trial, trial.jobs or max(trial.plan.keys))
