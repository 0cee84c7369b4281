"""Every option, declared once: its name, its type for editors, its parser, and where it may be written.

A call's options win over its task's, the task's over the queue's, and the queue's over the app's. An unknown or
misplaced option fails where it is written, with a suggestion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict
from uuid import UUID

import msgspec

from windlass.core.duration import Duration, instant_ms, to_ms
from windlass.core.flow_rules import FlowRules, make_flow, parse_key, parse_unique, parse_units
from windlass.core.hints import did_you_mean
from windlass.core.ids import check_id, check_name
from windlass.core.job import DEFAULT_PRIORITY, MAX_CRASHES, State
from windlass.core.keep import Keep, parse_keep
from windlass.core.limits import Rate, parse_rate
from windlass.core.option_parsers import choice, plain_function, whole
from windlass.core.retry import (
    BackoffOption,
    Exponential,
    Matchers,
    RetryPolicy,
    parse_backoff,
    parse_matchers,
    portable_backoff,
    read_backoff,
)
from windlass.core.safe import plain
from windlass.core.tags import parse_search, parse_tags
from windlass.errors import ConfigError

OnCrash = Literal["retry", "fail"]
OnExpire = Literal["cancel", "fail"]
RunsIn = Literal["loop", "thread", "process"]
WhenFull = Literal["wait", "reject", "drop_oldest"]
UniquePolicy = Literal["keep", "replace", "debounce", "throttle"]
MOST = 1_000_000_000
FULL_WAIT = 30_000

Key = str | int | float | UUID | Sequence[str] | Callable[..., object]
"""A value, the names of arguments, or a function of them."""


class RunSettings(TypedDict, total=False):
    """Options of every scope: app, queue, task and call."""

    retries: int
    backoff: BackoffOption
    timeout: Duration | None
    soft_timeout: Duration | None
    expires: Duration | datetime | None
    on_expire: OnExpire
    priority: int
    keep: Keep
    result: bool
    on_crash: OnCrash
    max_crashes: int
    cancel_grace: Duration


class JobDefaults(RunSettings, total=False):
    """Options of ``Windlass(...)`` for every job."""

    retry_on: Matchers
    give_up_on: Matchers
    ageing: Duration | None


class LaneSettings(TypedDict, total=False):
    """Options of queue, task and call about the lane that a ``key`` makes, and about a full queue."""

    key_limit: int | None
    key_rate: str | Rate | None
    ordered: bool
    gap_timeout: Duration
    when_full: WhenFull
    full_timeout: Duration


class QueueOptions(JobDefaults, LaneSettings, total=False):
    """Options of ``app.queue(name, ...)``: defaults for its jobs, which a task or call may override."""

    rate: str | Rate | None
    limit: int | None
    max_ready: int | None


class UniqueSettings(TypedDict, total=False):
    """Options of task and call about unique keys, the weight of a job, and what it is found by."""

    key: Key | None
    units: int | Callable[..., int]
    unique: Key | bool | None
    unique_policy: UniquePolicy
    unique_for: Duration
    debounce_max: Duration
    tags: Sequence[str] | str


class TaskOptions(RunSettings, LaneSettings, UniqueSettings, total=False):
    """Options of ``@app.task(...)``."""

    retry_on: Matchers
    give_up_on: Matchers
    name: str
    queue: str
    runs_in: RunsIn
    version: int
    upcast: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]
    rate: str | Rate | None
    limit: int | None
    breaker: str | None
    search: Sequence[str]


class BatchOptions(TaskOptions, total=False):
    """Options of ``@app.task(batch=..., ...)``, whose function takes a list."""

    batch: Required[int]
    batch_wait: Duration


class CallOptions(RunSettings, LaneSettings, UniqueSettings, total=False):
    """Options of one call: ``task.options(...)`` and ``queue.add(..., ...)``."""

    queue: str
    delay: Duration
    at: datetime
    id: str
    headers: Mapping[str, str]
    correlation_id: str
    seq: int


# -- parsers: from what a user wrote to what the code uses


def _flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{what} is {value!r}; give True or False")
    return value


def _limit(value: object, what: str) -> int:
    """A duration; None switches it off. 0 is refused, as it would end every job at once."""
    if value is None:
        return 0
    ms = to_ms(value, what)
    if ms == 0:
        raise ConfigError(f"{what} is {value!r}; give a duration above 0, or None for no limit")
    return ms


def _expires(value: object, what: str) -> int | datetime:
    if isinstance(value, datetime):
        instant_ms(value, what)
        return value
    return _limit(value, what)


def _headers(value: object, what: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{what} is {value!r}; give a mapping of text to text")
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise ConfigError(f"{what} has {key!r}: {text!r}; names and values must be text")
    return {
        plain(key, f"a name in {what}", ConfigError): plain(text, f"{what}[{key!r}]", ConfigError)
        for key, text in value.items()
    }


def _upcast(value: object, what: str) -> dict[int, Callable[[dict[str, Any]], dict[str, Any]]]:
    if not isinstance(value, Mapping) or not all(isinstance(v, int) and callable(fn) for v, fn in value.items()):
        raise ConfigError(f"{what} is {value!r}; give {{old_version: function of the arguments}}")
    return {version: plain_function(fn, f"{what}[{version}]") for version, fn in value.items()}


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > 256:
        raise ConfigError(f"{what} is {value!r}; give a text of at most 256 characters")
    return plain(value, what, ConfigError)


def _most(value: object, what: str) -> int:
    """A number; None switches it off and becomes 0."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise ConfigError(f"{what} is {value!r}; give a whole number from 1 to {MOST:,}, or None for no limit")
    return value


