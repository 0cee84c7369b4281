"""How long a whole workflow takes, from the call until its value is in hand: a chain, a group, a chord, a tree.

The same shapes for everyone who has them: Celery's canvas and BullMQ's flows. Every value is checked. A tree's children
run before their parent, level by level; a chain in BullMQ is a flow whose every parent has one child.
"""

from collections.abc import Iterable
from functools import partial

from benchmarks.harness import backlog
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Worker, ask
from benchmarks.peers.model import Contender
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial
from benchmarks.scenarios.on_redis import lineup

WITH_WORKFLOWS = ("windlass", "bullmq", "celery")
SHAPES = {"chain": 100, "group": 1_000, "chord": 1_000, "tree": 1_000}


def scenarios(plan: Plan) -> list[Scenario]:
    """One question per shape."""
    return [
        Scenario(
            f"workflow:{shape}",
            f"a {shape} of {size:,}, from the call until its value is in hand",
            plan.rounds,
            (Metric("time", "ms", higher=False),),
            _groups,
            partial(_measure, shape),
        )
        for shape, size in SHAPES.items()
    ]


def _groups() -> Iterable[list[Contender]]:
    for group in lineup.workers("one"):
        if group[0].name in WITH_WORKFLOWS:
            yield group


def _measure(shape: str, trial: Trial) -> Metrics:
    arguments = {"size": SHAPES[shape], "samples": trial.plan.workflows}
    with (
        backlog.ready(trial.environment, trial.contender, 1) as folder,
        Worker(trial.environment, trial.contender, folder) as worker,
    ):
        worker.wait_for(1)
        answer = ask(trial.environment, trial.contender, folder, f"workflow_{shape}", arguments)
    seconds = sorted(answer["seconds"])
    return {"time": seconds[len(seconds) // 2] * 1000}
