"""The app's settings: few, all with safe defaults, checked when the app is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from windlass.core.duration import Duration, to_ms
from windlass.core.keep import DEFAULT_KEEP, Keep
from windlass.core.options import APP_NAMES, JobDefaults, hint, parse_options
from windlass.errors import ConfigError
from windlass.store.base import StoreSettings


class AppOptions(JobDefaults, total=False):
    """Options of ``Windlass(...)``: defaults for every job, and the app's own settings.

    ``charts``: whether workers keep, in the store, what they counted by the minute and the hour. ``log_success``:
    whether they log every job that succeeds, as they log those that fail.
    """

    lease: Duration
    beat: Duration
    unknown_after: Duration
    max_payload: int
    events_kept: int
    logs_kept: int
    charts: bool
    log_success: bool


class WorkerOptions(TypedDict, total=False):
    """Options of ``app.worker(...)`` and of ``windlass worker``.

    ``queues``: names, the most urgent first; with weights (``"critical*5"``, or a mapping) by turns instead.
    ``concurrency``: jobs at once in this process. ``children``: process-pool size for ``runs_in="process"`` tasks;
    ``child_max_jobs`` and ``child_max_memory`` (MB): replace a child after so many, or when it occupies more.
    ``grace``: how long running jobs may go on at shutdown. ``stall_limit``: a loop blocked for longer ends the process.
    ``max_jobs`` and ``max_memory`` (MB): stop after so many jobs, or above so much memory, to be replaced.
    ``log_success``: log every job that succeeds; the app's own setting unless given.
    """

    queues: Sequence[str] | Mapping[str, int]
    concurrency: int
    children: int
    child_max_jobs: int
    child_max_memory: int
    grace: Duration
    stall_warning: Duration
    stall_limit: Duration | None
    max_jobs: int
    max_memory: int
    log_success: bool


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in milliseconds."""

    lease: int = 15_000
    beat: int = 5_000
    unknown_after: int = 3_600_000
    max_payload: int = 1_048_576
    events_kept: int = 10_000
    logs_kept: int = 1_000
    charts: bool = True
    log_success: bool = False
    keep: Keep = DEFAULT_KEEP

    def for_store(self, name: str) -> StoreSettings:
        return StoreSettings(
            name=name,
            keep=self.keep,
            unknown_after=self.unknown_after,
            events_kept=self.events_kept,
            logs_kept=self.logs_kept,
        )


_DURATIONS = ("lease", "beat", "unknown_after")
_COUNTS = ("max_payload", "events_kept", "logs_kept")
_SWITCHES = ("charts", "log_success")


def parse_settings(given: Mapping[str, Any], where: str) -> tuple[Settings, dict[str, Any]]:
    """The settings, and the defaults for jobs."""
    own: dict[str, Any] = {}
    jobs: dict[str, Any] = {}
    for name, value in given.items():
        if name in _DURATIONS:
            own[name] = to_ms(value, f"{where}: {name}")
        elif name in _COUNTS:
            if not isinstance(value, int) or value < 1:
                raise ConfigError(f"{where}: {name} is {value!r}; give a whole number above 0")
            own[name] = value
        elif name in _SWITCHES:
            if not isinstance(value, bool):
                raise ConfigError(f"{where}: {name} is {value!r}; give True or False")
            own[name] = value
        elif name in APP_NAMES:
            jobs[name] = value
        else:
            known = (*_DURATIONS, *_COUNTS, *_SWITCHES, *APP_NAMES)
            raise ConfigError(f"{where} got an unknown option {name!r}{hint(name, known)}")
    defaults = parse_options(jobs, APP_NAMES, where)
    if "keep" in defaults:
        own["keep"] = defaults.pop("keep")
    settings = Settings(**own)
    if settings.lease < 3 * settings.beat:
        raise ConfigError(
            f"{where}: a lease of {settings.lease} ms leaves no room for a missed beat of {settings.beat} ms; make the "
            "lease at least three beats long"
        )
    return settings, defaults
