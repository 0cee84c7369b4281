"""What goes to the functions and comes back from them, as bytes: a module for each part of the contract."""

from windlass.store.redis.wire import flow, graphs, items, jobs, reads, records
from windlass.store.redis.wire.packing import encode, settings

__all__ = ["encode", "flow", "graphs", "items", "jobs", "reads", "records", "settings"]
