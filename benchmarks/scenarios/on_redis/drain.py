"""How fast a backlog is worked off by one worker process and by two, results kept or not."""

from functools import partial

from benchmarks.harness.plan import Plan
from benchmarks.scenarios import drain
from benchmarks.scenarios.base import Scenario
from benchmarks.scenarios.on_redis import lineup


def scenarios(plan: Plan) -> list[Scenario]:
    """Four questions."""
    return [
        Scenario(
            f"drain:{number}:{'results' if results else 'no-results'}",
            f"drain a backlog, {words}, results {'kept' if results else 'not kept'}",
            plan.rounds if number == 1 else plan.side_rounds,
            drain.RATE,
            partial(lineup.workers, role, results),
            lambda trial: drain.measure(trial, trial.count(trial.plan.drain)),
        )
        for number, role, words in ((1, "one", "one worker process"), (2, "two", "two worker processes"))
        for results in (True, False)
    ]
