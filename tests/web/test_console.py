"""The console where no request reaches: searches that stop half way, bulk actions, charts, shared reads, audit."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.web.console_kit import console, fill, store
from tests.web.kit import audited, everything, make_app, new_job, populate, states
from windlass import ConfigError, Windlass
from windlass.console import Console
from windlass.console.audit import KEPT, SHELF, bounded
from windlass.console.charts import chart as draw_chart
from windlass.console.desk import MOST_ROWS, Desk, now_ms
from windlass.console.recent_reads import shared_of
from windlass.core.access import EVERYTHING, make_access
from windlass.core.chart import CELLS, HOURS, MINUTE, MINUTES, Series, Sheet, cell, encode_sheet, sheet_key
from windlass.core.health import QueueFacts, flow_of, in_words, is_well
from windlass.core.job import State
from windlass.errors import Forbidden, JobLost, NotFound
from windlass.store.base import Store
from windlass.store.items import Put, put_all
from windlass.testing import Harness

__all__ = ["console", "store"]


# -- in bulk


@pytest.mark.parametrize("action", ["retry", "cancel", "delete", "promote"])
@pytest.mark.parametrize("filter", ["", "queue:mail", "task:mail.*", "args.to:ann", "state:failed,ready", "id:done-1"])
async def test_a_count_is_what_an_action_then_changes(
    app: Windlass, console: Console, action: str, filter: str
) -> None:
    await populate(app)
    expected = (await console.count(filter, action)).count
    changed: list[str] = []
    skipped: dict[str, str] = {}
    after = ""
    while True:
        step = await console.bulk(action, filter, after, limit=2)
        changed += step.changed
        skipped |= step.skipped
        after = step.cursor
        if not after:
            break
    assert len(changed) == len(set(changed)) == step.count
    assert len(changed) + len(skipped) == expected
    members = [job.graph for job in await (await app.client()).store.get(list(skipped)) if job is not None]
    assert all(members)  # only a workflow may have an opinion of its own


async def test_one_record_for_all_steps(app: Windlass, console: Console, store: Store) -> None:
    await fill(store, 60)
    first = await console.bulk("cancel", "args.even:true", limit=10)
    assert (len(first.changed), first.count) == (10, 10)
    with pytest.raises(ConfigError, match="cursor"):
        await console.bulk("delete", "args.even:true", first.cursor)
    with pytest.raises(ConfigError, match="cursor"):
        await console.bulk("cancel", "args.even:false", first.cursor)
    with pytest.raises(ConfigError, match="cursor"):
        await Console(app, make_access("bob", ["*"])).bulk("cancel", "args.even:true", first.cursor)
    step = first
    while step.cursor:
        step = await console.bulk("cancel", "args.even:true", step.cursor, limit=10)
    assert step.count == 30
    records = [one for one in await audited(store) if one["outcome"] == "done"]
    assert [(one["action"], one["target"], one["count"]) for one in records] == [("bulk cancel", "args.even:true", 30)]


async def test_purging_a_queue_in_steps(console: Console, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.console.controls.STEPS", 1)
    monkeypatch.setattr("windlass.console.controls.MAX_BATCH", 10)
    await fill(store, 60)
    deleted, calls = 0, 0
    while True:
        step = await console.purge_queue("bill", "bill")
        deleted, calls = deleted + step.count, calls + 1
        if not step.cursor:
            break
    assert deleted == 20
    assert calls >= 2
    assert await states(store, "j0", "j1") == [None, State.READY]
    with pytest.raises(ConfigError, match="type its name"):
        await console.purge_queue("bill", "mail")


async def test_ids_that_are_not_there_or_not_in_the_right_state(console: Console, app: Windlass) -> None:
    world = await populate(app)
    changed = await console.retry(["failed-1", "ready-1", "none", world.flow, "failed-1"])
    assert changed.changed == ["failed-1"]
    assert changed.skipped["none"] == changed.skipped[world.flow] == "no such job"
    assert "ready-1" in changed.skipped
    with pytest.raises(ConfigError, match="from 1 to"):
        await console.retry([])
    with pytest.raises(JobLost):
        await console.job(world.flow)


# -- editing


async def test_an_edit_with_redaction(app: Windlass, store: Store) -> None:
    deep = {"to": "a", "password": "p1", "nested": [{"password": "p2", "x": 1}, {"password": "p3"}]}
    await store.insert([new_job("one", payload=msgspec.json.encode(deep))])
    console = Console(app, make_access("ann", ["*"], redact=["PASS*"]))
    shown = msgspec.json.decode((await console.job("one")).args.text)
    assert shown["password"] == shown["nested"][1]["password"] == "[redacted]"
    shown["nested"][0]["x"] = 2
    shown["nested"].append({"password": "[redacted]"})
    await console.edit("one", shown)
    (job,) = await store.get(["one"])
    assert job is not None
    kept = msgspec.json.decode(job.payload)
    assert kept["password"] == "p1"
    assert kept["nested"] == [{"password": "p2", "x": 2}, {"password": "p3"}, {"password": "[redacted]"}]
    await console.edit("one", {"to": "b", "password": "new", "nested": "[redacted]"})
    (job,) = await store.get(["one"])
    assert job is not None
    assert msgspec.json.decode(job.payload) == {"to": "b", "password": "new", "nested": "[redacted]"}


# -- charts


async def test_a_chart_adds_up_what_workers_wrote(app: Windlass, console: Console, store: Store) -> None:
    slot = now_ms() // MINUTE * MINUTE - 5 * MINUTE
    waits = [0] * CELLS
    waits[cell(100)] = 10
    mail = Series("mail", "mail.send", {"succeeded": 9, "failed": 1}, waits, waits, run_ms=30_000)
    bill = Series("bill", "bill.charge", {"succeeded": 5})
    await put_all(store, [
        Put(shelf=MINUTES, key=sheet_key(slot, "w1"), body=encode_sheet(Sheet([mail, bill], slots=1))),
        Put(shelf=MINUTES, key=sheet_key(slot, "w2"), body=encode_sheet(Sheet([mail], slots=1))),
        Put(shelf=MINUTES, key=sheet_key(slot - 30 * MINUTE, "w1"), body=encode_sheet(Sheet([bill], slots=1))),
        Put(shelf=MINUTES, key=sheet_key(slot, "w3"), body=b"not a sheet"),
        Put(shelf=HOURS, key="broken", body=b"{}"),
    ])  # fmt: skip
    whole = await console.chart("15m")
    assert len(whole.points) == 15
    assert whole.counts == {"succeeded": 23, "failed": 2}
    (point,) = [point for point in whole.points if point.counts]
    assert (point.at, point.open, point.busy) == (slot, False, 0.5)
    assert [each.open for each in whole.points] == [False] * 14 + [True]
    low, middle, high = whole.wait
    assert low is not None
    assert middle is not None
    assert high is not None
    assert 50 < low < middle < high <= 100
    assert (await console.chart("15m", queue="bill")).counts == {"succeeded": 5}
    assert (await console.chart("15m", task="mail.send")).counts == {"succeeded": 18, "failed": 2}
    assert (await console.chart("1h")).counts == {"succeeded": 28, "failed": 2}
    scoped = Desk(app, make_access("bob", ["read"], ["bill"]), "code")
    assert (await draw_chart(scoped, "15m")).counts == {"succeeded": 5}
    assert (await console.chart("24h")).counts == {}
    with pytest.raises(ConfigError, match="did you mean '15m'"):
        await console.chart("15min")


# -- health in words


@pytest.mark.parametrize(
    ("facts", "flow", "well"),
    [
        (QueueFacts(), "idle", True),
        (QueueFacts(draining=True), "draining", True),
        (QueueFacts(paused=True, ready=9, oldest_ready=10**9), "paused", True),
        (QueueFacts(ready=1, oldest_ready=1_000), "no_worker", True),
        (QueueFacts(ready=1, oldest_ready=31_000), "no_worker", False),
        (QueueFacts(ready=1, oldest_ready=1_000, workers=1, slots=4), "flowing", True),
        (QueueFacts(ready=1, oldest_ready=61_000, workers=1, slots=4), "stuck", False),
        (QueueFacts(ready=1, oldest_ready=61_000, workers=1, slots=4, quiet=1_000), "flowing", True),
        (QueueFacts(ready=1, oldest_ready=61_000, workers=1, slots=4, quiet=61_000), "stuck", False),
        (QueueFacts(ready=1, oldest_ready=61_000, workers=1, slots=4, busy=4, quiet=61_000), "saturated", True),
        (QueueFacts(ready=1, oldest_ready=601_000, workers=1, slots=4, busy=4, quiet=601_000), "stuck", False),
        (QueueFacts(ready=1, oldest_ready=601_000, workers=1, slots=4, busy=4), "saturated", True),
        (QueueFacts(ready=1, oldest_ready=61_000, workers=1, slots=4, held=True, quiet=61_000), "saturated", True),
        (QueueFacts(running=1, workers=1, slots=4, busy=1), "flowing", True),
        (QueueFacts(running=1, draining=True, workers=1, slots=4), "draining", True),
    ],
)
def test_one_word_for_a_queue(facts: QueueFacts, flow: str, well: bool) -> None:
    assert flow_of(facts) == flow
    assert is_well(flow, facts.oldest_ready) is well
    assert well or in_words(flow, facts.ready, "1m")


# -- shared reads


async def test_reads_of_the_same_moment_are_one(app: Windlass) -> None:
    shared, reads = shared_of(app), 0
    go = asyncio.Event()

    async def read() -> int:
        nonlocal reads
        reads += 1
        await go.wait()
        return reads

    waiting = [asyncio.ensure_future(shared.ask("x", read)) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # takes nothing from the others
    go.set()
    assert await asyncio.gather(*waiting[1:]) == [1] * 4
    assert await shared.ask("x", read) == 1
    assert await shared.ask("x", read, seconds=0) == 2
    shared.forget()
    assert await shared.ask("x", read) == 3


async def test_a_read_that_fails_is_not_kept(app: Windlass) -> None:
    async def fail() -> int:
        raise NotFound("no")

    async def work() -> int:
        return 7

    with pytest.raises(NotFound):
        await shared_of(app).ask("x", fail)
    assert await shared_of(app).ask("x", work) == 7


async def test_an_action_is_seen_at_once(console: Console, app: Windlass) -> None:
    await populate(app)
    assert [row.paused for row in await console.queues()] == [False, False]
    assert (await console.pause_queue("mail")).paused
    assert [row.paused for row in await console.queues()] == [False, True]


async def test_two_apps_share_nothing(app: Windlass, console: Console) -> None:
    other = make_app()
    await populate(app)
    assert await console.queues() != await Console(other).queues()
    await other.close()


# -- the audit log


async def test_the_audit_log_is_walked_newest_first(app: Windlass, console: Console, store: Store) -> None:
    for number in range(12):
        key = f"{number:013d}-a"
        body = msgspec.json.encode({"at": number, "user": f"u{number % 2}", "via": "api", "action": "x", "target": "t",
                                    "queues": ["mail" if number % 3 else "bill"]})  # fmt: skip
        await put_all(store, [Put(shelf=SHELF, key=key, body=body)])
    await put_all(store, [Put(shelf=SHELF, key="0000000000005-b", body=b"not a record")])

    async def walk(console: Console) -> list[int]:
        found: list[int] = []
        after = ""
        while True:
            page = await console.audit(after, limit=5)
            found += [row.at for row in page.rows]
            after = page.cursor
            if not after:
                return found

    assert await walk(console) == list(range(11, -1, -1))
    scoped = Console(app, make_access("u0", ["audit"], queues=["bill"]))
    assert await walk(scoped) == [n for n in range(11, -1, -1) if n % 3 == 0 or n % 2 == 0]
    with pytest.raises(Forbidden):
        await Console(app, make_access("x", ["read"])).audit()


async def test_records_go_after_a_while() -> None:
    app = make_app("memory://")
    async with Harness(app) as h:
        console = Console(app, EVERYTHING)
        await console.save_view("a", "state:failed")
        (row,) = (await console.audit()).rows
        assert (row.action, row.target, row.outcome, row.details) == (
            "save_view",
            "a",
            "done",
            {"filter": "state:failed"},
        )
        h.clock.ms += KEPT - 1_000
        assert (await console.audit()).rows
        h.clock.ms += 2_000
        assert (await console.audit()).rows == []
        assert await console.views()  # a view has no end


def test_what_is_in_a_record_is_bounded() -> None:
    assert bounded("x" * 5_000) == "x" * 2_000
    assert bounded(["a"] * 100) == ["a"] * 50
    assert bounded({"a": 1}) == "{'a': 1}"
    assert bounded("\ud800") == "?"
    assert bounded(None) is None


# -- saved filters


async def test_views(app: Windlass, console: Console, store: Store) -> None:
    await console.save_view(" mine ", " state:failed ")
    await console.save_view("mine", "state:running")
    (view,) = await console.views()
    assert (view.name, view.filter, view.user) == ("mine", "state:running", "ann")
    with pytest.raises(NotFound):
        await console.drop_view("none")
    await console.drop_view("mine")
    assert await console.views() == []
    body = msgspec.json.encode({"name": "v", "filter": ""})
    await put_all(store, [Put(shelf="views", key=f"{n:04}", body=body) for n in range(MOST_ROWS)])
    with pytest.raises(ConfigError, match="drop one first"):
        await console.save_view("one more", "")
    before = await everything(store)
    with pytest.raises(Forbidden):
        await Console(app, make_access("x", ["read"])).drop_view("v")
    with pytest.raises(Forbidden):
        await Console(app, make_access("x", ["read"])).save_view("w", "")
    assert await everything(store) == before
