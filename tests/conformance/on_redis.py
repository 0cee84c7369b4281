"""The engines of a Redis server for the conformance suite, whichever server it is."""

from __future__ import annotations

from tests.servers.redis import RedisServer, fresh_prefix
from windlass.store.base import Store
from windlass.testing.conformance import Engine, Lose


def redis_engine(url: str) -> Engine:
    from windlass.store.redis import RedisStore

    prefixed = f"{url}?prefix={fresh_prefix()}"
    return lambda settings, clock: RedisStore(prefixed, settings, clock=clock)


def redis_loss(server: RedisServer) -> Lose:
    from windlass.store.redis import RedisStore

    async def lose(store: Store, id: str) -> None:
        assert isinstance(store, RedisStore)
        lost = [server.command("HDEL", f"{store.location.tag}{name}", id) for name in ("jobs", "heads", "links")]
        assert any(lost), f"there is no {id} to lose"

    return lose
