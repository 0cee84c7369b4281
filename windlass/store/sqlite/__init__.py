"""The SQLite engine: the embedded default. One file, any number of processes of one machine, no server."""

from windlass.store.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
