"""Random lives of jobs with lanes and gates on every engine, held against the model of the rules.

After every step: no limit and no rate is exceeded, no strict order broken, nothing left that had to be granted, nothing
held but by what runs, and whoever waits for something has been woken or knows when to ask.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance.flow_life import STEPS, WEIGHTS, Life, Step
from tests.conformance.test_graphs import Make, engine
from tests.thorough import played
from windlass.testing.conformance import Conformance, ManualClock
from windlass.testing.conformance.sums import check_sums

__all__ = ["engine"]

UNITS = [[1], [1], [2], [1, 2, 1, 5]]
"""What the jobs of a life weigh, one after the other."""


async def live(make: Make, units: list[int], steps: list[Step]) -> None:
    clock = ManualClock()
    store = make(clock)
    await store.open()
    try:
        life = Life(store, clock, units)
        for step in steps:
            await getattr(life, f"do_{step.what}")(step)
            await life.check()
        await life.finish()
        await check_sums(life.bench)
    finally:
        await store.close()


LIVES = int(os.environ.get("WINDLASS_LIVES", played(4, 12)))

SEARCH = LIVES > 12
"""With more lives than usual Hypothesis looks for new examples too; by default it tries the same ones every time."""


@settings(
    max_examples=20 * LIVES if SEARCH else played(30, 100), derandomize=not SEARCH, database=None, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it is the same for all examples
)  # fmt: skip
@pytest.mark.timeout(400)  # Hypothesis gives itself five minutes to find the smallest example of a difference
@given(st.sampled_from(UNITS), st.lists(STEPS, min_size=5, max_size=45))
def test_lanes_and_gates_keep_to_the_rules(
    engine: Callable[[], AbstractContextManager[Make]], units: list[int], steps: list[Step]
) -> None:
    with engine() as make:
        asyncio.run(live(make, units, steps))


@pytest.mark.parametrize("seed", range(LIVES))
def test_lanes_and_gates_keep_to_the_rules_for_long(
    engine: Callable[[], AbstractContextManager[Make]], seed: int
) -> None:
    """By dice, without Hypothesis's love of small examples."""
    rng = random.Random(seed)
    whats = rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=150)
    steps = [Step(what, rng.randrange(60), rng.randrange(60)) for what in whats]
    with engine() as make:
        asyncio.run(live(make, rng.choice(UNITS), steps))


def test_no_rule_hides_another_of_the_same_name() -> None:
    names = [name for base in Conformance.__mro__ for name in vars(base) if name.startswith("test_")]
    assert sorted({name for name in names if names.count(name) > 1}) == []
