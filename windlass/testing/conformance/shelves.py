"""Shelves: ordered maps of names to bytes, for what is not a job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH
from windlass.store.items import Item, Put, put_all
from windlass.testing.conformance.bench import START, Bench
from windlass.testing.conformance.wake import idle_workers, woken

TTL = 10_000
SWEPT_EVERY = 60_000
MEGABYTE = 1_000_000

IN_ORDER = [
    "-", "0", "10", "2", "A", "Z", "_", "a", "a\u0301", "a b", "a/b", "a:b", "aa", "ab", "b", "z",
    "\u00e4", "\u00fc", "\u65e5", "\u65e5\u672c", "\uffee", "\U0001f600", "\U0001f600a",
]  # fmt: skip
IN_ORDER.sort()
"""Keys of every kind: a key may begin with another, and the last are behind those before them only by code points."""


def item(key: str, body: bytes | None = b"x", *, shelf: str = "s", ttl: int = 0) -> Put:
    return Put(shelf=shelf, key=key, body=body, ttl=ttl)


async def put(bench: Bench, *keys: str, **fields: Any) -> None:
    await put_all(bench.store, [item(key, **fields) for key in keys])


async def keys(bench: Bench, shelf: str = "s", **bounds: Any) -> list[str]:
    return [one.key for one in await bench.store.shelf(shelf, **bounds)]


async def bodies(bench: Bench, shelf: str = "s") -> dict[str, bytes]:
    return {one.key: one.body for one in await bench.store.shelf(shelf)}


class ShelfRules:
    """Putting, taking off and reading."""

    async def test_a_shelf_nobody_put_anything_on_is_empty(self, bench: Bench) -> None:
        assert await bench.store.shelf("s") == []
        assert await bench.store.shelf("s", after="a", until="b", newest_first=True) == []

    async def test_an_item_is_answered_as_it_was_put(self, bench: Bench) -> None:
        await put_all(bench.store, [Put(shelf="s", key="k", body=b"one")])
        [one] = await bench.store.shelf("s")
        assert one == Item(shelf="s", key="k", body=b"one", ttl=0, version=one.version)
        assert one.version > 0
        assert await bench.store.items("s", ["k"]) == [one]

    async def test_items_come_in_the_order_of_the_code_points_of_their_keys(self, bench: Bench) -> None:
        await put(bench, *reversed(IN_ORDER))
        assert await keys(bench) == IN_ORDER
        assert await keys(bench, newest_first=True) == IN_ORDER[::-1]

    @pytest.mark.parametrize("newest_first", [False, True])
    async def test_both_bounds_are_exclusive(self, bench: Bench, newest_first: bool) -> None:
        await put(bench, *IN_ORDER)
        step = -1 if newest_first else 1
        for n, bound in enumerate(IN_ORDER):
            assert await keys(bench, after=bound, newest_first=newest_first) == IN_ORDER[n + 1 :][::step]
            assert await keys(bench, until=bound, newest_first=newest_first) == IN_ORDER[:n][::step]
            between = IN_ORDER[n + 1 : n + 4]
            beyond = IN_ORDER[n + 4] if n + 4 < len(IN_ORDER) else ""
            assert await keys(bench, after=bound, until=beyond, newest_first=newest_first) == between[::step]

    @pytest.mark.parametrize("newest_first", [False, True])
    async def test_a_bound_need_not_be_a_key(self, bench: Bench, newest_first: bool) -> None:
        await put(bench, "a", "c", "e")
        assert await keys(bench, after="b", until="d", newest_first=newest_first) == ["c"]
        assert await keys(bench, after="a\u0000", until="e\u0000", newest_first=newest_first) == (
            ["e", "c"] if newest_first else ["c", "e"]
        )

    @pytest.mark.parametrize("newest_first", [False, True])
    async def test_bounds_with_nothing_between_them_answer_nothing(self, bench: Bench, newest_first: bool) -> None:
        await put(bench, "a", "b", "c")
        for after, until in (("b", "b"), ("c", "a"), ("b", "c"), ("x", ""), ("", "A")):
            assert await keys(bench, after=after, until=until, newest_first=newest_first) == []

    @pytest.mark.parametrize("limit", [1, 2, 7, 1_000])
    async def test_pages_upwards_answer_all_of_it_once(self, bench: Bench, limit: int) -> None:
        await put(bench, *IN_ORDER)
        seen: list[str] = []
        while page := await keys(bench, after=seen[-1] if seen else "", limit=limit):
            assert len(page) <= limit
            seen += page
        assert seen == IN_ORDER

    @pytest.mark.parametrize("limit", [1, 2, 7, 1_000])
    async def test_pages_downwards_answer_all_of_it_once(self, bench: Bench, limit: int) -> None:
        await put(bench, *IN_ORDER)
        seen: list[str] = []
        while page := await keys(bench, until=seen[-1] if seen else "", limit=limit, newest_first=True):
            assert len(page) <= limit
            seen += page
        assert seen == IN_ORDER[::-1]

    async def test_a_page_has_at_most_the_largest_batch(self, bench: Bench) -> None:
        every = [f"{n:05}" for n in range(MAX_BATCH + 50)]
        await put(bench, *every[:MAX_BATCH])
        await put(bench, *every[MAX_BATCH:])
        assert await keys(bench) == await keys(bench, limit=10 * MAX_BATCH) == every[:MAX_BATCH]
        assert await keys(bench, limit=10 * MAX_BATCH, newest_first=True) == every[::-1][:MAX_BATCH]
        assert await keys(bench, after=every[MAX_BATCH - 1]) == every[MAX_BATCH:]

    async def test_the_last_to_write_a_key_is_read(self, bench: Bench) -> None:
        await put(bench, "a", "b", body=b"one")
        await put(bench, "a", body=b"two")
        assert await bodies(bench) == {"a": b"two", "b": b"one"}

    async def test_none_takes_an_item_off(self, bench: Bench) -> None:
        await put(bench, "a", "aa", "b")
        await put(bench, "a", body=None)
        assert await keys(bench) == ["aa", "b"]
        await put(bench, "a", body=None)
        await put(bench, "never", body=None)
        assert await keys(bench) == ["aa", "b"]
        await put(bench, "a", body=b"again")
        assert await bodies(bench) == {"a": b"again", "aa": b"x", "b": b"x"}

    async def test_a_shelf_that_was_emptied_is_as_new(self, bench: Bench) -> None:
        await put(bench, "a", "b")
        await put(bench, "a", "b", body=None)
        assert await bench.store.shelf("s") == []
        await put(bench, "b")
        assert await keys(bench) == ["b"]

    async def test_several_items_of_several_shelves_go_in_one_call(self, bench: Bench) -> None:
        await put(bench, "old", shelf="s")
        await put_all(
            bench.store,
            [item("a", b"1"), item("a", b"2", shelf="other"), item("old", None), item("b", b"3", shelf="other")],
        )
        assert await bodies(bench) == {"a": b"1"}
        assert await bodies(bench, "other") == {"a": b"2", "b": b"3"}

    async def test_what_is_said_of_one_key_holds_in_the_order_given(self, bench: Bench) -> None:
        await put_all(bench.store, [item("a", b"1"), item("a", b"2"), item("b", b"1"), item("b", None)])
        await put_all(bench.store, [item("c", None), item("c", b"1"), item("d", b"1", ttl=TTL), item("d", b"2")])
        assert await bodies(bench) == {"a": b"2", "c": b"1", "d": b"2"}
        assert [one.ttl for one in await bench.store.shelf("s")] == [0, 0, 0]

    async def test_no_items_are_fine_and_too_many_are_refused(self, bench: Bench) -> None:
        await put_all(bench.store, [])
        await put(bench, *[f"{n}" for n in range(MAX_BATCH)])
        with pytest.raises(StoreError):
            await put(bench, *[f"x{n}" for n in range(MAX_BATCH + 1)])
        assert await keys(bench, after="x") == []

    async def test_shelves_are_apart_from_one_another(self, bench: Bench) -> None:
        names = ["s", "s:", "s:a", "sa", "S", "\u00fc\u65e5\u672c", "it's; --", "a|b:c*d/e{x}", "items:s", "x y"]
        for name in names:
            await put(bench, "k", "a", body=name.encode(), shelf=name)
        await put(bench, "k", body=None, shelf="s")
        assert [await bodies(bench, name) for name in names] == [
            {"a": name.encode()} | ({"k": name.encode()} if name != "s" else {}) for name in names
        ]
        assert [one.shelf for one in await bench.store.shelf("s:a")] == ["s:a", "s:a"]

    @pytest.mark.parametrize(
        "body",
        [b"", b"\x00", bytes(range(256)) * 3, b"\xff\xfe", b"null"],
        ids=["empty", "nul", "all", "no-utf8", "null"],
    )
    async def test_any_bytes_are_kept(self, bench: Bench, body: bytes) -> None:
        await put(bench, "k", body=body)
        await put(bench, "t", body=body, ttl=TTL)
        assert await bodies(bench) == {"k": body, "t": body}

    async def test_a_large_body_is_kept_whole(self, bench: Bench) -> None:
        large = bytes(range(256)) * (MEGABYTE // 256)
        await put(bench, "a", "b", "c", body=large)
        await put(bench, "d", body=b"small")
        assert [one.body == large for one in await bench.store.shelf("s", until="d")] == [True, True, True]
        assert await keys(bench, newest_first=True) == ["d", "c", "b", "a"]
        await put(bench, "a", body=b"small now")
        assert (await bench.store.shelf("s", limit=1))[0].body == b"small now"

    async def test_another_connection_sees_the_same_shelf(self, bench: Bench) -> None:
        other = await bench.connect()
        await put(bench, "a", ttl=TTL)
        await put_all(other, [item("b", b"2")])
        assert await other.shelf("s") == await bench.store.shelf("s")
        assert await keys(bench) == ["a", "b"]

    async def test_nothing_is_lost_of_what_many_put_at_once(self, bench: Bench) -> None:
        stores = [bench.store, await bench.connect()] * 4
        await asyncio.gather(*[put_all(store, [item(f"{n}-{i}") for i in range(5)]) for n, store in enumerate(stores)])
        assert await keys(bench) == sorted(f"{n}-{i}" for n in range(8) for i in range(5))

    async def test_shelving_is_no_event_and_wakes_nobody(self, bench: Bench) -> None:
        [worker] = await idle_workers(bench, 1)
        newest = await bench.newest()
        await put(bench, "a", "b", ttl=TTL)
        await put(bench, "a", body=None)
        assert await bench.newest() == newest
        assert await woken([worker]) == [0]
        assert (await worker.info()).idle

    async def test_shelves_know_nothing_of_jobs(self, bench: Bench) -> None:
        await put(bench, "a")
        assert [await bench.store.queues(), await bench.everything(), await bench.store.totals()] == [[], [], []]
        assert await bench.states("a", "s") == [None, None]


class ShelfEndRules:
    """Items that go by themselves."""

    async def test_an_item_says_what_is_left_of_its_time(self, bench: Bench) -> None:
        await put(bench, "a", ttl=TTL)
        await put(bench, "b")
        bench.clock.advance(4_000)
        assert [one.ttl for one in await bench.store.shelf("s")] == [TTL - 4_000, 0]

    async def test_an_item_is_gone_from_the_instant_its_time_is_over(self, bench: Bench) -> None:
        await put(bench, "a", ttl=TTL)
        await put(bench, "b")
        bench.clock.advance(TTL - 1)
        assert [one.ttl for one in await bench.store.shelf("s")] == [1, 0]
        bench.clock.advance(1)
        assert await keys(bench) == ["b"]

    @pytest.mark.parametrize("newest_first", [False, True])
    async def test_what_is_gone_takes_no_room_on_a_page(self, bench: Bench, newest_first: bool) -> None:
        every = [f"{n:04}" for n in range(400)]
        await put(bench, *every, ttl=TTL)
        await put(bench, every[0], every[200], every[399])
        bench.clock.advance(TTL)
        left = [every[399], every[200], every[0]] if newest_first else [every[0], every[200], every[399]]
        assert await keys(bench, limit=2, newest_first=newest_first) == left[:2]
        assert await keys(bench, newest_first=newest_first) == left

    async def test_written_again_an_item_has_the_time_it_is_given_then(self, bench: Bench) -> None:
        await put(bench, "longer", "shorter", "for ever", "no more", ttl=TTL)
        await put(bench, "longer", ttl=2 * TTL)
        await put(bench, "shorter", ttl=TTL // 2)
        await put(bench, "for ever")
        await put(bench, "bounded")
        await put(bench, "bounded", ttl=TTL)
        await put(bench, "no more", body=None)
        found = {one.key: one.ttl for one in await bench.store.shelf("s")}
        assert found == {"longer": 2 * TTL, "shorter": TTL // 2, "for ever": 0, "bounded": TTL}
        await bench.passes(TTL // 2)
        assert await keys(bench) == ["bounded", "for ever", "longer"]
        await bench.passes(TTL // 2)
        assert await keys(bench) == ["for ever", "longer"]
        await bench.passes(TTL)
        assert await keys(bench) == ["for ever"]
        await bench.passes(TTL)
        assert await bodies(bench) == {"for ever": b"x"}

    async def test_a_key_whose_item_is_gone_may_be_used_again(self, bench: Bench) -> None:
        await put(bench, "a", "b", ttl=TTL)
        bench.clock.advance(TTL)
        await put(bench, "a", body=b"again")
        await bench.store.sweep()
        assert await bodies(bench) == {"a": b"again"}
        await put(bench, "b", body=b"again", ttl=TTL)
        await bench.store.sweep()
        assert await bodies(bench) == {"a": b"again", "b": b"again"}

    async def test_a_sweep_comes_at_least_once_a_minute_while_something_goes_by_itself(self, bench: Bench) -> None:
        await put(bench, "a")
        assert (await bench.store.sweep()).next_check == -1
        await put(bench, "b", ttl=1_000 * SWEPT_EVERY)
        assert 0 <= (await bench.store.sweep()).next_check <= SWEPT_EVERY
        await put(bench, "b")
        assert (await bench.store.sweep()).next_check == -1

    async def test_sweeps_forget_what_is_gone(self, bench: Bench) -> None:
        """Which shows in that no sweep is needed any more."""
        for n in range(3):
            await put(bench, *[f"{n}-{i:03}" for i in range(500)], ttl=TTL)
        await put(bench, "kept")
        await put(bench, "other", shelf="other", ttl=2 * TTL)
        bench.clock.advance(TTL)
        for _ in range(100):
            await bench.store.sweep()
        assert await keys(bench) == ["kept"]
        assert 0 <= (await bench.store.sweep()).next_check <= SWEPT_EVERY
        bench.clock.advance(TTL)
        await bench.store.sweep()
        assert (await bench.store.sweep()).next_check == -1
        assert (await keys(bench), await keys(bench, "other")) == (["kept"], [])

    async def test_a_clock_set_back_neither_shortens_nor_prolongs_an_item(self, bench: Bench) -> None:
        await put(bench, "a", ttl=TTL)
        bench.clock.advance(-5_000)
        await bench.store.sweep()
        [left] = await bench.store.shelf("s")
        assert 0 < left.ttl <= TTL
        await bench.passes(TTL // 2)
        assert await keys(bench) == ["a"]
        await bench.passes(TTL // 2)
        assert await keys(bench) == []
        assert bench.clock.ms == START + TTL - 5_000
