"""``Reject(requeue=True)``: back to the queue, at no cost, and later each time."""

from __future__ import annotations

from copy import copy

import pytest

from tests.worker import putting_back
from tests.worker.helpers import within
from windlass import JobFailed, Reject, Windlass
from windlass.core.retry import requeue_delay


@pytest.mark.parametrize("task", ["on_loop", "in_thread", "in_process"])
async def test_it_runs_again_at_no_cost(task: str) -> None:
    app = putting_back.app
    async with app.worker(concurrency=2):
        handle = await getattr(putting_back, task).enqueue()
        assert await within(handle) == [2, 1]
    await app.close()


def test_it_waits_longer_each_time_so_that_it_cannot_spin() -> None:
    waits = [requeue_delay(before) for before in range(12)]
    assert waits[:4] == [100, 200, 400, 800]
    assert waits == sorted(waits)
    assert requeue_delay(100_000) == 60_000


async def test_without_requeue_it_is_a_dead_letter(app: Windlass) -> None:
    @app.task
    async def refuse() -> None:
        raise Reject("no such order")

    async with app.worker():
        with pytest.raises(JobFailed, match="no such order"):
            await within(await refuse.enqueue())


def test_what_was_said_travels() -> None:
    other = copy(Reject("busy", requeue=True))
    assert (str(other), other.reason, other.requeue) == ("busy", "busy", True)
    assert str(Reject()) == "rejected by the task"
