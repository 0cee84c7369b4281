"""For the tests of the Redis engine: a bench on a server's keys, and a look at those keys from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from tests.servers.redis import Connection, RedisServer, fresh_prefix
from windlass.store.base import Clock, StoreSettings
from windlass.store.redis import RedisStore
from windlass.testing.conformance import Bench, ManualClock


class Keys:
    """The keys of one app, as the server has them."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self.connection, self.prefix = connection, prefix

    def __call__(self, command: str, key: str, *words: str | bytes | int | float) -> Any:
        return self.connection.command(command, f"{{{self.prefix}}}:{key}", *words)

    def all(self) -> list[str]:
        """Their names without the prefix."""
        found, cursor = set[str](), "0"
        while True:
            cursor, names = self.connection.command("SCAN", cursor, "MATCH", f"{{{self.prefix}}}:*", "COUNT", 1000)
            found |= {name.split("}:", 1)[1] for name in names}
            if cursor == "0":
                return sorted(found)

    def sizes(self) -> dict[str, int]:
        size = {"hash": "HLEN", "zset": "ZCARD", "set": "SCARD", "list": "LLEN", "stream": "XLEN"}
        return {name: int(self(size[self("TYPE", name)], name)) for name in self.all()}

    def dump(self) -> dict[str, str]:
        return {name: self("DUMP", name) for name in self.all()}


class RedisBench(Bench):
    """A bench that also has the server and the keys; ``store`` is a `RedisStore`."""

    store: RedisStore
    server: RedisServer
    keys: Keys

    async def again(self) -> RedisStore:
        """One more store on the same keys; closed with the bench."""
        store = await self.make_store(settings=self.settings, clock=self.clock)
        assert isinstance(store, RedisStore)
        return store

    @contextmanager
    def counted(self) -> Iterator[dict[str, int]]:
        """Fills in how often the server ran each command meanwhile, those in functions included."""
        calls: dict[str, int] = {}
        before = self._stats()
        yield calls
        for name, number in self._stats().items():
            if number - before.get(name, 0) and name not in ("info", "auth"):
                calls[name] = number - before.get(name, 0)

    def _stats(self) -> dict[str, int]:
        lines = self.keys.connection.command("INFO", "commandstats").splitlines()
        pairs = (line[len("cmdstat_") :].split(":", 1) for line in lines if line.startswith("cmdstat_"))
        return {name: int(values.split(",", 1)[0].removeprefix("calls=")) for name, values in pairs}


@asynccontextmanager
async def redis_bench(
    server: RedisServer, prefix: str = "", real_time: bool = False, **settings: Any
) -> AsyncIterator[RedisBench]:
    """An open bench on fresh keys of a server. ``real_time``: by the server's clock instead of one moved by hand."""
    prefix = prefix or fresh_prefix()
    stores: list[RedisStore] = []
    given, clock = StoreSettings(**settings), ManualClock()

    async def make(*, settings: StoreSettings = given, clock: Clock) -> RedisStore:
        url = f"{server.url}?prefix={prefix}"
        stores.append(RedisStore(url, settings, clock=None if real_time else clock))
        await stores[-1].open()
        return stores[-1]

    with server.connect() as connection:
        try:
            bench = RedisBench(make, await make(clock=clock), clock, given)
            bench.server, bench.keys = server, Keys(connection, prefix)
            yield bench
        finally:
            for store in stores:
                await store.close()
