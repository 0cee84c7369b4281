"""The network between Windlass and Redis: cut, silent, slow or deaf, in general and at each operation.

The proxy stands in the way of what a test is about: of the workers while callers reach the server directly, or of
everyone. The same must hold as after any fault; see `test_redis_server.py`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from tests.faults.load import HEALED, Load, all_running, cpu_shares, slack
from tests.faults.waves import waves
from tests.servers.proxy import Order, Proxy
from tests.servers.redis import RedisServer, fresh_prefix
from tests.worker.helpers import Fleet, Ledger, eventually, within
from windlass import State, StoreUnavailable, Windlass

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="servers are started and signalled as on POSIX")

SHORT_CALLS = "timeout=400ms&connect_timeout=400ms&keepalive=500ms"
UNHURRIED = {"lease": "6s", "beat": "50ms"}
"""No lease ends for one lost call: what is tested is that call. Beats are many, to be met by faults."""


@pytest.fixture
def proxy(redis7: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis7) as proxy:
        yield proxy


def function(name: str) -> bytes:
    """The end of the function's name in a request, which says what the call is."""
    return f"_{name}\r\n".encode()


OPERATIONS = {
    **{name: function(name) for name in ("exchange", "beat", "sweep", "note", "leave", "insert", "watch")},
    "listen": b"\r\nSUBSCRIBE\r\n",
    "unlisten": b"\r\nUNSUBSCRIBE\r\n",
}

Fault = Callable[[Proxy, bytes], Order]
FAULTS: dict[str, Fault] = {
    "cut": lambda proxy, match: proxy.cut_before(match),
    "lose reply": lambda proxy, match: proxy.lose_reply(match),
    "hang": lambda proxy, match: proxy.hang(match),
}


# ---- one operation -----------------------------------------------------------------------------------------------


