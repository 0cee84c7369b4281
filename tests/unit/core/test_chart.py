"""What workers count, by itself: histograms, sheets, the tracker, and how sheets come onto shelves."""

from __future__ import annotations

import logging
import random

import pytest

from windlass.core.chart import (
    BOUNDS,
    CELLS,
    HOUR,
    HOURS,
    MINUTE,
    MINUTES,
    Series,
    Sheet,
    add,
    cell,
    decode_sheet,
    encode_sheet,
    merge,
    quantile,
    sheet_key,
    slot_of,
)
from windlass.core.job import Claim
from windlass.errors import StoreError
from windlass.store.items import Commit, Committed, Put
from windlass.worker import sheet_writer, tracker
from windlass.worker.sheet_writer import SheetWriter
from windlass.worker.tracker import Tracker

AT = 1_800_000_000_000


def claim(task: str = "t", queue: str = "q", **fields: int) -> Claim:
    return Claim(
        id="j", task=task, version=1, queue=queue, priority=5, payload=b"{}", meta=b"{}", run=1, seq=1, attempt=0,
        crashes=0, snoozes=0, **{"epoch": 1, "enqueued_at": AT, "claimed_at": AT + 40, **fields},
    )  # fmt: skip


# -- histograms and sheets


def test_a_duration_falls_into_the_first_cell_whose_bound_it_is_within() -> None:
    assert [cell(ms) for ms in (0, 1, 2, 3, 1_000, 1_001, 10**9)] == [0, 0, 1, 2, 9, 10, CELLS - 1]
    assert [tracker._CELL[ms] for ms in range(1_000)] == [cell(ms) for ms in range(1_000)]


def test_a_quantile_grows_evenly_within_a_cell() -> None:
    histogram = [0] * CELLS
    assert quantile(histogram, 0.5) is None
    histogram[cell(200)] = 10  # from 100 to 250
    assert quantile(histogram, 0.5) == 175
    assert quantile(histogram, 1.0) == 250
    histogram[-1] = 90
    assert quantile(histogram, 0.99) == BOUNDS[-1], "at least that"


def test_a_quantile_is_within_the_cell_of_the_true_one() -> None:
    chance = random.Random(3)
    values = sorted(int(chance.lognormvariate(5, 2)) for _ in range(5_000))
    histogram = [0] * CELLS
    for value in values:
        histogram[cell(value)] += 1
    for part in (0.5, 0.95, 0.99):
        about = quantile(histogram, part)
        assert about is not None
        assert abs(cell(round(about)) - cell(values[int(part * len(values)) - 1])) <= 1


def test_sheets_of_any_workers_and_slots_can_be_added_in_any_order() -> None:
    one = Sheet([Series("q", "t", {"succeeded": 2}, [1] * CELLS, run_ms=10), Series("a", "t", {"failed": 1})], 5, 1)
    two = Sheet([Series("q", "t", {"succeeded": 1, "failed": 1}, [], [2] * CELLS, run_ms=5)], 7)
    assert merge([one, two]) == merge([two, one])
    whole = merge([one, two])
    assert [(series.queue, series.task) for series in whole.series] == [("a", "t"), ("q", "t")]
    assert whole.series[1].counts == {"succeeded": 3, "failed": 1}
    assert (whole.series[1].wait, whole.series[1].run) == ([1] * CELLS, [2] * CELLS)
    assert (whole.slots, whole.lost, whole.series[1].run_ms) == (12, 1, 15)
    assert one.series[0].counts == {"succeeded": 2}, "what is added is left as it was"
    assert merge([]) == Sheet([])
    assert decode_sheet(encode_sheet(whole)) == whole
    assert add([], []) == []


def test_keys_of_sheets_are_in_the_order_of_time() -> None:
    keys = [sheet_key(at, worker) for at in (0, MINUTE, AT) for worker in ("", "a", "z")]
    assert keys == sorted(keys)
    assert [slot_of(key) for key in keys[::3]] == [0, MINUTE, AT]


# -- the tracker


def test_runs_are_counted_with_how_long_they_waited_ran_and_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "monotonic", lambda: 100.0)
    found = Tracker(8)
    found.settled(claim(), "succeeded", began=99.8)
    found.settled(claim(), "retried", began=99.9)
    found.settled(claim(task="u"), "released", began=0)
    first, second = found.whole()
    assert (first.task, first.counts) == ("t", {"succeeded": 1, "retried": 1})
    assert (first.run_ms, first.wait_ms, first.whole_ms) in ((300, 80, 240), (299, 80, 240), (299, 80, 239))
    assert (sum(first.wait), sum(first.run), sum(first.whole)) == (2, 2, 1), "only what is over took its whole time"
    assert (second.task, second.counts, sum(second.run)) == ("u", {"released": 1}, 0), "it never began"


