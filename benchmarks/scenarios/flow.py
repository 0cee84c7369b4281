"""What flow control costs: the drain of a backlog with priorities, behind a limit, and in lanes of many keys.

Limits are set so high that none is ever reached: what is measured is what it costs to ask. "plain" is the same backlog
without any of it, in the same rounds. A worker with a thousand schedules that are not due for a day does nothing else.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from benchmarks.harness import space
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Worker, ask
from benchmarks.peers.model import Contender
from benchmarks.scenarios import drain
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial

Groups = Callable[[], Iterable[list[Contender]]]

PEERS = {"priority": "one of ten priorities each", "rate": "behind a rate that is never reached"}
OURS = {"limit": "limit", "ordered:10": "ordered, 10 keys"}
SCHEDULES = 1_000


def scenarios(plan: Plan, groups: Groups, peers: tuple[str, ...] = ()) -> list[Scenario]:
    """`groups` are workers of one process; `peers` those beside Windlass that have priorities and rates."""
    made = [
        Scenario(
            f"flow:{flow}",
            f"drain a backlog, {words}",
            plan.rounds,
            drain.RATE,
            partial(_alike, groups, ("windlass", *peers), flow),
            _measure,
        )
        for flow, words in PEERS.items()
    ]
    lanes = partial(_variants, groups, {**OURS, **{f"keys:{keys}": f"@ {keys:,}" for keys in plan.keys}})
    idle = (Metric("idle cpu", "%", higher=False),)
    return [
        *made,
        Scenario("flow:lanes", "drain a backlog, in lanes by key", plan.rounds, drain.RATE, lanes, _measure_many),
        Scenario(
            "flow:schedules", f"a worker with {SCHEDULES:,} schedules, none due", plan.side_rounds, idle,
            partial(_variants, groups, {"schedules": "schedules"}), _measure_idle,
        ),
    ]  # fmt: skip


def _of(groups: Groups, name: str) -> Contender | None:
    return next((group[0] for group in groups() if group[0].name == name), None)


def _alike(groups: Groups, names: tuple[str, ...], flow: str) -> Iterable[list[Contender]]:
    """Everyone with the same flow control, and Windlass without."""
    for name in names:
        if (found := _of(groups, name)) is not None:
            yield [replace(found, flow=flow)]
    if (ours := _of(groups, "windlass")) is not None:
        yield [replace(ours, name="windlass plain")]


def _variants(groups: Groups, flows: dict[str, str]) -> Iterable[list[Contender]]:
    """Windlass as it is, and with each kind of flow control."""
    if (ours := _of(groups, "windlass")) is not None:
        yield [replace(ours, name="windlass plain")]
        for flow, words in flows.items():
            yield [replace(ours, name=f"windlass {words}", flow=flow)]


def _measure(trial: Trial) -> Metrics:
    return drain.measure(trial, trial.count(trial.plan.drain))


def _measure_many(trial: Trial) -> Metrics:
    """As many jobs as the largest number of keys, for all: so the last has one job in each lane."""
    return drain.measure(trial, trial.jobs or max(trial.plan.keys))


def _measure_idle(trial: Trial) -> Metrics:
    with space.fresh(trial.contender) as place:
        if trial.contender.flow:
            ask(trial.environment, trial.contender, place, "schedule", {"count": SCHEDULES})
        ask(trial.environment, trial.contender, place, "fill", {"count": 1})
        with Worker(trial.environment, trial.contender, place) as worker:
            worker.wait_for(1)
            time.sleep(2)  # for what a worker does once, at its start
            before = worker.usage()
            time.sleep(trial.plan.idle_seconds * 4)
            after = worker.usage()
    return {"idle cpu": (after.cpu_seconds - before.cpu_seconds) / (trial.plan.idle_seconds * 4) * 100}
