"""Opening, closing and describing a store."""

from __future__ import annotations

from windlass.core.job import State
from windlass.store.reads import StoreInfo
from windlass.testing.conformance.bench import Bench, ManualClock


class LifeRules:
    """A store as a thing that is opened and closed."""

    async def test_opening_twice_is_harmless(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.store.open()
        assert await bench.state("a") == State.READY

    async def test_closing_twice_is_harmless(self, bench: Bench) -> None:
        other = await bench.connect()
        await other.close()
        await other.close()
        await bench.add("a")

    async def test_closing_one_connection_leaves_the_other_alone(self, bench: Bench) -> None:
        worker, other = await bench.worker(), await bench.connect()
        await worker.claim()
        await other.close()
        await bench.add("a")
        await worker.mail.woken()

    async def test_data_outlives_a_connection(self, bench: Bench) -> None:
        await bench.add("a")
        first, bench.store = bench.store, await bench.connect()
        await first.close()
        worker = await bench.worker()
        assert await worker.ids() == ["a"]

    async def test_a_worker_goes_on_over_a_new_connection(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        worker.store = await bench.connect()
        await worker.beat()
        await worker.finish(claim)

    async def test_the_store_says_what_it_is(self, bench: Bench) -> None:
        info = await bench.store.info()
        assert isinstance(info, StoreInfo)
        assert all([info.engine, info.version, info.durability, info.location])

    async def test_two_stores_may_have_clocks_of_their_own(self, bench: Bench) -> None:
        behind = ManualClock(bench.clock.ms - 60_000)
        other = await bench.make_store(settings=bench.settings, clock=behind)
        bench.clock.advance(1_000)
        before = await bench.now()
        bench.store = other
        assert await bench.now() >= before
