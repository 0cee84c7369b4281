"""The PostgreSQL engine as the conformance suite wants it."""

from __future__ import annotations

from tests.servers.postgres import PostgresServer, fresh_schema
from windlass.store.base import Store
from windlass.store.postgres import PostgresStore
from windlass.testing.conformance import Engine, Lose


def postgres_engine(server: PostgresServer) -> Engine:
    url = f"{server.url()}?schema={fresh_schema()}"
    return lambda settings, clock: PostgresStore(url, settings, clock=clock)


def postgres_loss(server: PostgresServer) -> Lose:
    async def lose(store: Store, id: str) -> None:
        assert isinstance(store, PostgresStore)
        schema = store.location.schema
        found = server.command(f'SELECT n FROM "{schema}".jobs WHERE id = %s', (id,))
        for (n,) in found:
            for table in ("live", "ended", "jobs"):
                server.command(f'DELETE FROM "{schema}".{table} WHERE n = %s', (n,))
        found += server.command(f'DELETE FROM "{schema}".nodes WHERE id = %s RETURNING n', (id,))
        assert found, f"there is no {id} to lose"

    return lose
