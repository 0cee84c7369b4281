"""Alert rules for Prometheus, made from a few thresholds. Pure.

A rule holds for each queue by itself; a queue with thresholds of its own is left out of the common rule. If several
dashboards of one app are scraped, their series differ only in ``instance``, and the largest counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from windlass.core.duration import show_ms, to_ms
from windlass.core.hints import did_you_mean
from windlass.core.ids import check_name
from windlass.errors import ConfigError

OFF = "off"
EVERY = 15.0


class Thresholds(msgspec.Struct, frozen=True):
    """An alert fires above these; None never fires. ``ready``: jobs, for five minutes. ``oldest``: seconds the oldest
    ready job has waited. ``failures``: per minute. ``dead``: new dead letters, in five minutes.
    """

    ready: int | None = 10_000
    oldest: float | None = 300.0
    failures: int | None = 10
    dead: int | None = 0


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. ``lasts``: how long it must hold before it fires, in Prometheus's form. ``queue``: set if it is for
    this queue alone.
    """

    name: str
    expr: str
    summary: str
    description: str
    lasts: str = "0m"
    severity: str = "warning"
    queue: str = ""


# -- what a user writes


def parse_thresholds(given: Mapping[str, str], base: Thresholds, where: str) -> Thresholds:
    """Texts such as ``{"ready": "500", "oldest": "1m", "dead": "off"}``, laid over the base."""
    known = Thresholds.__struct_fields__
    for name in given:
        if name not in known:
            raise ConfigError(
                f"{where}: unknown threshold {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}"
            )
    parsed = {name: parse_threshold(name, text, where) for name, text in given.items()}
    return msgspec.structs.replace(base, **parsed)


def parse_threshold(name: str, text: str, where: str) -> float | None:
    """A number, for ``oldest`` and ``lag`` a duration; None for "off"."""
    if text.strip() == OFF:
        return None
    if name in ("oldest", "lag"):
        return seconds(text, f"{where}: {name}")
    if not text.strip().isdecimal():
        raise ConfigError(f"{where}: {name} is {text!r}; give a whole number, or {OFF}")
    return int(text)


def seconds(text: str, what: str) -> float:
    try:
        found = to_ms(float(text) if re.fullmatch(r"[0-9.]+", text.strip()) else text, what) / 1000
    except (ConfigError, ValueError):
        raise ConfigError(f"{what} is {text!r}; give a duration such as 30s, 5m or 1h, or {OFF}") from None
    if found <= 0:
        raise ConfigError(f"{what} is {text!r}; give a duration above 0, or {OFF}")
    return found


def parse_queue(text: str, base: Thresholds) -> tuple[str, Thresholds]:
    """``emails:ready=500,oldest=1m``."""
    name, _, rest = text.rpartition(":")
    pairs = [pair.partition("=") for pair in rest.split(",")]
    if not name or not all(key.strip() and mark and value.strip() for key, mark, value in pairs):
        raise ConfigError(f"{text!r} is no queue with thresholds: write one such as emails:ready=500,oldest=1m")
    check_name("queue", name)
    given = {key.strip(): value.strip() for key, _, value in pairs}
    return name, parse_thresholds(given, base, f"queue {name}")


# -- the rules


def make_alerts(
    base: Thresholds, queues: Mapping[str, Thresholds], *, lag: float | None = 0.5, every: float = EVERY
) -> list[Alert]:
    """The alerts. ``every``: the scrape interval in seconds, as a window must contain some scrapes."""
    found: list[Alert] = []
    for make in (_backlog, _oldest, _failures(every), _dead(every)):
        found += _per_queue(make, base, queues)
    return [*found, *_of_workers(lag, every), *_of_the_store()]


_Make = Callable[[Thresholds, str], Alert | None]


def _per_queue(make: _Make, base: Thresholds, queues: Mapping[str, Thresholds]) -> Iterator[Alert]:
    """The common rule, without the queues whose own rule would differ, and the rules of those queues."""
    common = make(base, "")
    own = {name: made for name, limits in queues.items() if (made := make(limits, "")) != common}
    if common is not None:
        others = "|".join(name.replace(".", "[.]") for name in own)
        yield (make(base, f"queue!~{_quoted(others)}") or common) if own else common
    for name in own:
        alert = make(queues[name], f"queue={_quoted(name)}")
        if alert is not None:
            yield msgspec.structs.replace(alert, queue=name)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _chosen(metric: str, *matchers: str) -> str:
    inside = ",".join(filter(None, matchers))
    return f"{metric}{{{inside}}}" if inside else metric


def _backlog(limits: Thresholds, queue: str) -> Alert | None:
    if limits.ready is None:
        return None
    jobs = _chosen("windlass_queue_jobs", 'state="ready"', queue)
    return Alert(
        name="WindlassBacklog", expr=f"max by (job, queue) ({jobs}) > {limits.ready}", lasts="5m",
        summary="{{ $value }} jobs are ready in queue {{ $labels.queue }}",
        description=f"More than {limits.ready} jobs have been ready for five minutes. Are there enough workers?",
    )  # fmt: skip


