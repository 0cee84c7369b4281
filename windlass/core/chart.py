"""Charts: what workers count of the jobs they ran, by the minute and by the hour, and how it is added up.

A worker keeps a *sheet* for the minute and one for the hour and writes them over and over under its own key, so that a
sheet sent twice counts once and nothing has to be added up in the store. Readers add the sheets of all workers.
Histograms have fixed bounds, so that any of them can be added to any other.
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
    """The runs of one task in one queue. ``wait``: until it was claimed, ``run``: its own code, ``whole``: from being
    enqueued to its end, only of jobs that are over. ``run_ms`` is the sum of the run times: slots in use.
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
    """Which cell of a histogram a duration falls in."""
    return bisect_left(BOUNDS, ms)


def sheet_key(slot: int, worker: str) -> str:
    """Sheets are ordered by time; ``slot`` is the instant it begins."""
    return f"{slot:013d}/{worker}"


def slot_of(key: str) -> int:
    return int(key[:13])


def add(histogram: list[int], other: Sequence[int]) -> list[int]:
    """Both together. The empty list is an empty histogram."""
    if not other:
        return histogram
    if not histogram:
        return list(other)
    return [one + two for one, two in zip(histogram, other, strict=True)]


def merge(sheets: Iterable[Sheet]) -> Sheet:
    """The sheets of several workers, or of several slots, as one; its series are ordered by queue and task."""
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
    """At most about so many series: those with the most runs stay, others are counted together, by queue."""
    known = list(series)
    if len(known) <= most:
        return known
    known.sort(key=lambda one: -sum(one.counts.values()))
    rest: dict[str, Series] = {}
    for one in known[most:]:
        add_series(rest.setdefault(one.queue, Series(one.queue, OTHER, {})), one)
    return [*known[:most], *rest.values()]


def quantile(histogram: Sequence[int], part: float) -> float | None:
    """About the duration, in ms, that so large a part of all stayed within; None where there is none.

    Within a cell it is taken to grow evenly. What is above the last bound counts as that bound: it is at least that.
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
