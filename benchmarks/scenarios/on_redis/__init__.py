"""What is measured on Redis: the questions asked of SQLite, and those that only systems beside a server can answer."""

from functools import partial

from benchmarks.harness.plan import Plan
from benchmarks.scenarios import flow, telemetry
from benchmarks.scenarios.base import Scenario
from benchmarks.scenarios.on_redis import drain, enqueue, footprint, growth, latency, lineup, workflows, workloads


def build(plan: Plan) -> list[Scenario]:
    """All scenarios of a run on Redis, in the order of the report."""
    made = [
        *enqueue.scenarios(plan),
        *drain.scenarios(plan),
        *latency.scenarios(plan),
        *workloads.scenarios(plan),
        *workflows.scenarios(plan),
        *flow.scenarios(plan, partial(lineup.presets, "one"), ("bullmq",)),
        *telemetry.scenarios(plan, partial(lineup.presets, "one")),
        *footprint.scenarios(plan),
        *growth.scenarios(plan),
    ]
    return [scenario for scenario in made if scenario.name not in plan.without]