def _oldest(limits: Thresholds, queue: str) -> Alert | None:
    if limits.oldest is None:
        return None
    oldest = _chosen("windlass_queue_oldest_ready_seconds", queue)
    return Alert(
        name="WindlassOldJob", expr=f"max by (job, queue) ({oldest}) > {limits.oldest:g}",
        summary="A job has been ready for {{ $value | humanizeDuration }} in queue {{ $labels.queue }}",
        description=f"The oldest ready job waits for more than {show_ms(round(limits.oldest * 1000))}.",
    )  # fmt: skip


def _failures(every: float) -> _Make:
    minutes = _window(1, every)

    def make(limits: Thresholds, queue: str) -> Alert | None:
        if limits.failures is None:
            return None
        return Alert(
            name="WindlassFailures",
            expr=_grown(_chosen("windlass_job_failures_total", queue), minutes, limits.failures * minutes),
            summary="{{ $value | humanize }} failures in queue {{ $labels.queue }}",
            description=f"More than {limits.failures} attempts fail in a minute.",
        )

    return make


def _dead(every: float) -> _Make:
    minutes = _window(5, every)

    def make(limits: Thresholds, queue: str) -> Alert | None:
        if limits.dead is None:
            return None
        some = f"More than {limits.dead} jobs" if limits.dead else "A job"
        return Alert(
            name="WindlassDeadLetters",
            expr=_grown(_chosen("windlass_dead_letters_total", queue), minutes, limits.dead),
            summary="New dead letters in queue {{ $labels.queue }}",
            description=f"{some} failed for good in the last {minutes} minutes. See them with: windlass dead list",
        )

    return make


def _window(minutes: int, every: float) -> int:
    """A window in minutes. A rate needs two scrapes, and one may fail, so a window has at least four."""
    return max(minutes, -int(-every * 4 // 60))


def _grown(counter: str, minutes: int, most: int) -> str:
    """A condition: a counter grew by more than this. A series that begins above 0 has no increase, so it counts whole
    if it is new, and not just seen for the first time after a gap in scraping.
    """
    new = f"({counter} unless {counter} offset {minutes}m) and on (job, instance) windlass_store_up offset {minutes}m"
    return f"{_once(f'increase({counter}[{minutes}m])')} > {most} or {_once(new)} > {most}"


def _once(expr: str) -> str:
    return f"sum by (job, queue) (max by (job, queue, task) ({expr}))"


def _of_workers(lag: float | None, every: float) -> Iterator[Alert]:
    ready = 'max by (job, queue) (windlass_queue_jobs{state="ready"}) > 0'
    yield Alert(
        name="WindlassNoWorker", lasts="2m", severity="critical",
        expr=f"{ready} and on (job, queue) max by (job, queue) (windlass_queue_workers) == 0",
        summary="No worker serves queue {{ $labels.queue }}",
        description="{{ $value }} jobs are ready and nobody will run them.",
    )  # fmt: skip
    yield Alert(
        name="WindlassRunsLost", expr=_grown("windlass_jobs_lost_total", _window(5, every), 0),
        summary="Workers died or lost their lease in the middle of jobs of queue {{ $labels.queue }}",
        description="Their jobs run again elsewhere. Look for killed processes, lack of memory and blocked machines.",
    )  # fmt: skip
    if lag is not None:
        yield Alert(
            name="WindlassLoopLag", expr=f"windlass_worker_loop_lag_seconds > {lag:g}", lasts="2m",
            summary="The event loop of a worker at {{ $labels.instance }} is blocked",
            description=f"It has been late by more than {show_ms(round(lag * 1000))} for two minutes: a task blocks.",
        )  # fmt: skip


def _of_the_store() -> Iterator[Alert]:
    yield Alert(
        name="WindlassStoreDown", expr="max by (job) (windlass_store_up) == 0", lasts="1m", severity="critical",
        summary="The store of {{ $labels.job }} cannot be reached",
        description="No job is accepted, started or settled until it answers.",
    )  # fmt: skip
    yield Alert(
        name="WindlassMetricsMissing", expr="absent(windlass_store_up)", lasts="5m", severity="critical",
        summary="Nobody scrapes the dashboard's /metrics",
        description="Without them none of the other alerts can fire.",
    )  # fmt: skip


# -- in words


def as_yaml(alerts: list[Alert], group: str = "windlass") -> str:
    """The rules as a file, as Prometheus and Mimir read it."""
    lines = ["groups:", f"  - name: {_quoted(group)}", "    rules:"]
    for alert in alerts:
        labels = {"severity": alert.severity, **({"queue": alert.queue} if alert.queue else {})}
        lines += [f"      - alert: {alert.name}", f"        expr: {_quoted(alert.expr)}", f"        for: {alert.lasts}"]
        lines += ["        labels:", *(f"          {name}: {_quoted(text)}" for name, text in labels.items())]
        lines += ["        annotations:", f"          summary: {_quoted(alert.summary)}"]
        lines += [f"          description: {_quoted(alert.description)}"]
    return "\n".join(lines) + "\n"


def as_values(alerts: list[Alert], group: str = "windlass") -> dict[str, Any]:
    """The same as plain values."""
    rules = [
        {
            "alert": alert.name, "expr": alert.expr, "for": alert.lasts,
            "labels": {"severity": alert.severity, **({"queue": alert.queue} if alert.queue else {})},
            "annotations": {"summary": alert.summary, "description": alert.description},
        }
        for alert in alerts
    ]  # fmt: skip
    return {"groups": [{"name": group, "rules": rules}]}
