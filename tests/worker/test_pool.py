"""The process pool with real children: kills, deaths, soft timeouts, recycling and what is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from tests.worker import pool_tasks
from windlass.core.job import ErrorInfo
from windlass.core.lifecycle import Crashed, Failed, HandedBack, Snoozed, Stopped, Succeeded
from windlass.errors import ConfigError, JobFailed, PayloadError, SoftTimeout
from windlass.worker import process
from windlass.worker.frames import Note, Setup, Unpacker, decode_from_child, pack, reply_to
from windlass.worker.functions import function_path, function_request, function_result
from windlass.worker.inside import Inside
from windlass.worker.pool import ChildDied, ChildStartFailed, PoolClosed, ProcessPool, RunRequest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process children need POSIX")

TARGET = "tests.worker.pool_tasks:app"
BODY = "tests.worker.pool_tasks:body"


class Pool(ProcessPool):
    """A pool that numbers its jobs and keeps what they say."""

    def __init__(self, size: int = 2, target: str = TARGET, **options: Any) -> None:
        self.messages: list[tuple[str, str, Any]] = []
        self.calls = 0
        options = {"body": BODY, "on_message": lambda *message: self.messages.append(message)} | options
        super().__init__(size, options.pop("command", None), target, **options)

    async def call(self, task: str, *args: Any, id: str = "") -> Any:
        self.calls += 1
        job_id = id or f"{task}-{self.calls}"
        reply = await self.run(RunRequest(id=job_id, task=task, payload=msgspec.json.encode(args)))
        assert reply.id == job_id
        outcome = reply.outcome
        return msgspec.json.decode(outcome.result) if isinstance(outcome, Succeeded) else outcome

    def begin(self, task: str, *args: Any, id: str = "") -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.call(task, *args, id=id or task))

    async def up(self, job_id: str) -> int:
        """What the job said when it was up: the pid of its child or of a program it started."""
        await until(lambda: any(m[:2] == (job_id, "up") for m in self.messages))
        return next(data for name, kind, data in self.messages if (name, kind) == (job_id, "up"))


async def until(condition: Callable[[], bool], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(0.01)


async def turns(count: int) -> None:
    """Let the loop turn so often: a little later each time, to meet a job at every point of its short life."""
    for _ in range(count):
        await asyncio.sleep(0)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def our_children() -> list[psutil.Process]:
    """Children and zombies of this process, less the ones the test runner may have."""
    return [p for p in psutil.Process().children() if "windlass.worker" in " ".join(_command(p))]


def _command(one: psutil.Process) -> list[str]:
    try:
        return one.cmdline() or ["windlass.worker zombie"]
    except psutil.ZombieProcess:
        return ["windlass.worker zombie"]
    except psutil.NoSuchProcess:
        return []


def count_descriptors() -> int:
    return psutil.Process().num_fds()


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., Any]]:
    pools: list[Pool] = []
    descriptors = count_descriptors()

    async def start(size: int = 2, **options: Any) -> Pool:
        pool = Pool(size, **options)
        await pool.start()
        pools.append(pool)
        return pool

    yield start
    for pool in pools:
        await pool.stop(0)
    assert not our_children(), "no child and no zombie outlives its pool"
    await until(lambda: count_descriptors() <= descriptors)


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
from tests.worker.test_pool import Pool

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


def test_a_soft_timeout_for_another_job_is_dropped() -> None:
    inside = Inside()
    inside.begin("new")
    inside._due.append("old")
    with inside.user_code():
        inside.on_signal(0, None)
    inside._due.append("new")
    with pytest.raises(SoftTimeout), inside.user_code():
        pass


def test_a_soft_timeout_of_a_coroutine_is_handed_over_once() -> None:
    inside = Inside()
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
