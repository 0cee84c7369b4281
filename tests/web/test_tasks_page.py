"""Tasks in numbers: how often, how well and how quickly each runs, in any order, and bounded."""

from __future__ import annotations

import re

import pytest

from tests.web.kit import bearer, dashboard, hand, visiting
from windlass import Windlass
from windlass.console import Console
from windlass.console.desk import now_ms
from windlass.core.access import make_access
from windlass.core.chart import (
    CELLS,
    MINUTE,
    MINUTES,
    MOST_SERIES,
    OTHER,
    Series,
    Sheet,
    cell,
    decode_sheet,
    encode_sheet,
    fold,
    sheet_key,
)  # fmt: skip
from windlass.errors import ConfigError
from windlass.store.items import Put, put_all
from windlass.web.sorting import Sort
from windlass.worker.tracker import OpenSheet


def histogram(**at: int) -> list[int]:
    """``_25=3``: three of up to 25 ms."""
    found = [0] * CELLS
    for ms, count in at.items():
        found[cell(int(ms[1:]))] += count
    return found


def a_sheet(*series: Series) -> Sheet:
    return Sheet(list(series), slots=4)


SEND = Series("mail", "mail.send", {"succeeded": 95, "failed": 5, "retried": 9}, histogram(_5=109), histogram(_25=109))
CHARGE = Series("bill", "bill.charge", {"succeeded": 20}, histogram(_1000=20), histogram(_5000=20))


async def put(app: Windlass, **sheets: Sheet) -> None:
    """Sheets by how many minutes ago they began: ``_2``."""
    now = now_ms() // MINUTE * MINUTE
    items = []
    for back, sheet in sheets.items():
        key = sheet_key(now - int(back[1:]) * MINUTE, "gone")
        items.append(Put(shelf=MINUTES, key=key, body=encode_sheet(sheet), ttl=90 * MINUTE))
    await put_all((await app.client()).store, items)


async def test_what_workers_counted_is_told_by_task(any_app: Windlass) -> None:
    await put(any_app, _4=a_sheet(SEND, CHARGE), _2=a_sheet(SEND))
    console = Console(any_app)
    rows = {row.name: row.numbers for row in await console.tasks("15m")}
    sent, charged, idle = rows["mail.send"], rows["bill.charge"], rows["mail.digest"]
    assert sent is not None
    assert (sent.over, sent.failed, sent.retried) == (200, 10, 18)
    assert sent.failing == pytest.approx(0.05)
    assert sent.per_minute == pytest.approx(50)  # since four minutes ago, when somebody began to count
    assert sent.spark[-4:] == [100, 0, 100, 0]
    assert 10 < (sent.run_p50 or 0) <= 25 >= (sent.run_p95 or 0)
    assert 2 < (sent.wait_p50 or 0) <= 5
    assert charged is not None
    assert charged.wait_p95 == pytest.approx(975)
    assert idle is not None
    assert (idle.over, idle.run_p50, idle.spark) == (0, None, [])
    assert [row.numbers for row in await console.tasks()] == [None] * 3
    with pytest.raises(ConfigError, match="did you mean"):
        await console.tasks("24")


async def test_numbers_of_queues_out_of_scope_are_not_added(app: Windlass) -> None:
    await put(app, _2=a_sheet(SEND, Series("bill", "mail.send", {"succeeded": 1000})))
    [row] = [
        row for row in await Console(app, make_access("bob", ["read"], ["mail"])).tasks("1h") if row.name == "mail.send"
    ]
    assert row.numbers is not None
    assert row.numbers.over == 100
    [row] = [row for row in await Console(app).tasks("1h") if row.name == "mail.send"]
    assert row.numbers is not None
    assert row.numbers.over == 1100


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("", "bill.charge"),
        ("-name", "mail.send"),
        ("rate", "mail.send"),
        ("failed", "mail.send"),
        ("failing", "mail.send"),
        ("run", "bill.charge"),
        ("-run", "mail.send"),
        ("wait95", "bill.charge"),
        ("-wait95", "mail.send"),
        ("nonsense", "bill.charge"),
    ],
)
async def test_the_table_is_sorted_by_links(app: Windlass, sort: str, first: str) -> None:
    await put(app, _2=a_sheet(SEND, CHARGE))
    async with visiting(dashboard(app, {"ann": ["*"]}), headers=bearer("ann")) as visitor:
        text = (await visitor.get("/tasks", params={"sort": sort})).text
    assert re.findall(r'<tr data-key="([^"]+)"', text)[0] == first
    column = Sort.read(sort).column
    assert text.count('aria-sort="ascending"') + text.count('aria-sort="descending"') == 1
    assert re.search(rf'aria-sort="(a|de)scending"[^>]*><a href="[^"]*sort=-?{column}"', text)


def test_a_second_press_turns_the_order() -> None:
    assert Sort.read("rate").next("rate") == "-rate"
    assert Sort.read("-rate").next("rate") == "rate"
    assert Sort.read("-rate").next("run") == "run"
    assert (Sort.read("rate").aria("rate"), Sort.read("").aria("name")) == ("descending", "ascending")


def test_a_sheet_is_bounded_and_loses_no_count() -> None:
    slot = OpenSheet(MINUTES, 0, 4)
    many = [Series("q", f"t{n}", {"succeeded": n + 1}, run_ms=1) for n in range(MOST_SERIES + 100)]
    slot.add(many, 0)
    sheet = decode_sheet(encode_sheet(slot.sheet()))
    assert len(sheet.series) == MOST_SERIES + 1
    [other] = [series for series in sheet.series if series.task == OTHER]
    assert (other.queue, other.counts) == ("q", {"succeeded": sum(range(1, 101))})
    assert sum(one.counts["succeeded"] for one in sheet.series) == sum(one.counts["succeeded"] for one in many)
    assert fold(many[:3]) == many[:3]


async def test_what_is_not_told_apart_has_a_row(app: Windlass) -> None:
    await put(app, _2=a_sheet(SEND, Series("mail", OTHER, {"succeeded": 7})))
    await hand((await app.client()).store, app).start()
    rows = await Console(app).tasks("1h")
    assert rows[-1].name == OTHER
    async with visiting(dashboard(app, {"ann": ["*"]}), headers=bearer("ann")) as visitor:
        assert "all others" in (await visitor.get("/tasks")).text
