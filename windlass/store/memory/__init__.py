"""The memory engine: the reference for all others. Jobs live as long as the process."""

from windlass.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
