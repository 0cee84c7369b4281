"""Charts, read from the sheets that workers write. Slots of time that are over are added up once per process
and kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from windlass.console.desk import Desk, now_ms
from windlass.console.replies import Chart, Point
from windlass.core.chart import (
    HOURS,
    KEPT,
    MINUTE,
    MINUTES,
    SPANS,
    Series,
    Sheet,
    add,
    decode_sheet,
    merge,
    quantile,
    sheet_key,
    slot_of,
)
from windlass.core.hints import did_you_mean
from windlass.errors import ConfigError
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store
from windlass.store.items import Item

LATE = 30_000
"""So long after its end (ms) a slot may still change: workers write every few seconds."""

PAGES = 50
"""Pages of sheets that are read at once, the newest first."""

CHARTS: dict[str, tuple[str, int]] = {
    "15m": (MINUTES, 15),
    "1h": (MINUTES, 60),
    "4h": (MINUTES, 239),
    "24h": (HOURS, 24),
    "7d": (HOURS, 168),
}
"""A span: its shelf, and how many slots of that. A shelf keeps what the longest needs."""

Triple = tuple[float | None, float | None, float | None]
Wanted = Callable[[Series], bool]


class SlotSums(NamedTuple):
    """What all workers counted in one slot of time. ``at``: when the slot began."""

    at: int
    sheet: Sheet
    open: bool


class ClosedSlots:
    """The closed slots of one shelf from ``low`` up to ``high``, exclusive, as far as this process has read them."""

    def __init__(self) -> None:
        self.closed: dict[int, Sheet] = {}
        self.low = self.high = 0


async def slots_of(desk: Desk, shelf: str, count: int) -> list[SlotSums]:
    """The last slots of a shelf, oldest first, with the open one."""

    async def read() -> list[SlotSums]:
        return await _read(desk, shelf, count)

    return await desk.shared.ask(f"{shelf} {count}", read)


async def _read(desk: Desk, shelf: str, count: int) -> list[SlotSums]:
    span, now = SPANS[shelf], now_ms()
    last = now // span * span
    first = last - (count - 1) * span
    book: ClosedSlots = desk.shared.lasting.setdefault(shelf, ClosedSlots())
    store = await desk.store()
    open_sheets = await _fill(store, book, shelf, first, now)
    return [
        SlotSums(at, book.closed.get(at) or open_sheets.get(at) or Sheet([]), open=at + span > now)
        for at in range(first, last + 1, span)
    ]


async def _fill(store: Store, book: ClosedSlots, shelf: str, first: int, now: int) -> dict[int, Sheet]:
    """Read the slots that are not known yet. The open slot is answered and not kept."""
    span = SPANS[shelf]
    anew = book.high <= book.low or first < book.low
    since = first if anew else book.high
    found, whole = await _sheets(store, shelf, since)
    merged = {at: merge(sheets) for at, sheets in found.items()}
    over = (now - LATE) // span * span
    # Other requests may have read too meanwhile; what is written here is right for the whole range it names.
    if whole and (anew or book.high >= since):
        closed = {at: sheet for at, sheet in merged.items() if at < over}
        oldest = now - KEPT[shelf] - span
        kept = {} if anew else {at: sheet for at, sheet in book.closed.items() if at >= oldest}
        book.closed, book.low = kept | closed, first if anew else book.low
        book.high = over if anew else max(book.high, over)
    return merged


async def _sheets(store: Store, shelf: str, since: int) -> tuple[dict[int, list[Sheet]], bool]:
    """The sheets of slots from an instant on, and whether these are all; there is a bound."""
    found: dict[int, list[Sheet]] = {}
    after, until = sheet_key(since, ""), ""
    for _ in range(PAGES):
        items = await store.shelf(shelf, after, until, MAX_BATCH, newest_first=True)
        for item in items:
            _put(found, item)
        if len(items) < MAX_BATCH:
            return found, True
        until = items[-1].key
    return found, False


def _put(found: dict[int, list[Sheet]], item: Item) -> None:
    # A sheet that cannot be read was written by another version.
    with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
        found.setdefault(slot_of(item.key), []).append(decode_sheet(item.body))


# -- drawing


async def chart(desk: Desk, span: str, queue: str = "", task: str = "") -> Chart:
    desk.need("read")
    if span not in CHARTS:
        raise ConfigError(f"span is {span!r}{did_you_mean(span, CHARTS)}; one of {', '.join(CHARTS)}")
    shelf, count = CHARTS[span]

    def wanted(series: Series) -> bool:
        fits = (not queue or series.queue == queue) and (not task or series.task == task)
        return fits and desk.access.sees(series.queue)

    return draw(SPANS[shelf], await slots_of(desk, shelf, count), wanted, now_ms())


def draw(span: int, slots: Iterable[SlotSums], wanted: Wanted, now: int) -> Chart:
    """A chart of the series that are wanted."""
    points: list[Point] = []
    total, wait, run = dict[str, int](), list[int](), list[int]()
    for slot in slots:
        series = [one for one in slot.sheet.series if wanted(one)]
        point, waits, runs = _point(slot, series, max(min(now - slot.at, span), 1))
        points.append(point)
        wait, run = add(wait, waits), add(run, runs)
        for event, count in point.counts.items():
            total[event] = total.get(event, 0) + count
    return Chart(span=span, points=points, counts=total, wait=_triple(wait), run=_triple(run))


def _point(slot: SlotSums, series: list[Series], lasted: int) -> tuple[Point, list[int], list[int]]:
    counts, wait, run = dict[str, int](), list[int](), list[int]()
    for one in series:
        for event, count in one.counts.items():
            counts[event] = counts.get(event, 0) + count
        wait, run = add(wait, one.wait), add(run, one.run)
    room = slot.sheet.slots * lasted
    busy = min(sum(one.run_ms for one in series) / room, 1.0) if room else None
    point = Point(at=slot.at, counts=counts, wait=_triple(wait), run=_triple(run), busy=busy, open=slot.open)
    return point, wait, run


def _triple(histogram: list[int]) -> Triple:
    return quantile(histogram, 0.5), quantile(histogram, 0.95), quantile(histogram, 0.99)


# -- what the rest of the console asks

DONE = ("succeeded", "failed", "cancelled", "skipped")
"""Events after which a job is over."""

SETTLED = (*DONE, "retried", "snoozed", "waiting")
"""Events that say something was done, if not to the end."""

MINUTES_LOOKED = 60


class Pace(NamedTuple):
    """How a queue went recently. ``quiet``: ms since a job of it ended, None where this is not counted.

    ``failed``: dead letters of the last ten minutes.
    """

    minute: dict[str, int]
    spark: list[int]
    quiet: int | None
    failed: int


SPARK, FAILED_MINUTES = 30, 10


async def paces(desk: Desk, names: Iterable[str]) -> dict[str, Pace]:
    """The pace of queues, from the minutes of the last hour."""
    slots = await slots_of(desk, MINUTES, MINUTES_LOOKED)
    now, counted = now_ms(), any(slot.sheet.series for slot in slots)
    by_slot = [_by_queue(slot.sheet) for slot in slots]
    return {name: _pace(name, slots, by_slot, now, counted) for name in names}


def _by_queue(sheet: Sheet) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for series in sheet.series:
        counts = found.setdefault(series.queue, {})
        for event, count in series.counts.items():
            counts[event] = counts.get(event, 0) + count
    return found


def _pace(name: str, slots: list[SlotSums], by_slot: list[dict[str, dict[str, int]]], now: int, counted: bool) -> Pace:
    counts = [of_slot.get(name, {}) for of_slot in by_slot]
    over = [sum(one.get(event, 0) for event in DONE) for one in counts]
    last = next(
        (slots[place].at for place in range(len(slots) - 1, -1, -1) if any(counts[place].get(e) for e in SETTLED)), 0
    )
    quiet = (max(now - last - MINUTE, 0) if last else MINUTES_LOOKED * MINUTE) if counted else None
    minute = counts[-2] if len(counts) > 1 else {}
    return Pace(
        {event: minute[event] for event in DONE if minute.get(event)},
        over[-SPARK:], quiet, sum(one.get("failed", 0) for one in counts[-FAILED_MINUTES:]),
    )  # fmt: skip