class TestOneOperation:
    """Workers and callers in this process, both through the proxy."""

    @pytest.fixture
    async def app(self, proxy: Proxy) -> AsyncIterator[Windlass]:
        app = Windlass("network", f"{proxy.url}?prefix={fresh_prefix()}&{SHORT_CALLS}", **UNHURRIED)
        yield app
        await app.close()

    @pytest.mark.parametrize("fault", FAULTS)
    @pytest.mark.parametrize("operation", OPERATIONS)
    async def test_a_fault_at_each_operation(
        self, app: Windlass, proxy: Proxy, operation: str, fault: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        orders: list[Order] = []

        def order() -> None:
            # One at a time: an operation that is rare would otherwise be met by all of them in a row.
            if not orders or orders[-1].done:
                orders.append(FAULTS[fault](proxy, OPERATIONS[operation]))

        at_the_end = operation in ("leave", "unlisten")
        await waves(app, order, lambda: at_the_end or orders[0].done)
        assert orders[0].done, "the fault met nothing"
        assert "refused" not in caplog.text, "a request sent again was taken for another one"

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_a_fault_at_a_change(self, app: Windlass, proxy: Proxy, fault: str) -> None:
        """An action whose answer is lost may be asked for again, and then finds it done."""

        @app.task
        async def work(n: int) -> int:
            return n

        handle = await work.options(delay="1h").enqueue(1)
        FAULTS[fault](proxy, function("change"))
        await insist(handle.cancel)
        assert await handle.state() is State.CANCELLED
        FAULTS[fault](proxy, function("change"))
        await insist(handle.retry)
        async with app.worker():
            assert await within(handle) == 1
        assert await app.queue("default").counts() == {"succeeded": 1}

    async def test_a_reply_lost_again_and_again_is_asked_for_until_it_comes(self, app: Windlass, proxy: Proxy) -> None:
        @app.task
        async def work(n: int) -> int:
            return n

        handles = await app.enqueue_many(work.s(n) for n in range(20))
        order = proxy.lose_reply(function("exchange"), times=6)
        async with app.worker(concurrency=4):
            assert [await within(handle) for handle in handles] == list(range(20))
            await eventually(lambda: order.done)
        assert await app.queue("default").counts() == {"succeeded": 20}


async def insist(call: Callable[[], object]) -> None:
    """What a caller does who was told that the outcome is unknown."""

    async def done() -> bool:
        try:
            await call()  # type: ignore[misc]
        except StoreUnavailable:
            return False
        return True

    await eventually(done, every=0.05)


# ---- the whole network -------------------------------------------------------------------------------------------


class TestOutage:
    """Two workers behind the proxy and one in front of it, which takes over what they cannot finish."""

    @pytest.fixture
    def url(self, redis7: RedisServer) -> str:
        return f"{redis7.url}?prefix={fresh_prefix()}&{SHORT_CALLS}"

    @pytest.fixture
    def worker_url(self, url: str, redis7: RedisServer, proxy: Proxy) -> str:
        return url.replace(redis7.url, proxy.url)

    OUTAGES: dict[str, Callable[[Proxy], None]] = {  # noqa: RUF012 - a constant
        "reset": Proxy.reset,
        "refuse": Proxy.refuse,
        "blackhole": Proxy.blackhole,
        "half-open": Proxy.blackhole,
        "drop replies": Proxy.drop_replies,
    }

    @pytest.mark.parametrize("outage", OUTAGES)
    async def test_workers_without_a_network_lose_nothing_and_return(
        self, outage: str, app: Windlass, fleet: Fleet, ledger: Ledger, url: str, proxy: Proxy
    ) -> None:
        behind = [fleet.start(concurrency=8, grace=5) for _ in range(2)]
        fleet.start({"E2E_URL": url}, concurrency=8, grace=5)
        await all_running(app, 3)
        async with Load(app, ledger) as load:
            await load.consumed_after(0, [worker.pid for worker in behind])
            before = len(proxy.accepted)
            self.OUTAGES[outage](proxy)
            shares = await cpu_shares(behind, 3.0)
            attempts = len(proxy.accepted) - before
            proxy.heal(half_open=outage == "half-open")
            healed = time.time()
            delay = await load.consumed_after(healed, [worker.pid for worker in behind])
            await load.progress(50)
        report = await load.verify(f"{outage}: {attempts} connections, cores used {shares}, back after {delay:.2f} s")
        assert delay < HEALED + slack()
        assert max(shares) < 0.3, f"busy while there was nothing to do: {shares}"
        assert attempts < 60, f"two workers of two connections each tried {attempts} times in 3 s"
        assert load.errors == [], "the callers' network was whole"
        assert report.extra == report.executions - report.jobs

    async def test_a_slow_network_is_only_slow(self, app: Windlass, fleet: Fleet, ledger: Ledger, proxy: Proxy) -> None:
        """A tenth of a second each way, far from any time limit: nothing is lost, retried or run twice."""
        for _ in range(2):
            fleet.start(concurrency=8, grace=5)
        await all_running(app, 2)
        async with Load(app, ledger) as load:
            proxy.delay(0.1)
            await load.progress(100)
            proxy.heal()
        report = await load.verify("slow")
        assert (report.extra, report.crashes, report.lost) == (0, 0, 0), report

    async def test_a_network_slower_than_the_time_limit_of_calls(
        self, app: Windlass, fleet: Fleet, ledger: Ledger, proxy: Proxy
    ) -> None:
        """Every call is done and nobody hears in time, over and over."""
        workers = [fleet.start(concurrency=8, grace=5) for _ in range(2)]
        await all_running(app, 2)
        async with Load(app, ledger) as load:
            proxy.delay(0.5)
            shares = await cpu_shares(workers, 3.0)
            proxy.heal()
            delay = await load.consumed_after(time.time())
            await load.progress(50)
        await load.verify(f"too slow: cores used {shares}")
        assert delay < HEALED + slack()
        assert max(shares) < 0.3, f"busy while there was nothing to do: {shares}"

    async def test_connections_reset_every_now_and_then(
        self, app: Windlass, fleet: Fleet, ledger: Ledger, proxy: Proxy
    ) -> None:
        for _ in range(2):
            fleet.start(concurrency=8, grace=5)
        await all_running(app, 2)
        met = 0
        async with Load(app, ledger) as load:
            for _ in range(10):
                met += proxy.cut()
                await load.progress(20)
        report = await load.verify(f"{met} connections reset")
        assert met >= 20, "the resets met nobody"
        assert (report.extra, report.crashes, load.errors) == (0, 0, []), report


# ---- who waits ---------------------------------------------------------------------------------------------------


class TestWaiting:
    """Nobody polls, so a connection that is lost while nothing is asked must be noticed all the same."""

    SLOW_BEATS = {"lease": "60s", "beat": "20s"}  # noqa: RUF012 - a constant
    """The heartbeat is the backstop for a lost wake-up: here it comes too late to hide one."""

    @pytest.fixture
    def url(self, redis7: RedisServer) -> str:
        return f"{redis7.url}?prefix={fresh_prefix()}&{SHORT_CALLS}"

    @pytest.fixture
    async def app(self, url: str) -> AsyncIterator[Windlass]:
        app = Windlass("waiting", url, **self.SLOW_BEATS)
        yield app
        await app.close()

    @pytest.fixture
    async def behind(self, url: str, redis7: RedisServer, proxy: Proxy) -> AsyncIterator[Windlass]:
        """The same app, through the proxy."""
        app = Windlass("waiting", url.replace(redis7.url, proxy.url), **self.SLOW_BEATS)
        yield app
        await app.close()

    BREAKS: dict[str, Callable[[Proxy], object]] = {  # noqa: RUF012 - a constant
        "reset": Proxy.cut,
        "silence": Proxy.blackhole,
    }

    @pytest.mark.parametrize("broken", BREAKS)
    async def test_an_idle_worker_is_woken_after_its_connection_was_lost(
        self, broken: str, app: Windlass, behind: Windlass, proxy: Proxy
    ) -> None:
        @behind.task(name="echo")
        async def echo(n: int) -> int:
            return n

        app.declared.add_task(echo.fn, {"name": "echo"})
        async with behind.worker():
            await self.lose(broken, proxy)
            handle = await app.tasks["echo"].enqueue(1)
            assert await within(handle, HEALED + slack()) == 1

    @pytest.mark.parametrize("broken", BREAKS)
    async def test_a_result_reaches_who_waits_after_the_connection_was_lost(
        self, broken: str, app: Windlass, behind: Windlass, proxy: Proxy
    ) -> None:
        release = asyncio.Event()

        @app.task(name="held")
        async def held() -> str:
            await release.wait()
            return "done"

        behind.declared.add_task(held.fn, {"name": "held"})
        async with app.worker():
            handle = await behind.tasks["held"].enqueue()
            waiting = asyncio.create_task(handle.result(timeout=30))
            await self.lose(broken, proxy)
            release.set()
            assert await within(waiting, HEALED + slack()) == "done"

    async def lose(self, broken: str, proxy: Proxy) -> None:
        """When all is quiet, break every connection; heal the network when that was noticed, by connecting again."""
        await quiet(proxy)
        before = len(proxy.accepted)
        self.BREAKS[broken](proxy)
        await eventually(lambda: len(proxy.accepted) > before, timeout=5)
        proxy.heal(half_open=True)


async def quiet(proxy: Proxy) -> None:
    """Until nobody asks for anything: whoever has a question would connect again for that."""
    counts = [-1]

    def unchanged() -> bool:
        counts.append(proxy.requests)
        return counts[-1] == counts[-2]

    await eventually(unchanged, every=0.2)


def test_the_operations_are_the_engines_own() -> None:
    """The faults above are aimed by name: a renamed function would be missed by all of them."""
    from windlass.store.redis.library import FUNCTIONS

    assert {"exchange", "beat", "sweep", "note", "leave", "insert", "watch", "change"} <= set(FUNCTIONS)
