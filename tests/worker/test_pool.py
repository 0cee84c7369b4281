"""The process pool with real children: kills, deaths, soft timeouts, recycling and what is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.worker.pool_kit import BODY, TARGET, Pool, is_alive, make, our_children, until
from windlass.core.job import ErrorInfo
from windlass.core.lifecycle import Crashed, Failed, HandedBack, Snoozed, Stopped, Succeeded
from windlass.errors import ConfigError
from windlass.worker.child_messages import Note, Setup, Unpacker, decode_from_child, pack, reply_to
from windlass.worker.pool import ChildDied, ChildStartFailed, PoolClosed, RunRequest

__all__ = ["make"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process children need POSIX")


# -- running


async def test_a_job_runs_in_a_child_with_the_app(make) -> None:
    pool = await make()
    child = await pool.call("pid")
    assert child != os.getpid()
    assert await pool.call("app_name") == "an app"
    assert await pool.call("pid") == child, "the child is kept warm"
    cwd, path, _ = await pool.call("where")
    assert (cwd, path) == (os.getcwd(), sys.path)


async def test_children_are_started_when_needed(make) -> None:
    pool = await make(3)
    assert not our_children()
    assert pool.free == 3
    await pool.call("echo", 1)
    assert len(our_children()) == 1
    first = [pool.begin("wait", id=f"w{n}") for n in range(3)]
    for n in range(3):
        await pool.up(f"w{n}")
    assert pool.free == 0
    assert pool.busy == {"w0", "w1", "w2"}
    assert len(our_children()) == 3
    for n in range(3):
        pool.kill(f"w{n}", "enough")
    await asyncio.gather(*first, return_exceptions=True)
    await until(lambda: pool.free == 3)


async def test_every_outcome_comes_back_as_itself(make) -> None:
    pool = await make()
    assert await pool.call("snooze") == Snoozed(1234)
    for outcome in [
        Succeeded(b"1"),
        Succeeded(None),
        Snoozed(5),
        Stopped("x"),
        Crashed(ErrorInfo("a", "b"), 3),
        HandedBack(),
    ]:
        [body] = Unpacker().feed(pack(reply_to("id", outcome)))
        again = decode_from_child(body).outcome
        assert type(again) is type(outcome)
        assert again == outcome


async def test_an_error_of_the_body_costs_the_job_and_not_the_child(make) -> None:
    pool = await make(1)
    child = await pool.call("pid")
    failed = await pool.call("raises")
    assert isinstance(failed, Failed)
    assert failed.error.type == "LookupError"
    assert "a bug in the body" in failed.error.traceback
    assert await pool.call("pid") == child


async def test_messages_arrive_in_order_and_before_the_reply(make) -> None:
    pool = await make()
    assert await pool.call("say", 200, id="talker") == 200
    assert [data["percent"] for _, _, data in pool.messages] == list(range(200))
    assert {(job, kind) for job, kind, _ in pool.messages} == {("talker", "progress")}


async def test_the_last_words_of_a_dying_child_are_heard(make) -> None:
    pool = await make()
    with pytest.raises(ChildDied, match="exit code 9"):
        await pool.call("say_and_die", 300)
    assert len(pool.messages) == 300


async def test_a_bad_listener_does_not_break_the_pool(make) -> None:
    def listener(*_message: Any) -> None:
        raise RuntimeError("a bug in the listener")

    pool = await make(on_message=listener)
    assert await pool.call("say", 2) == 2


async def test_a_big_payload_goes_both_ways(make) -> None:
    pool = await make()
    text = "x" * 1_000_000
    assert await pool.call("echo", text) == text


async def test_a_thousand_quick_jobs(make, record_property) -> None:
    pool = await make(2)
    await asyncio.gather(pool.call("pid"), pool.call("pid"))
    began = time.perf_counter()
    assert await asyncio.gather(*(pool.call("echo", n) for n in range(1000))) == list(range(1000))
    took = time.perf_counter() - began
    record_property("jobs_per_second", round(1000 / took))
    sys.stderr.write(f"\n1,000 jobs over two children: {1000 / took:,.0f} jobs/s\n")
    assert len(our_children()) == 2
    assert took < 20


async def test_the_same_id_twice_at_a_time_is_refused(make) -> None:
    pool = await make()
    running = pool.begin("wait", id="one")
    await pool.up("one")
    with pytest.raises(ValueError, match="already running"):
        await pool.call("echo", 1, id="one")
    pool.kill("one", "enough")
    with pytest.raises(ChildDied):
        await running
    assert await pool.call("echo", 1, id="one") == 1


def test_uvloop_does_it_all_too() -> None:
    """The loop workers run on; its transports and readers are not asyncio's."""
    uvloop = pytest.importorskip("uvloop")

    async def life() -> None:
        pool = Pool(2)
        await pool.start()
        assert await pool.call("echo", "x" * 1_000_000) == "x" * 1_000_000
        assert await pool.call("say", 5) == 5
        with pytest.raises(ChildDied, match="signal SIGSEGV"):
            await pool.call("segfault")
        soft, killed, running = pool.begin("spin", id="soft"), pool.begin("spin", id="killed"), pool.begin("pid")
        await pool.up("soft")
        await pool.up("killed")
        assert pool.soft_timeout("soft")
        assert isinstance(await soft, Failed)
        assert pool.kill("killed", "enough")
        with pytest.raises(ChildDied, match="killed: enough"):
            await killed
        assert await running
        await pool.stop(1)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(life())
    assert not our_children()


