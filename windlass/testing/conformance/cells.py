"""Cells: small values by name, with a version and an end. Locks and marks are made of them."""

from __future__ import annotations

import asyncio

import pytest

from windlass.store.base import Cell
from windlass.testing.conformance.bench import Bench

ANY = -1
TTL = 10_000


async def cell(bench: Bench, name: str = "c") -> Cell:
    [found] = await bench.store.cells([name])
    return found


class CellRules:
    """Compare and write, in one step."""

    async def test_a_cell_that_is_not_there_has_no_version(self, bench: Bench) -> None:
        assert await bench.store.cells(["c", "d"]) == [Cell(name="c"), Cell(name="d")]
        assert await bench.store.cells([]) == []

    async def test_a_free_name_is_taken(self, bench: Bench) -> None:
        made = await bench.store.swap("c", 0, b"one", TTL)
        assert (made.name, made.value, made.expires_in, made.done) == ("c", b"one", TTL, True)
        assert made.version > 0
        found = await cell(bench)
        assert (found.version, found.value, found.expires_in) == (made.version, b"one", TTL)

    async def test_a_taken_name_is_not_taken_twice(self, bench: Bench) -> None:
        made = await bench.store.swap("c", 0, b"one", TTL)
        bench.clock.advance(1_000)
        seen = await bench.store.swap("c", 0, b"two", TTL)
        assert (seen.done, seen.version, seen.value, seen.expires_in) == (False, made.version, b"one", TTL - 1_000)
        assert (await cell(bench)).value == b"one"

    async def test_who_knows_the_version_writes(self, bench: Bench) -> None:
        made = await bench.store.swap("c", 0, b"one", TTL)
        after = await bench.store.swap("c", made.version, b"two", TTL)
        assert (after.done, after.value) == (True, b"two")
        assert after.version > made.version
        late = await bench.store.swap("c", made.version, b"three", TTL)
        assert (late.done, late.version, late.value) == (False, after.version, b"two")

    async def test_any_version_may_be_expected(self, bench: Bench) -> None:
        first = await bench.store.swap("c", ANY, b"one", TTL)
        second = await bench.store.swap("c", ANY, b"two", TTL)
        assert (first.done, second.done) == (True, True)
        assert second.version > first.version

    @pytest.mark.parametrize("expect", [ANY, "known"])
    async def test_the_same_value_again_only_renews(self, bench: Bench, expect: int | str) -> None:
        made = await bench.store.swap("c", 0, b"one", TTL)
        bench.clock.advance(6_000)
        again = await bench.store.swap("c", made.version if isinstance(expect, str) else expect, b"one", TTL)
        assert (again.done, again.version, again.expires_in) == (True, made.version, TTL)
        bench.clock.advance(6_000)
        found = await cell(bench)
        assert (found.version, found.expires_in) == (made.version, TTL - 6_000)

    async def test_the_same_value_does_not_help_who_expects_none(self, bench: Bench) -> None:
        await bench.store.swap("c", 0, b"one", TTL)
        assert not (await bench.store.swap("c", 0, b"one", TTL)).done

    async def test_a_cell_ends_by_the_clock_of_the_store(self, bench: Bench) -> None:
        await bench.store.swap("c", 0, b"one", TTL)
        bench.clock.advance(TTL - 1)
        assert (await cell(bench)).expires_in == 1
        bench.clock.advance(1)
        assert await cell(bench) == Cell(name="c")

    async def test_an_expired_cell_is_none(self, bench: Bench) -> None:
        made = await bench.store.swap("c", 0, b"one", TTL)
        bench.clock.advance(TTL)
        late = await bench.store.swap("c", made.version, b"one", TTL)
        assert (late.done, late.version) == (False, 0)
        after = await bench.store.swap("c", 0, b"two", TTL)
        assert after.done
        assert after.version > made.version

    async def test_the_value_of_an_expired_cell_gets_a_new_version(self, bench: Bench) -> None:
        made = await bench.store.swap("c", 0, b"one", TTL)
        bench.clock.advance(TTL)
        after = await bench.store.swap("c", ANY, b"one", TTL)
        assert after.done
        assert after.version > made.version

    async def test_none_deletes(self, bench: Bench) -> None:
        made = await bench.store.swap("c", 0, b"one", TTL)
        assert not (await bench.store.swap("c", made.version + 1, None, 0)).done
        gone = await bench.store.swap("c", made.version, None, 0)
        assert (gone.done, gone.version, gone.value) == (True, 0, b"")
        assert await cell(bench) == Cell(name="c")
        after = await bench.store.swap("c", 0, b"one", TTL)
        assert after.done
        assert after.version > made.version

    async def test_deleting_twice_is_harmless(self, bench: Bench) -> None:
        made = await bench.store.swap("c", 0, b"one", TTL)
        await bench.store.swap("c", made.version, None, 0)
        assert not (await bench.store.swap("c", made.version, None, 0)).done
        assert (await bench.store.swap("c", ANY, None, 0)).version == 0
        assert await cell(bench) == Cell(name="c")

    async def test_versions_grow_over_the_whole_store(self, bench: Bench) -> None:
        """Also when everything was forgotten: a version fences whoever held the cell before."""
        seen = [
            (await bench.store.swap("c", 0, b"1", TTL)).version,
            (await bench.store.swap("d", 0, b"1", TTL)).version,
        ]
        seen.append((await bench.store.swap("c", seen[0], b"2", TTL)).version)
        bench.clock.advance(TTL)
        await bench.store.sweep()
        await bench.store.sweep()
        other = await bench.connect()
        seen += [(await other.swap("e", 0, b"1", TTL)).version, (await bench.store.swap("c", 0, b"1", TTL)).version]
        assert seen == sorted(set(seen))

    async def test_an_empty_value_is_a_value(self, bench: Bench) -> None:
        made = await bench.store.swap("c", 0, b"", TTL)
        assert made.done
        found = await cell(bench)
        assert (found.version, found.value) == (made.version, b"")
        assert not (await bench.store.swap("c", 0, b"x", TTL)).done

    async def test_any_bytes_and_any_name_are_kept(self, bench: Bench) -> None:
        names, value = ["ü日本", "it's; --", "a|b:c*d/e{x}"], bytes(range(256))
        for name in names:
            await bench.store.swap(name, 0, value, TTL)
        found = await bench.store.cells(names)
        assert [(one.name, one.value) for one in found] == [(name, value) for name in names]

    async def test_cells_live_by_themselves(self, bench: Bench) -> None:
        await bench.store.swap("c", 0, b"one", TTL)
        await bench.store.swap("d", 0, b"two", 2 * TTL)
        bench.clock.advance(TTL)
        await bench.store.sweep()
        assert [one.value for one in await bench.store.cells(["c", "d"])] == [b"", b"two"]

    async def test_one_of_many_that_come_at_once_takes_a_free_name(self, bench: Bench) -> None:
        stores = [bench.store, await bench.connect()] * 8
        answers = await asyncio.gather(*[store.swap("c", 0, b"%d" % n, TTL) for n, store in enumerate(stores)])
        [won] = [one for one in answers if one.done]
        assert {(one.version, one.value) for one in answers} == {(won.version, won.value)}

    async def test_nothing_is_lost_of_what_many_count(self, bench: Bench) -> None:
        stores = [bench.store, await bench.connect()] * 3

        async def count(store_number: int) -> None:
            store = stores[store_number]
            for _ in range(5):
                done = False
                while not done:
                    [seen] = await store.cells(["n"])
                    done = (await store.swap("n", seen.version, b"%d" % (int(seen.value or 0) + 1), TTL)).done

        await asyncio.gather(*[count(n) for n in range(len(stores))])
        assert (await cell(bench, "n")).value == b"30"

    async def test_a_clock_set_back_neither_shortens_nor_prolongs_a_cell(self, bench: Bench) -> None:
        await bench.store.swap("c", 0, b"one", TTL)
        bench.clock.advance(-5_000)
        await bench.store.sweep()
        assert 0 < (await cell(bench)).expires_in <= TTL
        await bench.passes(TTL // 2)
        assert (await cell(bench)).version > 0
        await bench.passes(TTL // 2)
        assert (await cell(bench)).version == 0

    async def test_cells_are_no_events(self, bench: Bench) -> None:
        newest = await bench.newest()
        made = await bench.store.swap("c", 0, b"one", TTL)
        await bench.store.swap("c", made.version, None, 0)
        assert await bench.newest() == newest
