"""Searching in the console: walks through filters, pasted ids, suggestions; and bulk actions on what a filter finds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.console_kit import console, fill, store, walk
from tests.web.kit import new_job
from windlass import Windlass, every, group
from windlass.console import Console
from windlass.console.search import LOOKED
from windlass.core.access import make_access
from windlass.errors import Forbidden
from windlass.store.base import Store
from windlass.store.jobs import Presence

__all__ = ["console", "store"]


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
