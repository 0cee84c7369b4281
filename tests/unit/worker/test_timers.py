"""One timer for all timeouts, on both kinds of loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from windlass.worker.timers import Timers

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    def runs(main: Callable[[], object]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main())  # type: ignore[arg-type]

    return runs


def test_they_fire_in_order_and_only_for_the_living(run: Callable[..., None]) -> None:
    async def main() -> None:
        timers, fired, done = Timers(asyncio.get_running_loop()), [], asyncio.Event()
        timers.after(0.03, done.set, lambda: True)
        timers.after(0.01, lambda: fired.append("first"), lambda: True)
        timers.after(0.015, lambda: fired.append("dead"), lambda: False)
        timers.after(0.02, lambda: fired.append("second"), lambda: True)
        async with asyncio.timeout(5):
            await done.wait()
        assert fired == ["first", "second"]

    run(main)


def test_a_time_already_past_fires_at_once_and_more_may_be_added_meanwhile(run: Callable[..., None]) -> None:
    """uvloop's handle of a past time has no `when`: asking it once broke a loaded worker."""

    async def main() -> None:
        timers, fired, done = Timers(asyncio.get_running_loop()), [], asyncio.Event()

        def again() -> None:
            fired.append(len(fired))
            timers.after(-1, again if len(fired) < 5 else done.set, lambda: True)
            timers.after(-0.5, lambda: None, lambda: True)

        timers.after(-1, again, lambda: True)
        timers.after(-1, lambda: None, lambda: True)
        async with asyncio.timeout(5):
            await done.wait()
        assert fired == [0, 1, 2, 3, 4]
        timers.close()
        timers.after(-1, lambda: None, lambda: True)

    run(main)
