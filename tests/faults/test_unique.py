"""One unique key, many producers, kills: never two at once, and never nothing after a call was taken.

Who came last is known only where calls did not overlap: a call is older than another if it was answered before that
was sent. No argument may run after a newer one, and none may be newer than the last that ran.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.faults import flow_jobs
from tests.faults.checker import histories, records
from tests.faults.flow import OPTIONS, Execution, executions, kill_some, most_at_once, nothing_left
from tests.worker.helpers import ROOT, Fleet, Ledger, eventually
from windlass import State, Windlass
from windlass.core.job import Job

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="kills need POSIX"),
    pytest.mark.parametrize("engine", ["sqlite", "redis7"], indirect=True),
]


@pytest.fixture
def tasks() -> ModuleType:
    return flow_jobs


class Size(NamedTuple):
    processes: int
    producers: int
    calls: int
    workers: int
    kills: int
    timeout: float


QUICK = Size(processes=5, producers=1, calls=40, workers=3, kills=2, timeout=60)
FULL = Size(processes=10, producers=5, calls=200, workers=6, kills=12, timeout=300)


class Call(NamedTuple):
    """What a producer knows of one call."""

    n: int
    sent: float
    answered: float
    existing: bool
    id: str


def calls_of(ledger: Ledger) -> list[Call]:
    found = []
    for line in ledger.lines("called"):
        n, sent, existing, id = line.job.split("/")
        found.append(Call(int(n), float(sent), line.at, existing == "1", id))
    return found


async def contend(
    app: Windlass, fleet: Fleet, ledger: Ledger, policy: str, size: Size
) -> tuple[list[Call], list[Execution]]:
    """All that was called and all that ran, the latter one after the other."""
    seed = random.randrange(1 << 30)
    for _ in range(size.workers):
        fleet.start(**OPTIONS)
    per_process = size.producers * size.calls
    producers = [
        start_producer(fleet, policy, first, size) for first in range(0, size.processes * per_process, per_process)
    ]
    try:
        await eventually(lambda: ledger.lines("start"))
        rng = random.Random(seed)
        kills = await kill_some(app, fleet, rng, size.kills, (0.3, 1.0), least=2, at_work=ledger)
        await eventually(lambda: all(one.poll() is not None for one in producers), timeout=size.timeout, every=0.1)
    finally:
        for one in producers:
            one.kill()
            one.wait(10)
    assert [one.returncode for one in producers] == [0] * size.processes, fleet.logs()
    await eventually(lambda: nothing_left(app), timeout=size.timeout, every=0.1)
    calls = calls_of(ledger)
    assert len(calls) == size.processes * per_process
    lines = [line for line in ledger.lines() if line.what != "called"]
    runs = executions(lines, kills, await histories(app))
    accepted = sum(not call.existing for call in calls)
    plainly = most_at_once(executions(lines, kills, {}))
    print(  # noqa: T201
        f"\n{policy}, seed {seed}: {len(calls)} calls, {accepted} accepted, {len(runs)} runs, {plainly} at once if "
        "what silent workers lost is counted to its end"
    )
    assert most_at_once(runs) == 1, "two were under way at once"
    return calls, runs


def start_producer(fleet: Fleet, policy: str, first: int, size: Size) -> subprocess.Popen[bytes]:
    command = ["-m", "tests.faults.flow_producer", policy, str(first), str(size.producers), str(size.calls)]
    with (fleet.folder / f"producer-{first}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env={**os.environ, **fleet.env}, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip


async def finished(app: Windlass, ids: set[str]) -> dict[str, Job]:
    found = await records(app, sorted(ids))
    assert all(job is not None and job.state is State.SUCCEEDED for job in found.values()), found
    return {id: job for id, job in found.items() if job is not None}


async def keeping(app: Windlass, fleet: Fleet, ledger: Ledger, size: Size) -> None:
    """Every accepted job runs with its own arguments; who was turned away was so because of one that was not over."""
    calls, runs = await contend(app, fleet, ledger, "keep", size)
    accepted = {call.id: call for call in calls if not call.existing}
    jobs = await finished(app, set(accepted))
    assert {run.job for run in runs} == {f"{call.id}/{call.n}" for call in accepted.values()}
    for call in calls:
        assert call.id in jobs, f"turned away for a job nobody was given: {call}"
        over = jobs[call.id].finished_at / 1000
        assert not call.existing or over >= call.sent - 0.002, f"turned away for a job that was over: {call}"


async def replacing(app: Windlass, fleet: Fleet, ledger: Ledger, size: Size) -> None:
    """What ran is never older than what ran before it, and nothing that was called is newer than what ran last."""
    calls, runs = await contend(app, fleet, ledger, "replace", size)
    await finished(app, {call.id for call in calls})
    known = {str(call.n): call for call in calls}
    newest = 0.0
    for run in runs:
        call = known[run.job.partition("/")[2]]
        assert run.start > call.sent
        assert call.answered >= newest, f"{call} ran after a call that was sent later, at {newest}"
        newest = max(newest, call.sent)
    last = known[runs[-1].job.partition("/")[2]]
    missed = [call for call in calls if call.sent > last.answered or call.sent > runs[-1].start]
    assert not missed, f"taken and never run: {missed}; the last to run was {last}"


async def test_one_at_a_time_and_every_accepted_one_runs(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    await keeping(app, fleet, ledger, QUICK)


async def test_one_at_a_time_and_the_last_arguments_run(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    await replacing(app, fleet, ledger, QUICK)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_one_at_a_time_and_every_accepted_one_runs_for_long(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    await keeping(app, fleet, ledger, FULL)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_one_at_a_time_and_the_last_arguments_run_for_long(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    await replacing(app, fleet, ledger, FULL)
