"""Celery's settings: what each means here, and a clear refusal of those that mean nothing.

There are three lists: settings that take effect, and in ``setting_names`` those that are accepted without effect and
those that are refused with the reason. A name in none of them is a mistake. Celery's old names are read as the new
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from windlass.celery.exceptions import ImproperlyConfigured
from windlass.celery.rates import rate_of
from windlass.celery.routes import routes
from windlass.celery.schedules import check_workers_can_run, maybe_schedule
from windlass.celery.setting_names import (
    ALWAYS,
    BACKENDS,
    BROKERS,
    GREEN,
    NO_GREEN,
    REFUSED,
    TRANSPORT,
    new_name,
    say_once,
    why_refused,
    why_taken,
)
from windlass.core.hints import did_you_mean
from windlass.errors import WindlassError

Parser = Callable[[Any, str], Any]


# -- reading values


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool | int) or value not in (0, 1):
        raise ImproperlyConfigured(f"{name} is {value!r}; give True or False")
    return bool(value)


def _flag_or_none(value: Any, name: str) -> bool | None:
    return None if value is None else _flag(value, name)


def _seconds(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ImproperlyConfigured(f"{name} is {value!r}; give seconds, a timedelta or None")
    return float(value)


def _limit(value: Any, name: str) -> float | None:
    return _seconds(value, name) or None  # Celery takes 0 for "no limit"


def _count(value: Any, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ImproperlyConfigured(f"{name} is {value!r}; give a whole number or None")
    return value


def _concurrency(value: Any, name: str) -> int | None:
    return None if value == "auto" else _count(value, name)


def _text(value: Any, name: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ImproperlyConfigured(f"{name} is {value!r}; give a text")
    return value


def _names(value: Any, name: str) -> list[str]:
    names = [value] if isinstance(value, str) else list(value or ())
    if not all(isinstance(item, str) for item in names):
        raise ImproperlyConfigured(f"{name} is {value!r}; give names of modules")
    return names


def _priority(value: Any, name: str) -> int | None:
    if value is not None and (not isinstance(value, int) or not 0 <= value <= 9):
        raise ImproperlyConfigured(f"{name} is {value!r}; give a whole number from 0 to 9, 9 first")
    return value


def _json(value: Any, name: str) -> str:
    if value not in ("json", "application/json"):
        raise ImproperlyConfigured(
            f"{name} is {value!r}; Windlass carries JSON and nothing else"
            + (", because unpickling runs whatever it is given" if "pickle" in str(value) else "")
        )
    return "json"


def _accept(value: Any, name: str) -> list[str] | None:
    if value is None:
        return None
    for item in [value] if isinstance(value, str) else value:
        _json(item, name)
    return ["json"]


def _zone(value: Any, name: str) -> Any:
    if value is None or not isinstance(value, str):
        return value
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ImproperlyConfigured(
            f"{name} is {value!r}, which is no time zone; give one like 'Europe/Berlin'"
        ) from error
    return value


def _broker(value: Any, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or ";" in value:
        raise ImproperlyConfigured(
            f"{name} is {value!r}; give one URL. For a Redis that fails over: redis+sentinel:// or redis+cluster://"
        )
    scheme = value.partition("://")[0].lower()
    if scheme == "sentinel":
        raise ImproperlyConfigured(f"{name}: write redis+sentinel:// where Celery has sentinel://")
    if scheme in BROKERS:
        raise ImproperlyConfigured(
            f"{name} is a {scheme}:// broker, and Windlass keeps its jobs in a store: give redis://..., "
            "sqlite:///path/to/file.db or memory://"
        )
    return value


def _backend(value: Any, name: str) -> str | None:
    if value is None:
        return None
    scheme = str(value).partition("://")[0].lower()
    if scheme not in (
        "rpc",
        "redis",
        "rediss",
        "redis+sentinel",
        "redis+cluster",
        "sqlite",
        "memory",
        "disabled",
        "unix",
    ):
        raise ImproperlyConfigured(
            f"{name} is {value!r}; results are kept in the store itself, so no result backend is needed. Leave it out"
        )
    return str(value)


def _pool(value: Any, name: str) -> str | None:
    known = ("prefork", "processes", "threads", "solo")
    if value in GREEN:
        raise ImproperlyConfigured(f"{name} is {value!r}, and {NO_GREEN}")
    if value is not None and value not in known:
        raise ImproperlyConfigured(f"{name} is {value!r}; give one of {', '.join(known)}")
    return _text(value, name)


def _transport(value: Any, name: str) -> dict[str, Any]:
    """Accept transport options that promise what always holds here (such as recovery of a dead worker's job); they have
    no effect.
    """
    for key in value or {}:
        if key not in TRANSPORT:
            raise ImproperlyConfigured(
                f"{name} has {key!r}, which has no counterpart; what the store needs is in its URL"
            )
    return dict(value or {})


def _queues(value: Any, name: str) -> list[str]:
    """Names of queues: texts, kombu's Queue objects, or a mapping by name."""
    names = [item if isinstance(item, str) else getattr(item, "name", None) for item in value or ()]
    if not all(isinstance(item, str) for item in names):
        raise ImproperlyConfigured(f"{name} is {value!r}; give names of queues")
    return [str(item) for item in names]


class Schedule(dict[str, Any]):
    """``beat_schedule``; every entry is checked when it is put in."""

    def __init__(self, entries: Mapping[str, Any] = {}) -> None:
        super().__init__()
        for key, entry in entries.items():
            self[key] = entry

    def __setitem__(self, key: str, entry: Any) -> None:
        super().__setitem__(key, _entry(key, entry))


_ENTRY = ("task", "schedule", "args", "kwargs", "options", "relative")


def _entry(key: str, entry: Any) -> dict[str, Any]:
    where = f"beat_schedule[{key!r}]"
    if not isinstance(entry, Mapping):
        raise ImproperlyConfigured(f"{where} is {entry!r}; give a mapping with 'task' and 'schedule'")
    for name in entry:
        if name not in _ENTRY:
            raise ImproperlyConfigured(f"{where} has an unknown key {name!r}{did_you_mean(str(name), _ENTRY)}")
    if not isinstance(entry.get("task"), str) or "schedule" not in entry:
        raise ImproperlyConfigured(f"{where} needs 'task', a task's name, and 'schedule'")
    try:
        when = maybe_schedule(entry["schedule"], bool(entry.get("relative")))
        check_workers_can_run(when)
    except (TypeError, ValueError) as error:
        raise ImproperlyConfigured(f"{where}: {error}") from error
    return {**entry, "schedule": when}


def _beat(value: Any, name: str) -> Schedule:
    if not isinstance(value or {}, Mapping):
        raise ImproperlyConfigured(f"{name} is {value!r}; give a mapping of names to entries")
    return Schedule(value or {})


# -- the lists


HONOURED: dict[str, tuple[Any, Parser]] = {
    "accept_content": (["json"], _accept),
    "beat_schedule": ({}, _beat),
    "broker_url": (None, _broker),
    "broker_transport_options": ({}, _transport),
    "enable_utc": (True, _flag),
    "imports": ((), _names),
    "include": ((), _names),
    "result_accept_content": (None, _accept),
    "result_backend": (None, _backend),
    "result_expires": (timedelta(days=1).total_seconds(), _seconds),
    "result_failure_expires": (None, _seconds),
    "result_serializer": ("json", _json),
    "task_acks_late": (None, _flag_or_none),
    "task_allow_error_cb_on_chord_header": (False, _flag),
    "task_always_eager": (False, _flag),
    "task_default_priority": (None, _priority),
    "task_default_queue": ("celery", _text),
    "task_default_rate_limit": (None, rate_of),
    "task_eager_propagates": (False, _flag),
    "task_ignore_result": (False, _flag),
    "task_queues": ((), _queues),
    "task_reject_on_worker_lost": (None, _flag_or_none),
    "task_routes": (None, routes),
    "task_serializer": ("json", _json),
    "task_soft_time_limit": (None, _limit),
    "task_time_limit": (None, _limit),
    "task_track_started": (True, _flag),
    "timezone": (None, _zone),
    "worker_concurrency": (None, _concurrency),
    "worker_disable_rate_limits": (False, _flag),
    "worker_max_memory_per_child": (None, _count),
    "worker_max_tasks_per_child": (None, _count),
    "worker_pool": ("prefork", _pool),
    "worker_prefetch_multiplier": (1, _count),
}

_LIVE = frozenset(
    {"beat_schedule", "enable_utc", "task_always_eager", "task_allow_error_cb_on_chord_header", "task_eager_propagates",
     "task_default_priority", "task_routes", "imports", "include", "task_queues"}
)  # fmt: skip


def refuse(name: str) -> ImproperlyConfigured:
    """The error for a setting that is not accepted."""
    if why := why_refused(name):
        return ImproperlyConfigured(f"the setting {name} has no counterpart: {why}")
    near = did_you_mean(name.lower(), [*HONOURED, *ALWAYS])
    return ImproperlyConfigured(f"there is no setting {name!r}{near}")


class Settings(MutableMapping[str, Any]):
    """``app.conf``: settings by attribute, by key, or several with ``update``. A wrong one raises where it is
    written.
    """

    def __init__(self) -> None:
        self.__dict__.update(_given={}, _fixed=False, _fill=None)

    # -- writing

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        name = new_name(name, HONOURED)
        if name not in HONOURED:
            if not (why := why_taken(name) or (not value and why_refused(name))):
                raise refuse(name)
            say_once(name, why)
            self._given[name] = value
            return
        try:
            parsed = HONOURED[name][1](value, name)
        except WindlassError:
            raise
        except (TypeError, ValueError) as error:
            raise ImproperlyConfigured(f"{name} is {value!r}: {error}") from error
        if self._fixed and name not in _LIVE and parsed != self[name]:
            raise ImproperlyConfigured(f"{name} was set after the app was first used; set it where the app is made")
        self._given[name] = parsed

    def add_defaults(self, values: Mapping[str, Any]) -> None:
        """Values for what is not set yet."""
        for name, value in values.items():
            if new_name(name, HONOURED) not in self._given:
                self[name] = value

    def __delitem__(self, name: str) -> None:
        self._given.pop(new_name(name, HONOURED), None)

    # -- reading

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(str(refuse(name))) from None

    def __getitem__(self, name: str) -> Any:
        if self._fill is not None:
            fill, self.__dict__["_fill"] = self._fill, None
            fill()
        name = new_name(name, HONOURED)
        if name in self._given:
            return self._given[name]
        if name in HONOURED:
            default = HONOURED[name][0]
            if isinstance(default, dict):  # such a default may be changed in place
                self._given[name] = default = HONOURED[name][1](default, name)
            return default
        if why_taken(name) or why_refused(name):
            return None
        raise KeyError(name)

    def is_set(self, name: str) -> bool:
        _ = self["broker_url"]  # a configuration that waits to be read is read now
        return name in self._given

    def __iter__(self) -> Iterator[str]:
        return iter([*HONOURED, *(name for name in self._given if name not in HONOURED)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in HONOURED or name in self._given

    def __repr__(self) -> str:
        return f"<conf: {self._given!r}>"

    # -- the app's side

    def read_later(self, fill: Callable[[], None]) -> None:
        """Called before the first value is read."""
        self.__dict__["_fill"] = fill

    def fix(self) -> None:
        """From now on only settings that can still take effect may be changed."""
        self.__dict__["_fixed"] = True


def from_object(source: Any, namespace: str = "") -> dict[str, Any]:
    """The settings a module, class or mapping holds; with a namespace, those whose names begin with it (Django)."""
    names: Iterable[str] = source if isinstance(source, Mapping) else dir(source)
    read = source.__getitem__ if isinstance(source, Mapping) else lambda name: getattr(source, name)
    prefix = f"{namespace}_".upper() if namespace else ""
    if prefix:
        return {name[len(prefix) :].lower(): read(name) for name in names if name.startswith(prefix)}
    found = {}
    for name in names:
        # A module also holds imports and helpers: only names written like settings are taken.
        if isinstance(source, Mapping) or name in HONOURED or name in ALWAYS or _looks_like_setting(name):
            found[name] = read(name)
    return found


def _looks_like_setting(name: str) -> bool:
    families = ("task_", "worker_", "result_", "broker_", "beat_", "redis_", "control_", "event_", "security_")
    return name in REFUSED or new_name(name, HONOURED) != name or name.startswith((*families, *BACKENDS))
