"""What must hold after any fault, checked from three sides: the store's records, its events and the ledger.

The ledger is the truth about executions, the store about states. Every execution beyond the first must be explained by
an event that says the claim was lost or handed back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from tests.worker.helpers import Ledger, Line
from windlass import State, Windlass
from windlass.core.event import Event, expand
from windlass.core.job import Job

ENDS = frozenset({"succeeded", "failed", "cancelled", "skipped"})
AGAIN = frozenset({"lost", "released", "retried", "snoozed", "replayed"})


class Kill(NamedTuple):
    pid: int
    at: float


class Window(NamedTuple):
    """A time from which the store may have forgotten what it had written: a failover to a replica that was behind."""

    start: float
    end: float


class Report(NamedTuple):
    """What happened, for the figures."""

    jobs: int
    executions: int
    extra: int
    lost: int
    crashes: int
    exposures: int
    slowest_restart: float


async def records(app: Windlass, ids: list[str]) -> dict[str, Job | None]:
    store = (await app.client()).store
    found: dict[str, Job | None] = {}
    for start in range(0, len(ids), 500):
        part = ids[start : start + 500]
        found.update(zip(part, await store.get(part), strict=True))
    return found


async def histories(app: Windlass) -> dict[str, list[Event]]:
    """Every job's events, in order."""
    store = (await app.client()).store
    found: dict[str, list[Event]] = defaultdict(list)
    seq = 0
    while entries := await store.events(seq, 100):
        seq = entries[-1].seq
        for entry in entries:
            for event in expand(entry):
                found[event.job].append(event)
    return found


async def event_counts(app: Windlass) -> dict[str, Counter[str]]:
    """How often each kind of event happened to each job."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for id, events in (await histories(app)).items():
        counts[id] = Counter(event.kind for event in events)
    return counts


async def unfinished(app: Windlass) -> int:
    counts = await app.queue("default").counts()
    return sum(number for state, number in counts.items() if not State(state).terminal)


async def check(
    app: Windlass, ids: list[str], ledger: Ledger, kills: list[Kill], forgotten: Window | None = None
) -> Report:
    """Raises AssertionError with the job at fault.

    Of executions that began in a ``forgotten`` window the store need not know: they are not asked for an explanation.
    """
    found, past = await records(app, ids), await histories(app)
    events = {id: Counter(event.kind for event in past[id]) for id in ids}
    lines = ledger.lines("start")
    starts = Counter(line.job for line in lines)
    excused = Counter(line.job for line in lines if forgotten and forgotten.start <= line.at <= forgotten.end)
    assert not starts.keys() - set(ids), "a job from nowhere was run"
    for id in ids:
        job, kinds = found[id], events[id]
        assert job is not None, f"accepted and lost: {id}"
        assert job.state.terminal, f"stranded: {job}"
        assert not job.worker, f"over, and still held: {job}"
        ends = sum(kinds[kind] for kind in ENDS)
        assert ends == 1, f"{ends} ends: {id} {kinds}"
        assert starts[id] >= 1 or job.state is not State.SUCCEEDED, f"succeeded without a run: {id}"
        allowed = 1 + sum(kinds[kind] for kind in AGAIN)
        assert starts[id] - excused[id] <= allowed, f"{starts[id]} executions, {allowed} explained: {id} {kinds}"
    slow, exposures = restarts(ledger.lines(), past, kills)
    lost = sum(events[id]["lost"] for id in ids)
    crashes = sum(job.crashes for job in found.values() if job)
    return Report(len(ids), len(lines), len(lines) - len(starts), lost, crashes, exposures, slow)


def restarts(lines: list[Line], past: dict[str, list[Event]], kills: list[Kill]) -> tuple[float, int]:
    """The longest time from a kill to the next claim of a job it interrupted, and how many it interrupted."""
    by_pid: dict[int, dict[str, list[Line]]] = defaultdict(lambda: defaultdict(list))
    for line in sorted(lines, key=lambda line: line.at):
        by_pid[line.pid][line.job].append(line)
    slowest, exposures = 0.0, 0
    for kill in kills:
        for id, history in by_pid[kill.pid].items():
            before = [line for line in history if line.at < kill.at]
            if not before or before[-1].what != "start":
                continue
            exposures += 1
            after = [event.at / 1000 - kill.at for event in past[id] if event.kind == "started"]
            slowest = max(slowest, min((delay for delay in after if delay > 0), default=0.0))
    return slowest, exposures
