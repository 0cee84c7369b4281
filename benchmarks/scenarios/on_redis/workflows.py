"""How long a whole workflow takes, from the call until its value is in hand: a chain, a group, a chord, a tree.

The same shapes for everyone who has them: Celery's canvas and BullMQ's flows. Every value is checked. A tree's children
run before their parent, level by level; a chain in BullMQ is a flow whose every parent has one child.
"""

from collections.abc import Iterable
from functools import partial

from benchmarks.harness import backlog, space
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Worker, ask
from benchmarks.peers.model import Contender
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial
from benchmarks.scenarios.on_redis import lineup

HUGE = (
    Metric("submit", "s", higher=False),
    Metric("run", "s", higher=False),
    Metric("body after", "ms", higher=False),
    Metric("longest call", "ms", higher=False),
    Metric("per job", "bytes", higher=False),
)
# The longest entry of the server's slow log, in microseconds. A script may read it, and answers one number.
LONGEST = "local m = 0 for _, e in ipairs(redis.call('SLOWLOG', 'GET', -1)) do m = math.max(m, e[3]) end return m"
WITH_WORKFLOWS = ("windlass", "bullmq", "celery")
SHAPES = {"chain": 100, "group": 1_000, "chord": 1_000, "tree": 1_000}


def scenarios(plan: Plan) -> list[Scenario]:
    """One question per shape, and one about a chord that is far larger than any single step may be."""
    huge = f"one chord over {plan.huge:,} jobs"
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
    ] + [Scenario("workflow:huge", huge, plan.side_rounds, HUGE, _windlass, _measure_huge)]


def _groups() -> Iterable[list[Contender]]:
    for group in lineup.workers("one"):
        if group[0].name in WITH_WORKFLOWS:
            yield group


def _windlass() -> Iterable[list[Contender]]:
    for group in lineup.workers("one"):
        if group[0].name == "windlass":
            yield group


def _measure_huge(trial: Trial) -> Metrics:
    """Submitted with no worker, so that the server's memory is that of jobs that wait; then run by one."""
    with space.fresh(trial.contender) as place:
        assert place.server
        ask(trial.environment, trial.contender, place, "fill", {"count": 1})
        place.server.command("CONFIG", "SET", "slowlog-log-slower-than", "3000")
        place.server.command("CONFIG", "SET", "slowlog-max-len", "10000")
        before = int(place.server.info("memory", "used_memory"))
        size = {"size": trial.plan.huge}
        submitted = ask(trial.environment, trial.contender, place, "huge_submit", size)
        held = int(place.server.info("memory", "used_memory")) - before
        with Worker(trial.environment, trial.contender, place):
            ran = ask(trial.environment, trial.contender, place, "huge_wait", size)
        longest = int(place.server.command("EVAL", LONGEST, "0"))
    return {
        "submit": submitted["seconds"],
        "run": ran["seconds"],
        "body after": ran["after"] * 1000,
        "longest call": longest / 1000,
        "per job": held / trial.plan.huge,
    }


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
