"""Items: values under a key of a shelf, with a version and perhaps an end. Locks and schedules are made of them."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from windlass.store.base import Store
from windlass.store.items import ANY, Commit, Item, Put, put_one
from windlass.testing.conformance.bench import Bench

TTL = 10_000


async def one(bench: Bench, key: str = "k") -> Item:
    [found] = await bench.store.items("s", [key])
    return found


async def write(
    bench: Bench, expect: int, body: bytes | None, ttl: int = TTL, *, key: str = "k", store: Store | None = None
) -> tuple[bool, Item]:
    return await put_one(store or bench.store, Put(shelf="s", key=key, body=body, ttl=ttl, expect=expect))


async def made(bench: Bench, body: bytes = b"one", ttl: int = TTL, key: str = "k") -> Item:
    done, item = await write(bench, 0, body, ttl, key=key)
    assert done
    return item


class ItemRules:
    """Compare and write, in one step."""

    async def test_an_item_that_is_not_there_has_no_version(self, bench: Bench) -> None:
        assert await bench.store.items("s", ["k", "l"]) == [Item(shelf="s", key="k"), Item(shelf="s", key="l")]
        assert await bench.store.items("s", []) == []

    async def test_a_free_key_is_taken(self, bench: Bench) -> None:
        item = await made(bench)
        assert item == Item(shelf="s", key="k", body=b"one", ttl=TTL, version=item.version)
        assert item.version > 0
        assert await one(bench) == item

    async def test_a_taken_key_is_not_taken_twice(self, bench: Bench) -> None:
        item = await made(bench)
        bench.clock.advance(1_000)
        done, seen = await write(bench, 0, b"two")
        assert (done, seen) == (False, msgspec.structs.replace(item, ttl=TTL - 1_000))
        assert (await one(bench)).body == b"one"

    async def test_who_knows_the_version_writes(self, bench: Bench) -> None:
        item = await made(bench)
        done, after = await write(bench, item.version, b"two")
        assert (done, after.body) == (True, b"two")
        assert after.version > item.version
        late, seen = await write(bench, item.version, b"three")
        assert (late, seen) == (False, after)

    async def test_any_version_may_be_expected(self, bench: Bench) -> None:
        _, first = await write(bench, ANY, b"one")
        done, second = await write(bench, ANY, b"two")
        assert done
        assert second.version > first.version

    @pytest.mark.parametrize("expect", [ANY, "known"])
    async def test_the_same_body_again_only_renews(self, bench: Bench, expect: int | str) -> None:
        item = await made(bench)
        bench.clock.advance(6_000)
        done, again = await write(bench, item.version if isinstance(expect, str) else expect, b"one")
        assert (done, again) == (True, item)
        bench.clock.advance(6_000)
        assert await one(bench) == msgspec.structs.replace(item, ttl=TTL - 6_000)

    async def test_the_same_body_does_not_help_who_expects_none(self, bench: Bench) -> None:
        await made(bench)
        done, _ = await write(bench, 0, b"one")
        assert not done

    async def test_who_writes_nothing_only_looks(self, bench: Bench) -> None:
        item = await made(bench)
        bench.clock.advance(1_000)
        for expect, fits in ((0, False), (item.version, True), (item.version + 1, False), (ANY, True)):
            done, seen = await put_one(bench.store, Put(shelf="s", key="k", expect=expect))
            assert (done, seen) == (fits, msgspec.structs.replace(item, ttl=TTL - 1_000))
        done, seen = await put_one(bench.store, Put(shelf="s", key="other", expect=0))
        assert (done, seen.version) == (True, 0)

    async def test_an_item_ends_by_the_clock_of_the_store(self, bench: Bench) -> None:
        await made(bench)
        bench.clock.advance(TTL - 1)
        assert (await one(bench)).ttl == 1
        bench.clock.advance(1)
        assert await one(bench) == Item(shelf="s", key="k")

    async def test_an_item_without_an_end_stays(self, bench: Bench) -> None:
        item = await made(bench, ttl=0)
        bench.clock.advance(1_000 * TTL)
        await bench.store.sweep()
        assert await one(bench) == item

    async def test_an_expired_item_is_none(self, bench: Bench) -> None:
        item = await made(bench)
        bench.clock.advance(TTL)
        done, seen = await write(bench, item.version, b"one")
        assert (done, seen.version) == (False, 0)
        assert (await made(bench, b"two")).version > item.version

    async def test_the_body_of_an_expired_item_gets_a_new_version(self, bench: Bench) -> None:
        item = await made(bench)
        bench.clock.advance(TTL)
        done, after = await write(bench, ANY, b"one")
        assert done
        assert after.version > item.version

    async def test_none_takes_it_off(self, bench: Bench) -> None:
        item = await made(bench)
        done, _ = await write(bench, item.version + 1, None)
        assert not done
        done, gone = await write(bench, item.version, None)
        assert (done, gone) == (True, Item(shelf="s", key="k"))
        assert await one(bench) == gone
        assert (await made(bench)).version > item.version

    async def test_taking_off_twice_is_harmless(self, bench: Bench) -> None:
        item = await made(bench)
        await write(bench, item.version, None)
        done, _ = await write(bench, item.version, None)
        assert not done
        done, gone = await write(bench, ANY, None)
        assert (done, gone.version) == (True, 0)

    async def test_versions_grow_over_the_whole_store(self, bench: Bench) -> None:
        """Also when everything was forgotten: a version fences whoever held the item before."""
        seen = [(await made(bench, key="c")).version, (await made(bench, key="d")).version]
        _, after = await write(bench, seen[0], b"2", key="c")
        seen.append(after.version)
        bench.clock.advance(TTL)
        await bench.store.sweep()
        await bench.store.sweep()
        other = await bench.connect()
        _, elsewhere = await write(bench, 0, b"1", key="e", store=other)
        seen += [elsewhere.version, (await made(bench, key="c")).version]
        assert seen == sorted(set(seen))

    async def test_an_empty_body_is_a_body(self, bench: Bench) -> None:
        item = await made(bench, b"")
        assert (await one(bench)) == item
        done, _ = await write(bench, 0, b"x")
        assert not done

    async def test_any_bytes_under_any_key_of_any_shelf_are_kept(self, bench: Bench) -> None:
        names, body = ["ü日本", "it's; --", "a|b:c*d/e{x}", "", "s"], bytes(range(256))
        for name in names:
            done, _ = await put_one(bench.store, Put(shelf=name, key=name or "k", body=body + name.encode(), expect=0))
            assert done
        for name in names:
            [item] = await bench.store.items(name, [name or "k"])
            assert item.body == body + name.encode()

    async def test_items_are_read_in_the_order_asked_for(self, bench: Bench) -> None:
        for key in "abc":
            await made(bench, key.encode(), key=key)
        found = await bench.store.items("s", ["c", "x", "a", "c"])
        assert [item.body for item in found] == [b"c", b"", b"a", b"c"]
        assert await bench.store.items("other", ["a"]) == [Item(shelf="other", key="a")]

    async def test_one_of_many_that_come_at_once_takes_a_free_key(self, bench: Bench) -> None:
        stores = [bench.store, await bench.connect()] * 8
        answers = await asyncio.gather(*[write(bench, 0, b"%d" % n, store=store) for n, store in enumerate(stores)])
        [won] = [item for done, item in answers if done]
        assert {(item.version, item.body) for _, item in answers} == {(won.version, won.body)}

    async def test_nothing_is_lost_of_what_many_count(self, bench: Bench) -> None:
        stores = [bench.store, await bench.connect()] * 3

        async def count(store: Store) -> None:
            for _ in range(5):
                done = False
                while not done:
                    [seen] = await store.items("s", ["n"])
                    body = b"%d" % (int(seen.body or 0) + 1)
                    done, _ = await write(bench, seen.version, body, key="n", store=store)

        await asyncio.gather(*[count(store) for store in stores])
        assert (await one(bench, "n")).body == b"30"

    async def test_a_clock_set_back_neither_shortens_nor_prolongs_what_is_held(self, bench: Bench) -> None:
        await made(bench)
        bench.clock.advance(-5_000)
        await bench.store.sweep()
        assert 0 < (await one(bench)).ttl <= TTL
        await bench.passes(TTL // 2)
        assert (await one(bench)).version > 0
        await bench.passes(TTL // 2)
        assert (await one(bench)).version == 0

    async def test_items_are_no_events(self, bench: Bench) -> None:
        newest = await bench.newest()
        item = await made(bench)
        await write(bench, item.version, None)
        await bench.store.commit([Commit()])
        assert await bench.newest() == newest
