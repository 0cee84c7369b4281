"""The Redis and Valkey engine: one library of Lua functions, and a lean connection to call them by."""

from windlass.store.redis.store import RedisStore

__all__ = ["RedisStore"]
