"""Soft timeouts, cancels and signals in children of the process pool, and functions called there."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.worker import pool_tasks
from tests.worker.pool_kit import make, turns, until
from windlass.core.lifecycle import Failed, Stopped
from windlass.errors import ConfigError, JobFailed, PayloadError, SoftTimeout
from windlass.worker.child_functions import function_path, function_request, function_result
from windlass.worker.child_run import ChildRun

__all__ = ["make"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process children need POSIX")


# -- soft timeouts, cancels, signals


@pytest.mark.parametrize("task", ["spin", "wait"])
async def test_a_soft_timeout_hits_loops_and_sleeps(make, task: str) -> None:
    pool = await make(1)
    running = pool.begin(task)
    pid = await pool.up(task)
    assert pool.soft_timeout(task)
    failed = await asyncio.wait_for(running, 5)
    assert isinstance(failed, Failed)
    assert failed.error.type == "SoftTimeout"
    assert await pool.call("pid") == pid, "the child lives on"


async def test_a_task_can_clean_up_after_a_soft_timeout(make) -> None:
    pool = await make(1)
    running = pool.begin("cleans_up")
    await pool.up("cleans_up")
    pool.soft_timeout("cleans_up")
    assert await asyncio.wait_for(running, 5) == "cleaned up"


async def test_a_soft_timeout_never_tears_a_message(make) -> None:
    pool = await make(1)
    pid = await pool.call("pid")
    for n in range(10):
        size = 10 + n * 20_000
        running = pool.begin("say_much", size, id=f"much-{n}")
        await until(lambda n=n: sum(m[0] == f"much-{n}" for m in pool.messages) > 3)
        pool.soft_timeout(f"much-{n}")
        failed = await asyncio.wait_for(running, 10)
        assert isinstance(failed, Failed), "the stream is whole and the reply was read"
        assert {len(data) for job, _, data in pool.messages if job == f"much-{n}"} == {size}
    assert await pool.call("pid") == pid


async def test_a_late_soft_timeout_hits_nobody(make) -> None:
    pool = await make(1)
    await pool.call("echo", 0)
    for n in range(50):
        job = pool.begin("echo", n, id=f"job-{n}")
        await turns(1 + n)
        pool.soft_timeout(f"job-{n}")
        result = await job
        assert result == n or isinstance(result, Failed)
        assert await pool.call("echo", "next") == "next"


async def test_a_cancel_is_seen_by_the_job_it_is_for(make) -> None:
    pool = await make(2)
    first, second = pool.begin("wait_for_cancel", id="a"), pool.begin("wait_for_cancel", id="b")
    await pool.up("a")
    await pool.up("b")
    assert pool.cancel("a")
    assert await asyncio.wait_for(first, 5) == Stopped("was asked to")
    assert not second.done()
    pool.cancel("b")
    await second
    assert await pool.call("is_cancelled") is False


async def test_signals_are_for_the_worker_but_programs_hear_them(make) -> None:
    pool = await make(1)
    assert await pool.call("hear_signals") == "still here"
    assert await pool.call("stray_soft_signal") == "still here"
    assert await pool.call("program_hears_sigterm") == -signal.SIGTERM
    assert await pool.call("fork_hears_sigterm") == -signal.SIGTERM


def test_a_soft_timeout_for_another_job_is_dropped() -> None:
    inside = ChildRun()
    inside.begin("new")
    inside._due.append("old")
    with inside.user_code():
        inside.on_signal(0, None)
    inside._due.append("new")
    with pytest.raises(SoftTimeout), inside.user_code():
        pass


def test_a_soft_timeout_of_a_coroutine_is_handed_over_once() -> None:
    inside = ChildRun()
    inside.begin("job")
    heard: list[str] = []
    with inside.user_code(lambda: heard.append("soft")):
        inside.soft_timeout("other")
        inside.soft_timeout("job")
        inside.on_signal(0, None)
    assert heard == ["soft"]


# -- functions


async def test_a_function_is_called_in_a_child_with_typed_arguments(make) -> None:
    pool = await make(target="")
    point = pool_tasks.Point(1, datetime(2026, 1, 1, tzinfo=UTC))

    async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        request = function_request("f", function, args, kwargs)
        return function_result(request, (await pool.run(request)).outcome)

    assert await call(pool_tasks.move, point, by=4) == pool_tasks.Point(5, point.at)
    assert await call(pool_tasks.later, 1) == 2
    assert await call(pool_tasks.Box.static, 4) == 8
    with pytest.raises(JobFailed, match="ValueError: no luck") as caught:
        await call(pool_tasks.fails)
    assert caught.value.error_type == "ValueError"
    assert "in fails" in caught.value.traceback


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda: None, "a lambda or a function inside another"),
        (pool_tasks.closure(), "a lambda or a function inside another"),
        (pool_tasks.Box().method, "needs a function"),
        (pool_tasks.Box, "needs a function"),
    ],
)
def test_a_function_that_cannot_be_imported_is_refused_at_the_call(function: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        function_path(function)


@pytest.mark.parametrize("args", [(object(),), ("text",), (1, 2), ()])
def test_arguments_that_do_not_fit_are_refused_at_the_call(args: tuple[Any, ...]) -> None:
    with pytest.raises(PayloadError):
        function_request("f", pool_tasks.later, args)