# -- recycling and starting


async def test_a_child_is_replaced_after_its_jobs(make) -> None:
    pool = await make(1, max_jobs=3)
    pids = [await pool.call("pid") for _ in range(7)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]
    await until(lambda: len(our_children()) == 1)


async def test_a_child_that_grew_too_big_is_replaced(make) -> None:
    pool = await make(1, max_memory=150_000_000)
    small = await pool.call("eat", 1_000)
    assert await pool.call("eat", 1_000) == small
    assert await pool.call("eat", 200_000_000) == small
    assert await pool.call("eat", 1_000) != small


async def test_an_app_that_cannot_be_imported_is_told_with_its_traceback(make) -> None:
    pool = await make(2, target="tests.worker.pool_broken:app")
    with pytest.raises(ChildStartFailed) as caught:
        await pool.call("echo", 1)
    assert "RuntimeError: the settings are missing" in str(caught.value)
    assert "pool_broken.py" in str(caught.value)
    assert pool.free == 0, "nothing is started for a while"
    began = time.monotonic()
    with pytest.raises(ChildStartFailed):
        await pool.call("echo", 2)
    assert time.monotonic() - began > 0.5, "the second one waited for its turn"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["/no/such/python"], "cannot be started: .*No such file"),
        ([sys.executable, "-c", "import os; os._exit(7)"], "while it was starting: exit code 7"),
        (["sleep", "60"], "died while it was starting|not ready after"),
    ],
)
async def test_a_child_that_does_not_come_up_is_an_error(make, command: list[str], text: str) -> None:
    pool = await make(1, command=command, start_timeout=1.0)
    with pytest.raises(ChildStartFailed, match=text):
        await pool.call("echo", 1)


async def test_a_child_that_hangs_while_starting_is_given_up(make) -> None:
    pool = await make(1, command=[sys.executable, "-c", "import time; time.sleep(60)"], start_timeout=0.5)
    with pytest.raises(ChildStartFailed, match=r"not ready after 0\.5 s"):
        await pool.call("echo", 1)


# -- stopping


async def test_stop_lets_running_jobs_end_and_fails_the_rest(make, tmp_path: Path) -> None:
    pool = await make(1)
    running = pool.begin("wait_for_file", str(tmp_path / "done"), id="running")
    await pool.up("running")
    waiting = pool.begin("echo", 1)
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(pool.stop(10))
    with pytest.raises(PoolClosed):
        await waiting
    with pytest.raises(PoolClosed):
        await pool.call("echo", 2)
    (tmp_path / "done").touch()
    assert await running == "seen"
    await stopping
    await pool.stop(0)
    assert pool.free == 0
    assert not our_children()


async def test_stop_kills_what_does_not_end(make) -> None:
    pool = await make(2)
    running = pool.begin("spin")
    await pool.up("spin")
    await pool.call("echo", 1)
    began = time.monotonic()
    await pool.stop(0.2)
    assert time.monotonic() - began < 5
    with pytest.raises(ChildDied, match="killed: the worker is stopping"):
        await running


async def test_stop_while_children_start(make) -> None:
    pool = await make(2)
    jobs = [pool.begin("echo", n, id=str(n)) for n in range(3)]
    await until(lambda: len(our_children()) == 2)
    await pool.stop(0)
    for job in jobs:
        with pytest.raises(PoolClosed):
            await job


async def test_a_pool_that_was_not_started_is_closed() -> None:
    pool = Pool()
    with pytest.raises(PoolClosed):
        await pool.call("echo", 1)
    await pool.stop(1)
    with pytest.raises(PoolClosed):
        await pool.start()
    with pytest.raises(ConfigError):
        Pool(0)


PARENT = """
import asyncio, sys
from tests.worker.pool_kit import Pool

async def main():
    pool = Pool(3)
    await pool.start()
    jobs = [pool.begin(task) for task in ("spin", "wait", "hold_the_gil")]
    for task in ("spin", "wait", "hold_the_gil"):
        print(await pool.up(task), flush=True)
    print("all up", flush=True)
    await asyncio.wait(jobs)

asyncio.run(main())
"""


def test_children_die_with_a_killed_worker() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout as lines:
        pids = []
        while (line := lines.readline().strip()) != "all up":
            pids.append(int(line))
        assert len(pids) == 3
        assert all(is_alive(pid) for pid in pids)
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 2
        while any(is_alive(pid) for pid in pids):
            assert time.monotonic() < deadline, "children outlived their worker"
            time.sleep(0.01)


def test_a_child_goes_when_its_connection_closes() -> None:
    """Without the kernel's help: this parent lives on."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        fd = theirs.fileno()
        child = subprocess.Popen(
            [sys.executable, "-m", "windlass.worker.child", "--fd", str(fd)], pass_fds=(fd,), process_group=0
        )
        theirs.close()
        ours.sendall(pack(Setup(TARGET, [], BODY, sys.path, os.getpid(), False)))
        ours.sendall(pack(RunRequest(id="spin", task="spin", payload=b"[]")))
        frames = Unpacker()
        while not any(isinstance(decode_from_child(body), Note) for body in frames.feed(ours.recv(1000))):
            assert child.poll() is None
    assert child.wait(2) == -signal.SIGKILL