def _breaker(value: object, what: str) -> str:
    return "" if value is None else check_name("breaker", value)


PARSERS: dict[str, Callable[[object, str], Any]] = {
    "retries": whole(0, 10_000),
    "backoff": lambda value, what: parse_backoff(value),
    "timeout": _limit,
    "soft_timeout": _limit,
    "expires": _expires,
    "on_expire": choice("cancel", "fail"),
    "priority": whole(0, 9),
    "keep": lambda value, what: parse_keep(value),
    "result": _flag,
    "on_crash": choice("retry", "fail"),
    "max_crashes": whole(1, 1_000),
    "cancel_grace": to_ms,
    "retry_on": parse_matchers,
    "give_up_on": parse_matchers,
    "name": lambda value, what: check_name("task", value),
    "queue": lambda value, what: check_name("queue", value),
    "runs_in": choice("loop", "thread", "process"),
    "version": whole(1, 1_000_000),
    "upcast": _upcast,
    "delay": to_ms,
    "at": instant_ms,
    "id": lambda value, what: check_id(value),
    "headers": _headers,
    "correlation_id": _text,
    "rate": parse_rate,
    "limit": _most,
    "key": parse_key,
    "key_limit": _most,
    "key_rate": parse_rate,
    "ordered": _flag,
    "seq": whole(1, 1 << 53),
    "gap_timeout": to_ms,
    "units": parse_units,
    "unique": parse_unique,
    "unique_policy": choice("keep", "replace", "debounce", "throttle"),
    "unique_for": _limit,
    "debounce_max": _limit,
    "ageing": _limit,
    "max_ready": _most,
    "when_full": choice("wait", "reject", "drop_oldest"),
    "full_timeout": to_ms,
    "breaker": _breaker,
    "batch": whole(2, 1_000),
    "batch_wait": to_ms,
    "tags": parse_tags,
    "search": parse_search,
}

APP_NAMES = frozenset(JobDefaults.__optional_keys__)
QUEUE_NAMES = frozenset(QueueOptions.__optional_keys__)
TASK_NAMES = frozenset(BatchOptions.__optional_keys__ | BatchOptions.__required_keys__)
CALL_NAMES = frozenset(CallOptions.__optional_keys__)


PEERS = {
    "time_limit": "timeout", "job_timeout": "timeout", "soft_time_limit": "soft_timeout",
    "max_retries": "retries", "max_tries": "retries", "attempts": "retries", "retry_kwargs": "retries",
    "autoretry_for": "retry_on", "retry_for": "retry_on", "retry_when": "retry_on",
    "dont_autoretry_for": "give_up_on", "throws": "give_up_on",
    "default_retry_delay": "backoff", "retry_delay": "backoff", "retry_backoff": "backoff", "retry_jitter": "backoff",
    "retry_backoff_max": "backoff", "min_backoff": "backoff", "max_backoff": "backoff", "interval": "backoff",
    "countdown": "delay", "_defer_by": "delay", "eta": "at", "_defer_until": "at",
    "rate_limit": "rate", "limiter": "rate", "concurrency": "limit",
    "task_id": "id", "job_id": "id", "jobId": "id", "_job_id": "id",
    "ignore_result": "result", "store_results": "result",
    "removeOnComplete": "keep", "removeOnFail": "keep", "keep_result": "keep", "result_ttl": "keep",
    "result_expires": "keep", "failure_ttl": "keep",
    "ttl": "expires", "max_age": "expires", "_expires": "expires",
    "acks_late": "on_crash", "reject_on_worker_lost": "on_crash", "queue_name": "queue", "_queue_name": "queue",
    "deduplication": "unique", "singleton": "unique",
}  # fmt: skip
"""What other systems call an option, and what it is called here."""

_NO_OPTION = {"bind": "a task needs no binding: `current()` is the running job", "base": "use middleware instead"}


