"""A workflow over time: for each box of its picture when it waited, when it ran, and whether it is on the critical
path.

The critical path is read backwards: from the node that ended last to the one of its sources that ended last, and so on.
Only a faster node on it makes the workflow end sooner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.console import show
from windlass.console.workflow_replies import Bar
from windlass.core.job import State
from windlass.workflows.picture import Drawn

MOST_BARS = 200


def waterfall(drawn: Sequence[Drawn], keys: Sequence[str], now: int, culprit: str = "") -> tuple[list[Bar], int]:
    """The rows in the order they started, and how many are left out. ``keys``: the key that unfolds a box of
    many jobs.
    """
    ends, over = [end_of(one, now) for one in drawn], [end_of(one, 0) for one in drawn]
    path = critical_path(drawn, ends)
    bars = []
    for number, one in enumerate(drawn):
        if not one.label:
            continue  # a join takes no time
        since = [over[source] for source in one.sources]
        bars.append(_bar(one, keys[number], since, ends[number], number in path, culprit))
    bars.sort(key=lambda bar: (bar.start or bar.wait or now, not bar.critical))
    # If there are too many, those on the critical path come first.
    kept = sorted(bars, key=lambda bar: not (bar.critical or bar.culprit))[:MOST_BARS]
    chosen = set(map(id, kept))
    return [bar for bar in bars if id(bar) in chosen], len(bars) - len(kept)


def end_of(one: Drawn, now: int) -> int:
    """When the last of its jobs ended; now while one runs, 0 if one has not begun."""
    ends = [job.finished_at or (now if job.state is State.RUNNING else 0) for job in one.jobs]
    return 0 if not ends or 0 in ends else max(ends)


def critical_path(drawn: Sequence[Drawn], ends: Sequence[int]) -> set[int]:
    """Positions in the list, from the box that ended last back to one that waited for none."""
    place = max(range(len(drawn)), key=lambda number: (ends[number], number), default=-1)
    path, seen = set[int](), set[int]()
    while place >= 0 and ends[place] and place not in seen:
        seen.add(place)
        if any(job.started_at for job in drawn[place].jobs):  # no job waits for a skipped one
            path.add(place)
        place = max(drawn[place].sources, key=lambda source: ends[source], default=-1)
    return path


def _bar(one: Drawn, key: str, since: Sequence[int], end: int, critical: bool, culprit: str) -> Bar:
    jobs = one.jobs
    first = jobs[0]
    starts = [job.started_at for job in jobs if job.started_at]
    start = min(starts, default=0)
    wait = max([*since, min(max(job.enqueued_at, job.due_at if not job.attempt else 0) for job in jobs)])
    if not start and (0 in since or one.state.terminal):
        wait = 0  # its sources have not ended, or it was never to start, so it does not wait for a worker
    many = len(jobs) > 1
    return Bar(
        id="" if many else first.id, group=key, label=show.one_line(first.task), state=str(one.state),
        folded=len(jobs) if many else 0,
        states={str(state): count for state, count in Counter(job.state for job in jobs).most_common()} if many else {},
        wait=min(wait, start) if start else wait, start=start, end=end if start else 0, critical=critical,
        culprit=not many and first.id == culprit,
    )  # fmt: skip