@pytest.mark.parametrize(
    ("fields", "waited"),
    [
        ({}, 40),
        ({"due_at": AT + 30}, 10),
        ({"epoch": 2}, None),
        ({"epoch": 2, "due_at": AT + 15}, 25),
        ({"claimed_at": 0}, None),
        ({"claimed_at": AT - 5}, None),
    ],
    ids=["enqueued", "due", "a later claim", "a retry", "an engine that does not say", "a clock that went back"],
)
def test_how_long_a_job_waited(fields: dict[str, int], waited: int | None) -> None:
    found = Tracker(1)
    found.settled(claim(**fields), "succeeded", began=1.0)
    (series,) = found.whole()
    assert (sum(series.wait), series.wait_ms) == ((0, 0) if waited is None else (1, waited))


def test_what_is_counted_stands_under_its_minute_and_its_hour() -> None:
    found, hour = Tracker(4), AT - AT % HOUR
    found.settled(claim(), "succeeded", 1.0)
    slots = found.fold(hour + 10)
    assert [(slot.shelf, slot.at) for slot in slots] == [(MINUTES, hour), (HOURS, hour)]
    found.settled(claim(), "failed", 1.0)
    found.lost = 2
    slots = found.fold(hour + MINUTE)
    assert [(slot.shelf, slot.at) for slot in slots] == [(MINUTES, hour), (MINUTES, hour + MINUTE), (HOURS, hour)]
    assert [sum(sum(one.counts.values()) for one in slot.sheet().series) for slot in slots] == [2, 0, 2]
    assert [slot.sheet().lost for slot in slots] == [2, 0, 2]
    found.settled(claim(), "failed", 1.0)
    back = found.fold(hour)
    assert [(slot.shelf, slot.at) for slot in back] == [(MINUTES, hour + MINUTE), (HOURS, hour)], "never goes back"
    assert sum(sum(one.counts.values()) for one in found.whole()) == 3


# -- onto the shelves


class Shelves:
    """The part of a store that charts use; ``away``: it cannot be reached."""

    def __init__(self) -> None:
        self.away = False
        self.items: dict[tuple[str, str], Put] = {}
        self.calls = 0

    async def commit(self, commits: list[Commit]) -> list[Committed]:
        self.calls += 1
        if self.away:
            raise StoreError("away")
        self.items |= {(put.shelf, put.key): put for step in commits for put in step.items}
        return [Committed(done=True) for _ in commits]

    def counted(self, shelf: str) -> list[int]:
        sheets = [decode_sheet(put.body or b"") for (name, _), put in sorted(self.items.items()) if name == shelf]
        return [sum(sum(one.counts.values()) for one in sheet.series) for sheet in sheets]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [AT / 1000 - AT / 1000 % 3600]
    monkeypatch.setattr(sheet_writer.time, "time", lambda: now[0])
    return now


async def test_a_sheet_is_written_over_itself_and_only_when_it_changed(clock: list[float]) -> None:
    store, found = Shelves(), Tracker(2)
    written = SheetWriter(store, found, "w")  # type: ignore[arg-type]
    await written.write()
    assert store.counted(MINUTES) == [0], "an idle worker is told of as well"
    await written.write()
    assert store.calls == 1
    for _ in range(2):
        found.settled(claim(), "succeeded", 1.0)
        clock[0] += 5
        await written.write()
    assert (store.counted(MINUTES), store.counted(HOURS)) == ([2], [2])
    clock[0] += 60
    found.settled(claim(), "succeeded", 1.0)
    await written.write()
    await written.write()
    assert (sum(store.counted(MINUTES)), store.counted(HOURS)) == (3, [3])


async def test_a_store_that_is_away_loses_nothing_and_is_told_of_once(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    store, found = Shelves(), Tracker(2)
    written = SheetWriter(store, found, "w")  # type: ignore[arg-type]
    store.away = True
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            found.settled(claim(), "succeeded", 1.0)
            await written.write()
            clock[0] += 60
    assert len(caplog.records) == 1
    store.away = False
    await written.write()
    assert sum(store.counted(MINUTES)) == 5
    assert store.counted(HOURS) == [5]


async def test_only_so_many_sheets_wait(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet_writer, "MOST", 4)
    store, found = Shelves(), Tracker(2)
    written = SheetWriter(store, found, "w")  # type: ignore[arg-type]
    store.away = True
    for _ in range(9):
        found.settled(claim(), "succeeded", 1.0)
        await written.write()
        clock[0] += 60
    assert len(written._due) == 4


def test_it_writes_every_few_seconds_and_at_the_end_of_each_minute() -> None:
    assert sheet_writer._pause(600.0) == sheet_writer.EVERY
    assert sheet_writer._pause(659.0) == pytest.approx(1.001)
