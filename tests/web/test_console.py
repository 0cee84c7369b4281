"""The console where no request reaches: searches that stop half way, bulk actions, charts, shared reads, audit."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.web.kit import audited, everything, make_app, new_job, populate, states
from windlass import ConfigError, Windlass, every, group
from windlass.console import Console
from windlass.console.audit import KEPT, SHELF, bounded
from windlass.console.charts import chart as draw_chart
from windlass.console.desk import MOST_ROWS, Desk, now_ms
from windlass.console.recent_reads import shared_of
from windlass.console.search import LOOKED
from windlass.core.access import EVERYTHING, make_access
from windlass.core.chart import CELLS, HOURS, MINUTE, MINUTES, Series, Sheet, cell, encode_sheet, sheet_key
from windlass.core.health import QueueFacts, flow_of, in_words, is_well
from windlass.core.job import State
from windlass.errors import Forbidden, JobLost, NotFound
from windlass.store.base import Store
from windlass.store.items import Put, put_all
from windlass.store.jobs import Presence
from windlass.testing import Harness


@pytest.fixture
async def store(app: Windlass) -> Store:
    return (await app.client()).store


@pytest.fixture
def console(app: Windlass) -> Console:
    return Console(app, make_access("ann", ["*"]))


async def fill(store: Store, count: int) -> None:
    """Jobs ``j0`` and on, every third of them in ``bill``; their argument ``n`` is their number."""
    for start in range(0, count, 1_000):
        await store.insert([
            new_job(
                f"j{n}", *(("bill.charge", "bill") if n % 3 == 0 else ()),
                payload=msgspec.json.encode({"n": n, "even": n % 2 == 0}),
            )
            for n in range(start, min(start + 1_000, count))
        ])  # fmt: skip


# -- searching


async def test_the_runs_of_a_schedule_are_found(app: Windlass, console: Console) -> None:
    ids = []
    for name in ("nightly", "night shift"):
        await app.schedules.put(name, every("day at 03:00"), "mail.send", args=["ann"])
        ids.append(await console.run_schedule(name))
    assert [row.id for row in (await console.jobs("schedule:nightly")).jobs] == ids[:1]
    assert [row.id for row in (await console.jobs('schedule:"night shift"')).jobs] == ids[1:]
    assert len((await console.jobs("schedule:night*")).jobs) == 2
    assert (await console.job(ids[1])).schedule == "night shift"


async def walk(console: Console, filter: str, limit: int = 50) -> tuple[list[str], int]:
    """The ids in the order they came, and how many pages were partial."""
    found: list[str] = []
    partial, after = 0, ""
    while True:
        page = await console.jobs(filter, after, limit)
        assert len(page.jobs) <= limit
        found += [row.id for row in page.jobs]
        partial += page.partial
        after = page.cursor
        if not after:
            return found, partial


@pytest.mark.parametrize("limit", [1, 7, 50, 200])
@pytest.mark.parametrize(
    ("filter", "fits"),
    [
        ("", lambda n: True),
        ("queue:bill", lambda n: n % 3 == 0),
        ("queue:b*", lambda n: n % 3 == 0),
        ("args.even:true", lambda n: n % 2 == 0),
        ("args.even:true queue:bill", lambda n: n % 6 == 0),
        ("args.n:5,100,299", lambda n: n in (5, 100, 299)),
        ("state:failed", lambda n: False),
    ],
)
async def test_a_walk_finds_each_job_once(
    console: Console, store: Store, filter: str, fits: Any, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.console.search.STEP", 20)
    await fill(store, 300)
    found, _ = await walk(console, filter, limit)
    assert found == [f"j{n}" for n in range(299, -1, -1) if fits(n)]


async def test_a_search_that_stops_says_so_and_goes_on(
    console: Console, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.console.search.STEP", 20)
    monkeypatch.setattr("windlass.console.search.LOOKED", 40)
    await fill(store, 300)
    page = await console.jobs("args.n:5")
    assert (page.jobs, page.partial, page.looked, page.indexed) == ([], True, 40, False)
    found, partial = await walk(console, "args.n:5")
    assert found == ["j5"]
    assert partial > 3
    whole = await console.jobs("queue:bill")
    assert (whole.partial, whole.indexed) == (False, True)
    counted = await console.count("args.n:5")
    assert (counted.count, counted.exact) == (1, True)
    monkeypatch.setattr("windlass.console.bulk.COUNTED", 80)
    counted = await console.count("args.n:5")
    assert (counted.count, counted.exact) == (0, False)


async def test_jobs_that_come_and_go_between_pages(console: Console, store: Store) -> None:
    await fill(store, 100)
    first = await console.jobs("args.even:true", limit=10)
    await store.insert([new_job("late", payload=b'{"even":true}')])
    await console.delete([row.id for row in first.jobs[:5]] + ["j60"])
    rest: list[str] = []
    after = first.cursor
    while after:
        page = await console.jobs("args.even:true", after, 10)
        rest += [row.id for row in page.jobs]
        after = page.cursor
    seen = [row.id for row in first.jobs] + rest
    assert len(seen) == len(set(seen))
    assert set(seen) == {f"j{n}" for n in range(0, 100, 2)} - {"j60"}


async def test_a_scope_is_walked_as_well(app: Windlass, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.console.search.STEP", 20)
    await fill(store, 200)
    found, _ = await walk(Console(app, make_access("bob", ["*"], ["bill"])), "", 7)
    assert found == [f"j{n}" for n in range(199, -1, -1) if n % 3 == 0]


async def test_the_jobs_of_a_workflow(app: Windlass, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.console.search.STEP", 3)
    charge = app.tasks["bill.charge"]
    flow = await charge.map(range(20)).enqueue()  # type: ignore[attr-defined]
    found, _ = await walk(console, f"workflow:{flow.id}", 4)
    assert len(found) == len(set(found))
    records = await console.jobs(f"workflow:{flow.id}", limit=200)
    assert found == [row.id for row in records.jobs]
    nothing, _ = await walk(console, f"workflow:{flow.id} state:failed", 4)
    assert nothing == []


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


# -- what was pasted, and the language over real records


async def test_a_pasted_id_finds_its_job_and_its_workflow(app: Windlass, console: Console, store: Store) -> None:
    await fill(store, LOOKED + 200)
    flow = await group(*(app.tasks["mail.send"].s("ann") for _ in range(3))).enqueue()
    await store.insert([new_job(f"late{n}") for n in range(5)])
    for text in ("j3", " j3\n", '"j3"', "'j3'", "`j3`,", "https://ops.example.org/w/jobs/j3", "http://x/jobs/j3?a=b#c"):
        assert await walk(console, text) == (["j3"], 0), text
    mine = await walk(console, f"workflow:{flow.id}")
    for text in (flow.id, f'  "{flow.id}"', f"https://ops.example.org/workflows/{flow.id}"):
        assert await walk(console, text, 2) == mine, text
    assert len(mine[0]) == 3
    assert await walk(console, "j3 state:failed") == ([], 0)
    assert await walk(console, f"{flow.id} -queue:mail") == ([], 0)


async def test_a_pasted_id_is_no_word_to_who_may_see_no_values(app: Windlass, store: Store) -> None:
    await store.insert([new_job("0Q7iAqXjjRPfw4shswgO")])
    console = Console(app, make_access("ann", ["read"]))
    assert await walk(console, "0Q7iAqXjjRPfw4shswgO") == (["0Q7iAqXjjRPfw4shswgO"], 0)
    assert await walk(console, "-0Q7iAqXjjRPfw4shswgO") == ([], 0)
    for text in ("secret", "(state:ready OR secret)", "args.n:>1"):
        with pytest.raises(Forbidden, match="needs the right 'values'"):
            await console.jobs(text)


@pytest.mark.parametrize(
    ("filter", "fits", "indexed"),
    [
        ("args.n:>95", lambda n: n > 95, False),
        ("args.n:10..12", lambda n: 10 <= n <= 12, False),
        ("-queue:bill args.n:<9", lambda n: n % 3 and n < 9, False),
        ("-state:ready", lambda n: False, True),
        ("-state:failed,running", lambda n: True, True),
        ("args.n:<3 OR args.n:>97", lambda n: n < 3 or n > 97, False),
        ("queue:bill -(args.even:true OR args.n:>9)", lambda n: n % 6 == 3 and n <= 9, False),
        ("age:>1h", lambda n: False, True),
        ("age:<1h attempts:0 priority:5", lambda n: True, False),
        ("duration:>0s", lambda n: False, False),
    ],
)
async def test_not_or_more_and_less(
    console: Console, store: Store, filter: str, fits: Any, indexed: bool
) -> None:  # fmt: skip
    await fill(store, 100)
    assert (await walk(console, filter))[0] == [f"j{n}" for n in reversed(range(100)) if fits(n)]
    assert (await console.jobs(filter)).indexed is indexed
    assert (await console.count(filter)).count == sum(bool(fits(n)) for n in range(100))


async def test_a_bulk_action_takes_the_same_language(console: Console, store: Store) -> None:
    await fill(store, 30)
    done = await console.bulk("cancel", "(args.n:<3 OR args.n:>27) -args.n:29")
    assert sorted(done.changed) == ["j0", "j1", "j2", "j28"]


async def test_suggestions_come_from_the_store(app: Windlass, console: Console, store: Store) -> None:
    await fill(store, 3)
    await store.beat(Presence(id="web-1-4711-x", host="web-1", pid=4711, queues=["mail"], declares={}), 0, [])
    ends = {
        text: [each.filter for each in await console.suggest(text)]
        for text in ("queue:b", "task:mail.s", "worker:web", "state:fa")
    }  # fmt: skip
    assert ends == {
        "queue:b": ["queue:bill"], "task:mail.s": ["task:mail.send"], "worker:web": ["worker:web-1:4711"],
        "state:fa": ["state:failed"],
    }  # fmt: skip
