"""Failpoints: free and silent unless ordered, and then exactly what was ordered."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from windlass import StoreUnavailable, Windlass
from windlass.errors import ConfigError
from windlass.support.failpoints import POINTS, failpoint
from windlass.testing.failpoints import failing_at, failpoint_env


def test_a_failpoint_does_nothing_by_itself() -> None:
    for name in POINTS:
        failpoint(name)


def test_orders_hold_at_every_pass_or_at_one() -> None:
    with failing_at(before_beat="raise", after_claim="raise@2", after_run="sleep=0.001"):
        failpoint("before_sweep")
        failpoint("after_run")
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="failpoint before_beat"):
                failpoint("before_beat")
        failpoint("after_claim")
        with pytest.raises(StoreUnavailable):
            failpoint("after_claim")
        failpoint("after_claim")
    failpoint("before_beat")


@pytest.mark.parametrize(
    ("orders", "says"),
    [
        ({"after_clam": "kill"}, "did you mean 'after_claim'"),
        ({"after_claim": "kil"}, "did you mean 'kill'"),
        ({"after_claim": "sleep=long"}, "point:action=seconds@pass"),
        ({"after_claim": "kill@first"}, "point:action=seconds@pass"),
    ],
)
def test_a_wrong_order_is_refused(orders: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says), failing_at(**orders):
        pass


@pytest.mark.parametrize(("action", "code"), [("kill", -signal.SIGKILL), ("exit", 1), ("sleep=0@1", 0)])
def test_a_process_obeys_its_environment(action: str, code: int) -> None:
    program = "from windlass.support.failpoints import failpoint; failpoint('after_claim')"
    env = failpoint_env(after_claim=action)
    assert subprocess.run([sys.executable, "-c", program], env=env, check=False, timeout=30).returncode == code


@pytest.mark.parametrize("point", ["before_settle", "after_settle", "before_beat", "before_sweep"])
async def test_a_worker_bears_a_store_that_fails_there(point: str) -> None:
    app = Windlass("points", "memory://")

    @app.task
    async def add(x: int) -> int:
        return x + 1

    async with app, app.worker(concurrency=2):
        with failing_at(**{point: "raise@1"}):
            handles = [await add.enqueue(n) for n in range(5)]
            assert await asyncio.gather(*handles) == [1, 2, 3, 4, 5]
