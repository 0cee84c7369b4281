"""What the tests of flow control share: kills by number, executions as intervals, and what is left to do."""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from tests.faults.checker import Kill
from tests.worker.helpers import Fleet, Ledger, Line, WorkerProcess, eventually
from windlass import State, Windlass
from windlass.core.event import Event
from windlass.core.limits import Rate

OPTIONS: dict[str, Any] = {"concurrency": 8, "grace": 5}


class Execution(NamedTuple):
    """One run of a task's body: from the line it began with to its end, or to the death of its process."""

    job: str
    start: float
    end: float


async def present(app: Windlass, fleet: Fleet, count: int) -> None:
    """Until so many live processes of the fleet are at work."""
    store = (await app.client()).store

    async def enough() -> bool:
        pids = {worker.pid for worker in fleet if worker.alive}
        return len(pids & {info.presence.pid for info in await store.workers()}) >= count

    await eventually(enough, timeout=60, every=0.05)


async def kill_some(
    app: Windlass, fleet: Fleet, rng: random.Random, kills: int, every: tuple[float, float], *, least: int = 3,
    at_work: Ledger | None = None, chosen: Callable[[], Awaitable[int]] | None = None,
) -> list[Kill]:  # fmt: skip
    """Kill random workers, and start another for each; ``least`` must be there before one is killed.

    With ``at_work`` it is one that is in the middle of a job, according to this ledger; with ``chosen`` the one that
    this names by its pid.
    """
    done: list[Kill] = []
    for _ in range(kills):
        await asyncio.sleep(rng.uniform(*every))
        await present(app, fleet, least)
        alive = [worker for worker in fleet if worker.alive]
        last = await caught_at_work(alive, at_work) if at_work else await chosen() if chosen else 0
        victim = rng.choice([worker for worker in alive if worker.pid == last] or alive)
        done.append(Kill(victim.pid, time.time()))
        victim.kill()
        fleet.start(**OPTIONS)
    return done


async def caught_at_work(alive: list[WorkerProcess], ledger: Ledger) -> int:
    """The pid of a process that is stopped in the middle of a job; 0 where none was found for a while."""
    pids = {worker.pid for worker in alive}
    for _ in range(200):
        last = next((line.pid for line in reversed(ledger.lines("start")) if line.pid in pids), 0)
        if not last:
            return 0
        # Stopped it writes nothing more: what the ledger says of it then is still true when it is killed.
        os.kill(last, signal.SIGSTOP)
        lines = [line for line in ledger.lines() if line.pid == last]
        if Counter(line.job for line in lines if line.what == "start") > Counter(
            line.job for line in lines if line.what == "end"
        ):
            return last
        os.kill(last, signal.SIGCONT)
        await asyncio.sleep(0.01)
    return 0


async def nothing_left(app: Windlass) -> bool:
    """No job of any queue is under way."""
    queues = await (await app.client()).store.queues()
    return not any(n for queue in queues for state, n in queue.counts.items() if not State(state).terminal)


def executions(lines: Iterable[Line], kills: list[Kill], past: dict[str, list[Event]]) -> list[Execution]:
    """Every start in the ledger with its end.

    A job of a killed process ended with it. If the store gave a job away because its worker was silent for a whole
    lease, as on a machine that is far too busy, the execution counts until then.
    """
    died = {kill.pid: kill.at for kill in kills}
    lost = {id: [event.at / 1000 for event in events if event.kind == "lost"] for id, events in past.items()}
    traces: dict[tuple[int, str], list[Line]] = defaultdict(list)
    for line in lines:
        traces[line.pid, line.job].append(line)
    found = []
    for (pid, name), trace in traces.items():
        for line, following in zip(trace, [*trace[1:], None], strict=True):
            if line.what != "start":
                continue
            ends = [died.get(pid, math.inf), *(at for at in lost.get(name.partition("/")[0], ()) if at > line.at)]
            if following is not None:
                ends.append(following.at)
            found.append(Execution(name, line.at, max(line.at, min(ends))))
    return sorted(found, key=lambda one: one.start)


def most_at_once(runs: Iterable[Execution]) -> int:
    """How many of them were under way at the same moment. One that starts when another ends is not beside it."""
    steps = sorted(step for run in runs for step in ((run.start, 1), (run.end, -1)))
    most = now = 0
    for _, change in steps:
        now += change
        most = max(most, now)
    return most


def check_rate(moments: Iterable[int], rate: Rate) -> None:
    """No burst above the rate's own between any two of these instants (ms)."""
    every = rate.every / 1000
    base = -math.inf
    for place, at in enumerate(sorted(moments)):
        allowed = base + (place + 1 - rate.burst) * every
        assert at >= allowed - 1, f"number {place} started at {at} ms, {allowed - at:.1f} ms before the rate allows it"
        base = max(base, at - place * every)