def hint(name: str, names: Iterable[str]) -> str:
    """A suggestion for an option that does not exist here: the same thing under another name, or the nearest
    spelling.
    """
    known = list(names)
    if name in _NO_OPTION:
        return f" ({_NO_OPTION[name]})"
    ours = PEERS.get(name)
    if ours is None:
        return did_you_mean(name, known)
    if ours in known:
        return f" (did you mean {ours!r}?)"
    scopes = {"a task": TASK_NAMES, "a call": CALL_NAMES, "a queue": QUEUE_NAMES}
    where = " or ".join(scope for scope, has in scopes.items() if ours in has)
    return f" (did you mean {ours!r}? That is an option of {where})"


def parse_options(given: Mapping[str, object], names: Iterable[str], where: str) -> dict[str, Any]:
    """Checked and normalised options, or a ConfigError that says what is wrong and where."""
    parsed = {}
    for name, value in given.items():
        if name not in names:
            raise ConfigError(f"{where} got an unknown option {name!r}{hint(name, names)}")
        try:
            parsed[name] = PARSERS[name](value, name)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
    return parsed


class Resolved(msgspec.Struct, frozen=True):
    """The options in effect for a job of one task in one queue, all layers together.

    ``full_wait``: how long a caller waits for room in a full queue. ``flow``: None where no option is about flow.
    ``search``: arguments that become tags.
    """

    queue: str
    priority: int = DEFAULT_PRIORITY
    retry: RetryPolicy = RetryPolicy()
    timeout: int = 0
    soft_timeout: int = 0
    expires_in: int = 0
    expires_at: int = 0
    expire_to: State = State.CANCELLED
    keep_done: str = ""
    keep_failed: str = ""
    result: bool = True
    max_crashes: int = MAX_CRASHES
    cancel_grace: int = 10_000
    full_wait: int = FULL_WAIT
    flow: FlowRules | None = None
    tags: tuple[str, ...] = ()
    search: tuple[str, ...] = ()


Layer = Mapping[str, Any]


def resolve(queue: str, call: Layer, task: Layer, of_queue: Layer, app: Layer, task_name: str = "") -> Resolved:
    """Put the options of the layers together: call over task over queue over app."""
    merged = {**app, **of_queue, **task, **call}
    expires = merged.get("expires", 0)
    absolute = isinstance(expires, datetime)
    done, failed = _keep(queue, call, task, of_queue, task_name)
    return Resolved(
        queue=queue,
        priority=merged.get("priority", DEFAULT_PRIORITY),
        retry=RetryPolicy(
            merged.get("retries", 0),
            merged.get("backoff", Exponential()),
            merged.get("retry_on", ()),
            merged.get("give_up_on", ()),
        ),
        timeout=merged.get("timeout", 0),
        soft_timeout=merged.get("soft_timeout", 0),
        expires_in=0 if absolute else expires,
        expires_at=instant_ms(expires) if absolute else 0,
        expire_to=State.FAILED if merged.get("on_expire") == "fail" else State.CANCELLED,
        keep_done=done,
        keep_failed=failed,
        result=merged.get("result", True),
        max_crashes=1 if merged.get("on_crash") == "fail" else merged.get("max_crashes", MAX_CRASHES),
        cancel_grace=merged.get("cancel_grace", 10_000),
        full_wait=merged.get("full_timeout", FULL_WAIT) if merged.get("when_full", "wait") == "wait" else 0,
        flow=make_flow(merged),
        tags=(*task.get("tags", ()), *call.get("tags", ())),  # a call adds to the task's tags
        search=task.get("search", ()),
    )


def _keep(queue: str, call: Layer, task: Layer, of_queue: Layer, task_name: str) -> tuple[str, str]:
    """The retention buckets of the most specific ``keep``. Empty names stand for the store's default."""
    for layer, scope in ((call, queue), (task, f"{queue}/{task_name}"), (of_queue, queue)):
        if "keep" in layer:
            keep: Keep = layer["keep"]
            return keep.buckets(scope)
    return "", ""


# -- options that travel with a call, for the worker

# ``each`` is not an option of users: task.map() and starmap() set it.
_TRAVELS = ("retries", "timeout", "soft_timeout", "result", "cancel_grace", "on_crash", "max_crashes", "each")


def pack_call(options: Layer) -> dict[str, Any]:
    """The part of a call's options the worker needs, as JSON values."""
    packed = {name: options[name] for name in _TRAVELS if name in options}
    if "backoff" in options:
        packed["backoff"] = portable_backoff(options["backoff"])
    return packed


def unpack_call(packed: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse, in the worker."""
    options = dict(packed)
    if "backoff" in options:
        options["backoff"] = read_backoff(options["backoff"])
    return options
