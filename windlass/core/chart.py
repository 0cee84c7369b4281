"""Charts: what workers count of the jobs they ran, by minute and by hour, and how those counts are added up.

Each worker keeps one *sheet* for the minute and one for the hour, and writes each repeatedly under its own key. So a
sheet that is sent twice counts once, and the store adds nothing up: readers add the sheets of all workers. Histograms
have fixed bounds, so that any two can be added.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

MINUTES, HOURS = "minutes", "hours"
"""The shelves."""

MINUTE, HOUR = 60_000, 3_600_000
SPANS = {MINUTES: MINUTE, HOURS: HOUR}
KEPT = {MINUTES: 4 * HOUR, HOURS: 8 * 24 * HOUR}
"""How long a shelf keeps a sheet, in ms."""

BOUNDS = (
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000, 3_600_000,
)  # fmt: skip
"""Upper bounds of the cells of a histogram in ms, inclusive; one more cell has what is above."""

CELLS = len(BOUNDS) + 1
MOST_SERIES = 500
"""Series of one sheet. Where names of tasks are made up by callers there is no end to them."""

OTHER = "(other)"
"""The task of what is counted together, because there is too much of it to be told apart."""

EVENTS = ("succeeded", "failed", "retried", "snoozed", "cancelled", "released", "waiting", "skipped")
"""What a run can come to, as transitions name it."""


class Series(msgspec.Struct, omit_defaults=True):
    """The runs of one task in one queue. ``wait``: until the claim; ``run``: the task's own code; ``whole``: from the
    enqueue to the job's end, counted for ended jobs only. ``run_ms`` is the sum of the run times, that is, of slots in
    use.
    """

    queue: str
    task: str
    counts: dict[str, int] = {}
    wait: list[int] = []
    run: list[int] = []
    whole: list[int] = []
    wait_ms: int = 0
    run_ms: int = 0
    whole_ms: int = 0


class Sheet(msgspec.Struct, omit_defaults=True):
    """What one worker counted in one slot of time. ``slots``: how many jobs it could run at once."""

    series: list[Series] = []
    slots: int = 0
    lost: int = 0


def cell(ms: int) -> int:
    """The number of the histogram cell a duration falls in."""
    return bisect_left(BOUNDS, ms)


def sheet_key(slot: int, worker: str) -> str:
    """The key of a sheet, which sorts by time; ``slot`` is the instant the sheet begins."""
    return f"{slot:013d}/{worker}"


def slot_of(key: str) -> int:
    return int(key[:13])


def add(histogram: list[int], other: Sequence[int]) -> list[int]:
    """The sum of two histograms. The empty list is an empty histogram."""
    if not other:
        return histogram
    if not histogram:
        return list(other)
    return [one + two for one, two in zip(histogram, other, strict=True)]


def merge(sheets: Iterable[Sheet]) -> Sheet:
    """The sum of the sheets of several workers or times; its series are ordered by queue and task."""
    whole = Sheet([])
    found: dict[tuple[str, str], Series] = {}
    for sheet in sheets:
        whole.slots += sheet.slots
        whole.lost += sheet.lost
        for series in sheet.series:
            into = found.setdefault((series.queue, series.task), Series(series.queue, series.task, {}))
            add_series(into, series)
    whole.series = [found[name] for name in sorted(found)]
    return whole


def add_series(into: Series, series: Series) -> None:
    for event, count in series.counts.items():
        into.counts[event] = into.counts.get(event, 0) + count
    into.wait, into.run = add(into.wait, series.wait), add(into.run, series.run)
    into.whole = add(into.whole, series.whole)
    into.wait_ms += series.wait_ms
    into.run_ms += series.run_ms
    into.whole_ms += series.whole_ms


def fold(series: Iterable[Series], most: int = MOST_SERIES) -> list[Series]:
    """At most about ``most`` series: those with the most runs stay, the others of a queue are added together."""
    known = list(series)
    if len(known) <= most:
        return known
    known.sort(key=lambda one: -sum(one.counts.values()))
    rest: dict[str, Series] = {}
    for one in known[most:]:
        add_series(rest.setdefault(one.queue, Series(one.queue, OTHER, {})), one)
    return [*known[:most], *rest.values()]


def quantile(histogram: Sequence[int], part: float) -> float | None:
    """The duration, in ms, within which this part of all stayed; None for an empty histogram.

    Within a cell durations are taken to be spread evenly. Those above the last bound count as that bound.
    """
    total = sum(histogram)
    if not total:
        return None
    rank, seen = part * total, 0
    for place, count in enumerate(histogram):
        if count and seen + count >= rank:
            low = BOUNDS[place - 1] if place else 0
            high = BOUNDS[place] if place < len(BOUNDS) else low
            return low + (high - low) * max(0.0, rank - seen) / count
        seen += count
    return float(BOUNDS[-1])


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Sheet)


def encode_sheet(sheet: Sheet) -> bytes:
    return _encoder.encode(sheet)


def decode_sheet(body: bytes) -> Sheet:
    return _decoder.decode(body)
