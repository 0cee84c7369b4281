"""The filters of the templates: how numbers, durations, times and sizes look on pages, and where a link leads. Pure but
for the clock.

They return plain text, which the templates escape; pictures come from ``svg``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from markupsafe import Markup

from windlass.console.replies import Chart, JobRow, Point, Warn, WorkerRow
from windlass.console.workflow_replies import Bar, WorkflowDetail
from windlass.core.chart import MINUTE
from windlass.core.duration import show_ms
from windlass.core.filters import quoted
from windlass.core.limits import Rate, show_rate
from windlass.core.timing import find_zone
from windlass.errors import ConfigError
from windlass.handles.why import Reason
from windlass.web import svg

Place = tuple[str, str]
"""A path below the dashboard and the words of a link to it."""

SHAPES = {
    "waiting": "waiting", "scheduled": "scheduled", "ready": "ready", "running": "running", "retrying": "running",
    "succeeded": "succeeded", "done": "succeeded", "alive": "succeeded", "failed": "failed", "lost": "failed",
    "stuck": "failed", "no_worker": "failed", "refused": "failed", "crashed": "failed", "cancelled": "cancelled",
    "skipped": "skipped", "paused": "paused", "draining": "paused", "quiet": "paused",
    "stopping": "paused", "retried": "retried", "snoozed": "retried",
    "flowing": "flowing", "saturated": "flowing",
}  # fmt: skip
"""The sign beside a state's name, so that colour is never all there is."""

FAR = 300 * 24 * 3_600_000
"""So far away (ms), an instant is told with its year."""

OVER = ("succeeded", "failed", "cancelled", "skipped")


TOLD = {
    "quiet": ("quiet", "told to go quiet"), "resume": ("running", "told to resume"),
    "stop": ("stopping", "told to stop"),
}  # fmt: skip
"""An order to a worker: the mode it is in once it obeys, and how it is told."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# -- numbers


def number(value: float) -> str:
    return f"{value:,.0f}"


def counted(value: int, word: str) -> str:
    return f"{value:,} {word}{'' if value == 1 else 's'}"


def dur(ms: float | None) -> str:
    """A duration for people; a dash if it is not known."""
    if ms is None or not math.isfinite(ms):
        return "–"
    return show_ms(max(round(ms), 0)) if ms >= 1 or ms <= 0 else "<1ms"


def size(count: int) -> str:
    """Bytes for people."""
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TB"


def percent(value: float) -> str:
    return f"{value:.0f} %"


def share(part: float) -> str:
    """A part of a whole in percent; a small part is never shown as 0."""
    if not part:
        return "0 %"
    return "<0.1 %" if part < 0.001 else f"{100 * part:.1f} %"


def pace(a_minute: float) -> str:
    """A number per minute, for people."""
    return svg.short(a_minute) if a_minute >= 100 or not a_minute else f"{a_minute:.2g}"


def rate(value: Rate) -> str:
    return show_rate(value)


# -- time


def iso(ms: int) -> str:
    """An instant in ISO 8601; one beyond the calendar stays a number."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def clock(ms: int) -> str:
    """Hours, minutes and seconds in UTC; a script replaces them by the visitor's own time."""
    text = iso(ms)
    return text[11:19] if len(text) == 20 else text


def in_zone(ms: int, zone: str) -> str:
    """An instant on the wall clock of a schedule's zone: ``Fri 20 Nov, 03:00``. The page names the zone above it."""
    try:
        at = datetime.fromtimestamp(ms / 1000, UTC if zone in ("", "UTC") else find_zone(zone, "schedule"))
    except (ConfigError, ValueError, OverflowError, OSError):
        return iso(ms)
    year = " %Y" if abs(ms - now_ms()) > FAR else ""
    return at.strftime(f"%a %-d %b{year}, %H:%M{':%S' if at.second else ''}")


