"""What is measured. One module per question; each says who takes part and how one trial is taken.

The modules here ask SQLite; those in `on_redis/` ask Redis, and take a trial in the same way where the question is
the same.
"""

from functools import partial

from benchmarks.harness.plan import Plan
from benchmarks.scenarios import drain, enqueue, flow, growth, inprocess, latency, lineup, memory, startup, telemetry
from benchmarks.scenarios.base import Scenario


def build(plan: Plan) -> list[Scenario]:
    """All scenarios of a run on SQLite, in the order of the report."""
    return [
        *enqueue.scenarios(plan),
        *drain.scenarios(plan),
        *flow.scenarios(plan, partial(lineup.presets, "full", True)),
        *telemetry.scenarios(plan, partial(lineup.presets, "full", True)),
        *latency.scenarios(plan),
        *startup.scenarios(plan),
        *memory.scenarios(plan),
        *growth.scenarios(plan),
        *inprocess.scenarios(plan),
    ]
