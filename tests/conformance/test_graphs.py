"""Random graphs with random fates on every engine, held against the model of the rules: all agree, and nothing hangs.

An example is a few plain values, so a failure shrinks to the nodes and steps that matter and is printed as such. Steps
name what they act on by number, modulo what there is to act on at that moment.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance.graph_life import STEPS, Life, Step
from tests.conformance.graph_sketches import DRAFTS, SETTINGS, Draft, drawn
from tests.servers.redis import fresh_prefix
from tests.thorough import played
from windlass.store.base import Store
from windlass.store.memory import MemoryStore
from windlass.store.redis import RedisStore, library
from windlass.store.redis.commands import Library
from windlass.store.sqlite import SQLiteStore
from windlass.testing.conformance import ManualClock
from windlass.testing.conformance.sums import check_sums

# ---- the engines ------------------------------------------------------------------------------------------------


Make = Callable[[ManualClock], Store]


@contextmanager
def sqlite() -> Iterator[Make]:
    with tempfile.TemporaryDirectory() as folder:
        yield lambda clock: SQLiteStore(f"sqlite:///{folder}/jobs.db?durability=normal", SETTINGS, clock=clock)


@pytest.fixture(params=["memory", "sqlite", "redis"])
def engine(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[Make]]:
    """A new store for each life."""
    if request.param == "sqlite":
        return sqlite
    if request.param == "memory":
        return lambda: nullcontext(lambda clock: MemoryStore(f"memory://{uuid4()}", SETTINGS, clock=clock))
    url = request.getfixturevalue("redis7").url
    return lambda: nullcontext(lambda clock: RedisStore(f"{url}?prefix={fresh_prefix()}", SETTINGS, clock=clock))


async def live(
    make: Make, drafts: list[Draft], inner: list[Draft], steps: list[Step], how: int, slow: bool = False
) -> None:
    clock = ManualClock()
    store = make(clock)
    await store.open()
    try:
        life = Life(store, clock, [drawn(draft, f"g{n}") for n, draft in enumerate(drafts)], inner, slow)
        for plan in list(life.plans):
            await life.submit(plan, random.Random(how))
        for step in steps:
            await life.do(step)
        await life.finish(how)
        await check_sums(life.bench)
    finally:
        await store.close()


LIVES = int(os.environ.get("WINDLASS_LIVES", played(4, 12)))

SEARCH = LIVES > 12
"""With more lives than usual Hypothesis looks for new examples too; by default it tries the same ones every time."""

FEW = 4
"""So many nodes, and not some hundreds, are touched in a step when engines are slowed down."""


@pytest.fixture
def slowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that leave todos behind even where graphs are small."""
    for module in ("memory.hub", "machine.graphs.todos", "machine.graphs.staging"):
        monkeypatch.setattr(f"windlass.store.{module}.WORK", FEW)
    whole, names = library.build()
    name, code = whole.name.encode(), whole.code
    assert code.count(b"local WORK = 500") == 1
    slow = code.replace(b"local WORK = 500", b"local WORK = %d" % FEW).replace(name, b"windlass_slowed")
    built = (
        Library("windlass_slowed", slow),
        {function: called.replace(name, b"windlass_slowed") for function, called in names.items()},
    )
    monkeypatch.setattr(library, "build", lambda: built)


LIFE = (
    st.lists(DRAFTS, min_size=1, max_size=2), st.lists(DRAFTS, max_size=2), st.lists(STEPS, max_size=30),
    st.integers(0, 11),
)  # fmt: skip

CHOSEN = settings(
    max_examples=2_000 if SEARCH else played(30, 100), derandomize=not SEARCH, database=None, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it is the same for all examples
)  # fmt: skip


@CHOSEN
@pytest.mark.timeout(400)  # Hypothesis gives itself five minutes to find the smallest example of a difference
@given(*LIFE)
def test_a_graph_comes_to_what_the_rules_say(
    engine: Callable[[], AbstractContextManager[Make]],
    drafts: list[Draft],
    inner: list[Draft],
    steps: list[Step],
    how: int,
) -> None:
    with engine() as make:
        asyncio.run(live(make, drafts, inner, steps, how))


@CHOSEN
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("slowed")
@given(*LIFE)
def test_a_graph_comes_to_the_same_in_small_steps(
    engine: Callable[[], AbstractContextManager[Make]],
    drafts: list[Draft],
    inner: list[Draft],
    steps: list[Step],
    how: int,
) -> None:
    with engine() as make:
        asyncio.run(live(make, drafts, inner, steps, how, slow=True))
