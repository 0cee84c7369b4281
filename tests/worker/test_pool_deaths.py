"""Children of the process pool that die, are killed or abandoned."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.worker.pool_kit import is_alive, make, our_children, turns, until
from windlass.core.lifecycle import Succeeded
from windlass.worker import process
from windlass.worker.pool import ChildDied, RunRequest

__all__ = ["make"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process children need POSIX")


# -- dying


async def test_one_child_of_three_is_killed_and_the_neighbours_go_on(make, tmp_path: Path) -> None:
    pool = await make(3)
    done = tmp_path / "done"
    neighbours = [pool.begin("wait_for_file", str(done), id=f"n{n}") for n in range(2)]
    victim = pool.begin("spin")
    pids = {await pool.up("n0"), await pool.up("n1")}
    pid = await pool.up("spin")
    assert pool.pids["spin"] == pid
    assert pool.kill("spin", "timed out after 5 s")
    with pytest.raises(ChildDied, match=r"^killed: timed out after 5 s$"):
        await victim
    assert not is_alive(pid)
    assert await pool.call("pid") not in pids | {pid}, "a new child took its place"
    assert pids == {pool.pids["n0"], pool.pids["n1"]}
    done.touch()
    assert await asyncio.gather(*neighbours) == ["seen", "seen"]


@pytest.mark.parametrize(
    ("task", "args", "text"),
    [
        ("segfault", (), "signal SIGSEGV"),
        ("os_exit", (3,), "exit code 3"),
        ("os_exit", (0,), "exit code 0"),
        ("sys_exit", (5,), "exit code 5"),
        ("kill_myself", (), "signal SIGKILL (killed from outside, perhaps for lack of memory)"),
    ],
)
async def test_a_child_that_dies_by_itself_says_how(make, task: str, args: tuple[int], text: str) -> None:
    pool = await make(1)
    with pytest.raises(ChildDied) as caught:
        await pool.call(task, *args)
    assert str(caught.value) == text
    assert await pool.call("echo", "next") == "next"


async def test_deaths_are_seen_without_pidfd(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "open_pidfd", lambda pid: -1)
    pool = await make(1)
    with pytest.raises(ChildDied, match="exit code 3"):
        await pool.call("os_exit", 3)
    running = pool.begin("spin")
    await pool.up("spin")
    pool.kill("spin", "enough")
    with pytest.raises(ChildDied, match="killed: enough"):
        await running
    assert await pool.call("echo", 1) == 1


async def test_an_idle_child_that_dies_is_replaced(make) -> None:
    pool = await make(1)
    child = await pool.call("pid")
    os.kill(child, signal.SIGKILL)
    await until(lambda: not our_children())
    assert await pool.call("pid") != child


async def test_a_job_killed_at_its_end_does_not_take_the_next_one_along(make) -> None:
    pool = await make(1)
    await pool.call("echo", 0)
    for n in range(12):
        job = pool.begin("echo", n, id=f"job-{n}")
        after = pool.begin("echo", n, id=f"next-{n}")
        await turns(1 + n * 5)
        pool.kill(f"job-{n}", "just too late")
        [result] = await asyncio.gather(job, return_exceptions=True)
        assert result == n or isinstance(result, ChildDied)
        assert await after == n


@pytest.mark.parametrize("abandons", [False, True], ids=["killed", "abandoned"])
async def test_what_comes_for_a_job_that_is_over_does_not_meet_the_next_one_in_its_child(make, abandons: bool) -> None:
    """Between a reply and the caller who hears of it, the child is the next job's already."""
    pool = await make(1)
    child = await pool.call("pid")
    heard: list[bool] = []

    def too_late() -> None:
        assert "first" in pool._runs, "its caller has not heard of the reply"
        assert pool.busy == {"next"}
        if abandons:
            first.cancel()
        else:
            heard.extend((pool.kill("first", "late"), pool.cancel("first"), pool.soft_timeout("first")))

    first = pool.begin("echo", 1, id="first")
    following = asyncio.ensure_future(pool.run(RunRequest(id="next", task="pid", payload=b"[]"), too_late))
    result, reply = await asyncio.gather(first, following, return_exceptions=True)
    assert isinstance(result, asyncio.CancelledError) if abandons else result == 1
    assert reply.outcome == Succeeded(str(child).encode())
    assert not any(heard)


async def test_a_job_that_waits_can_be_killed_and_cancelled(make) -> None:
    pool = await make(1)
    first = pool.begin("wait")
    await pool.up("wait")
    killed, told = pool.begin("echo", 1, id="killed"), pool.begin("is_cancelled", id="told")
    await asyncio.sleep(0)
    assert pool.free == 0
    assert not pool.soft_timeout("told"), "it has not started"
    assert pool.kill("killed", "not needed")
    assert pool.cancel("told")
    with pytest.raises(ChildDied, match="killed: not needed"):
        await killed
    pool.kill("wait", "enough")
    with pytest.raises(ChildDied):
        await first
    assert await told is True
    assert await pool.call("is_cancelled", id="told") is False, "a later run of the same job starts anew"
    assert not pool.cancel("unknown")
    assert not pool.kill("unknown", "")


async def test_an_abandoned_run_kills_its_child(make) -> None:
    pool = await make(1)
    running = pool.begin("spin")
    pid = await pool.up("spin")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await pool.call("echo", 1, id="spin") == 1
    assert not is_alive(pid)


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("close_descriptors", "exit code 1"),
        ("hang_up", "killed: it closed its connection"),
        ("write_garbage", "killed: it sent a broken message"),
    ],
)
async def test_user_code_that_breaks_the_connection_loses_its_child(make, task: str, text: str) -> None:
    pool = await make(1)
    with pytest.raises(ChildDied, match=text):
        await pool.call(task)
    assert await pool.call("echo", 1) == 1


@pytest.mark.parametrize("task", ["start_program", "start_program_and_exit"])
async def test_what_a_job_started_dies_with_its_child(make, task: str) -> None:
    pool = await make(1)
    running = pool.begin(task)
    program = await pool.up(task)
    pool.kill(task, "timed out")
    with pytest.raises(ChildDied):
        await running
    await until(lambda: not is_alive(program))
