"""Sums that engines keep, compared with what they are sums of: totals with events, faults with records."""

from __future__ import annotations

from collections import Counter, defaultdict

from windlass.core.event import Event
from windlass.core.job import State
from windlass.store.reads import Fault
from windlass.testing.conformance.bench import Bench

UNCOUNTED = ("progress", "log")
HIDDEN = ("probes", "markers")
"""Queues of the bench itself."""

Sums = dict[tuple[str, str, str], int]
"""By kind, queue and task."""


async def totals_of(bench: Bench) -> Sums:
    """The totals as the store answers them; they must be in order and above 0."""
    found = await bench.store.totals()
    names = [(one.queue, one.task, one.kind) for one in found]
    assert names == sorted(set(names)), "by queue, task and kind, each once"
    assert all(one.count > 0 for one in found), f"a total of nothing in {found}"
    return {(one.kind, one.queue, one.task): one.count for one in found if one.queue not in HIDDEN}


def counted(events: list[Event]) -> Sums:
    """The totals, added up from single events."""
    return dict(
        Counter(
            (event.kind, event.queue, event.task)
            for event in events
            if event.task and event.kind not in UNCOUNTED and not event.kind.startswith("workflow_")
        )
    )


async def faults_of(bench: Bench) -> list[Fault]:
    """The faults as the store answers them; they must agree with its dead letters."""
    letters: defaultdict[str, list[str]] = defaultdict(list)
    place: dict[str, int] = {}
    for n, job in enumerate(await bench.everything(states=(State.FAILED,), oldest_first=True)):
        letters[job.fingerprint].append(job.id)
        place[job.id] = n
    expected = [Fault(mark, len(ids), ids[-1]) for mark, ids in letters.items()]
    expected.sort(key=lambda fault: (fault.count, place[fault.newest]), reverse=True)
    found = await bench.store.faults()
    assert found == expected, f"faults {found}, dead letters {dict(letters)}"
    return found


async def check_sums(bench: Bench) -> None:
    """Compare both, for stores that have kept all their events."""
    assert await totals_of(bench) == counted(await bench.events())
    await faults_of(bench)
