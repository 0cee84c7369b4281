"""Stores keep jobs and move them. ``make_store`` picks the engine by URL and imports only that one."""

from __future__ import annotations

from windlass.core.hints import did_you_mean
from windlass.core.packages import pip_install
from windlass.core.store_url import redact_url
from windlass.errors import ConfigError
from windlass.store.base import Store, StoreSettings

REDIS = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
POSTGRES = ("postgres", "postgresql")
SCHEMES = ("memory", "sqlite", *REDIS, *POSTGRES)


def _redis(url: str, settings: StoreSettings) -> Store:
    try:
        from windlass.store.redis import RedisStore
    except ImportError as error:
        raise ConfigError(f"{redact_url(url)!r} needs the Redis extra: {pip_install('redis')} ({error})") from error
    return RedisStore(url, settings)


def _postgres(url: str, settings: StoreSettings) -> Store:
    try:
        from windlass.store.postgres import PostgresStore
    except ImportError as error:
        raise ConfigError(
            f"{redact_url(url)!r} needs the PostgreSQL extra: {pip_install('postgres')} ({error})"
        ) from error
    return PostgresStore(url, settings)


def make_store(url: str, settings: StoreSettings | None = None) -> Store:
    """An unopened store for a URL such as ``memory://`` or ``sqlite:///path/to/file.db``."""
    settings = settings or StoreSettings()
    scheme = url.partition(":")[0].lower()
    if scheme == "memory":
        from windlass.store.memory import MemoryStore

        return MemoryStore(url, settings)
    if scheme == "sqlite":
        from windlass.store.sqlite import SQLiteStore

        return SQLiteStore(url, settings)
    if scheme in REDIS:
        return _redis(url, settings)
    if scheme in POSTGRES:
        return _postgres(url, settings)
    known = ", ".join(f"{name}://" for name in SCHEMES)
    raise ConfigError(f"no store engine for {redact_url(url)!r}{did_you_mean(scheme, SCHEMES)}; known: {known}")
