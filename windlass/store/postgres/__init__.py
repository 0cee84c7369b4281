"""The PostgreSQL engine: for many machines, beside the application's own tables."""

from windlass.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