def ago(ms: int) -> str:
    """How long ago an instant was, or how far ahead it is."""
    past = now_ms() - ms
    told = show_ms(abs(past) // 1000 * 1000 if abs(past) >= 1000 else 0) if abs(past) >= 1000 else "now"
    if told == "now":
        return told
    return f"{told} ago" if past > 0 else f"in {told}"


def to_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def newest(row: JobRow) -> int:
    """The most telling instant of a job in its state."""
    if row.finished_at:
        return row.finished_at
    if row.state == "running":
        return row.started_at
    return row.due_at if row.state == "scheduled" and row.due_at else row.enqueued_at


# -- words


def words(name: str) -> str:
    return name.replace("_", " ")


def shape(name: str) -> str:
    return SHAPES.get(name, "dot")


def asked_of(row: WorkerRow) -> str:
    """What a worker was ordered and does not do yet."""
    mode, said = TOLD.get(row.ordered, (row.mode, ""))
    return said if row.alive and row.mode != mode else ""


def short_text(text: str, most: int = 300) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def first_line(text: str) -> str:
    return short_text(text.strip().partition("\n")[0], 160)


def first_word(text: str) -> str:
    return text.partition(":")[0].partition(" ")[0]


def part(name: str) -> str:
    """A text as one part of a path, whatever is in it."""
    return quote(name, safe="")


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# -- charts


def closed(chart: Chart) -> list[Point]:
    """The slots that are over: the open one has only begun, and would look like a fall."""
    return [point for point in chart.points if not point.open]


def series(chart: Chart, name: str) -> list[int]:
    return [point.counts.get(name, 0) for point in closed(chart)]


def sums(chart: Chart) -> list[int]:
    return [sum(point.counts.get(name, 0) for name in OVER) for point in closed(chart)]


def busy(chart: Chart) -> list[float | None]:
    return [point.busy for point in closed(chart)]


def a_minute(chart: Chart, slots: int = 5) -> str:
    """Jobs ended per minute recently: the mean of the last slots that are over."""
    late = closed(chart)[-slots:]
    if len(chart.points) < 2 or not late:
        return "0"
    minutes = len(late) * (chart.points[1].at - chart.points[0].at) / MINUTE
    over = sum(point.counts.get(name, 0) for point in late for name in OVER)
    mean = over / minutes if minutes else 0.0
    return svg.short(mean) if mean >= 10 or not mean else f"{mean:.1f}"


def graph(view: WorkflowDetail, base: str, unfold: Callable[[str], str]) -> Markup:
    return svg.graph(view, lambda node: unfold(node.group) if node.folded else f"{base}/jobs/{part(node.id)}")


def lasted(bar: Bar, now: int) -> int | None:
    """How long a row's code ran; up to now while it runs."""
    return max((bar.end or now) - bar.start, 0) if bar.start else None


# -- where to act


def place(warn: Warn) -> Place | None:
    """The page where a warning can be acted on."""
    name = part(warn.where)
    places: dict[str, Place] = {
        "no_worker": (f"/queues/{name}", "Queue"),
        "stuck": (f"/queues/{name}", "Queue"),
        "paused_backlog": (f"/queues/{name}", "Queue"),
        "stale_worker": (f"/workers#{name}", "Worker"),
        "breaker_open": ("/limits", "Breakers"),
        "dead_growing": (f"/dead?queue={name}", "Dead letters"),
        "schedule_paused": (f"/schedules#{name}", "Schedule"),
    }
    return places.get(warn.code)


def reason_place(reason: Reason) -> Place | None:
    """The page that shows what keeps a job."""
    name = part(reason.by)
    if not name:
        return None
    places: dict[str, Place] = {
        "paused_queue": (f"/queues/{name}", "Queue"),
        "no_worker": (f"/queues/{name}", "Queue"),
        "behind": (f"/queues/{name}", "Queue"),
        "paused_task": (f"/tasks/{name}", "Task"),
        "undeclared": ("/workers", "Workers"),
        "running": (f"/workers#{name}", "Worker"),
        "waiting_for": (f"/jobs?filter={quote('id:' + quoted(reason.by))}", "Job"),
        "unique_successor": (f"/jobs/{name}", "Job"),
        "lane_held": (f"/jobs/{name}", "Job"),
        "key_limited": ("/limits", "Limits"),
        "limit_reached": ("/limits", "Limits"),
        "rate_limited": ("/limits", "Limits"),
        "breaker_open": ("/limits", "Breakers"),
    }
    return places.get(reason.code)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "number": number, "compact": svg.short, "counted": counted, "dur": dur, "bytes": size, "percent": percent,
    "share": share, "pace": pace, "rate": rate,
    "iso": iso, "clock": clock, "in_zone": in_zone, "ago": ago, "to_ms": to_ms, "newest": newest,
    "words": words, "shape": shape, "asked_of": asked_of, "short_text": short_text, "first_line": first_line,
    "first_word": first_word,
    "part": part, "json": as_json, "quoted": quoted, "series": series, "sums": sums, "busy": busy, "place": place,
    "reason_place": reason_place, "throughput": svg.throughput, "quantiles": svg.quantiles, "spark": svg.spark,
    "gauge": svg.gauge, "parts": svg.parts, "graph": graph,
    "bar": svg.bar, "lasted": lasted,
}  # fmt: skip
