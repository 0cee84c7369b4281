"""Metric families as plain values: read from a registry, sent between processes, added up, and written as text.

Counters, histograms and summaries of several processes are added up. So are the gauges of live processes, unless the
gauge says otherwise. The text is prometheus_client's own. This module does not know what is measured.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

log = logging.getLogger("windlass.metrics")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LASTING = frozenset({"counter", "histogram", "summary"})
"""Kinds whose numbers stay when their process is gone."""

_MODES: dict[str, Callable[[float, float], float]] = {"max": max, "min": min, "sum": lambda one, two: one + two}
_KNOWN = {"process_start_time_seconds": "min", "python_info": "max"}


class Point(msgspec.Struct, array_like=True):
    """One number with its full name and its labels."""

    name: str
    labels: dict[str, str]
    value: float

    @property
    def key(self) -> tuple[str, ...]:
        return (self.name, *(part for item in sorted(self.labels.items()) for part in item))


class Family(msgspec.Struct, array_like=True):
    """The points of one metric. ``mode``: how those of several processes become one: sum, max or min."""

    name: str
    kind: str
    text: str
    points: list[Point]
    mode: str = "sum"

    @property
    def lasts(self) -> bool:
        return self.kind in LASTING


def read_registry(registry: CollectorRegistry) -> list[Family]:
    """The families a registry has now. Runs collectors of the user, which may raise anything."""
    return [
        Family(
            metric.name, metric.type, metric.documentation,
            [Point(sample.name, dict(sample.labels), sample.value) for sample in metric.samples],
            _mode(registry, metric),
        )
        for metric in registry.collect()
    ]  # fmt: skip


def _mode(registry: Any, metric: Metric) -> str:
    """How a gauge is to be added up, in prometheus_client's words for several processes."""
    if metric.type in ("info", "stateset"):
        return "max"
    known: dict[str, Any] = getattr(registry, "_names_to_collectors", {})
    said = str(getattr(known.get(metric.name), "_multiprocess_mode", "")).removeprefix("live")
    return said if said in ("max", "min") else _KNOWN.get(metric.name, "sum")


def add_up(sets: Iterable[list[Family]]) -> list[Family]:
    """The families of several processes as those of one. If two disagree on a kind, the first is right."""
    found: dict[str, Family] = {}
    points: dict[str, dict[tuple[str, ...], Point]] = {}
    for families in sets:
        for family in families:
            into = found.setdefault(family.name, Family(family.name, family.kind, family.text, [], family.mode))
            if into.kind == family.kind:
                _add(points.setdefault(family.name, {}), family)
    for name, family in found.items():
        family.points = list(points[name].values())
    return list(found.values())


def _add(known: dict[tuple[str, ...], Point], family: Family) -> None:
    for point in family.points:
        before = known.get(point.key)
        if before is None:
            known[point.key] = Point(point.name, point.labels, point.value)
        else:
            # A counter's ``_created`` is an instant and is not added up.
            mode = "min" if family.lasts and point.name.endswith("_created") else family.mode
            before.value = _MODES.get(mode, _MODES["sum"])(before.value, point.value)


def lasting(families: Iterable[Family]) -> list[Family]:
    """The families that still count when their process is gone."""
    return [family for family in families if family.lasts]


def as_metrics(families: Iterable[Family]) -> Iterator[Metric]:
    for family in families:
        metric = Metric(family.name, family.text, family.kind)
        for point in family.points:
            metric.add_sample(point.name, point.labels, point.value)
        yield metric


class _Given(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics

    def describe(self) -> Iterable[Metric]:
        """Nothing: a registry asks a new collector for its names, and these are for one reading only."""
        return []


def as_text(metrics: Iterable[Metric]) -> bytes:
    """Prometheus's text format, as prometheus_client writes it."""
    registry = CollectorRegistry()
    registry.register(_Given(list(metrics)))
    return generate_latest(registry)
