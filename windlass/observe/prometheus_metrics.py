"""Makes Prometheus metrics of numbers; the table of names gives each its kind, help text and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from windlass.core.chart import BOUNDS
from windlass.observe.names import EVERY

Labels = TypeVar("Labels", bound=tuple[str, ...])
_BOUNDS = [repr(bound / 1000) for bound in BOUNDS]


def numbers(name: str, values: Mapping[Labels, float]) -> Metric:
    """A counter or gauge with a number for each set of label values."""
    spec = EVERY[name]
    made = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
    metric: CounterMetricFamily | GaugeMetricFamily = made(name, spec.text, labels=spec.labels)
    for labels, value in values.items():
        metric.add_metric(labels, value)
    return metric


def number(name: str, value: float) -> Metric:
    """A metric without labels."""
    return numbers(name, {(): value})


def histogram(name: str, cells: Iterable[tuple[tuple[str, ...], Sequence[int], int]]) -> Metric:
    """A histogram: for each set of label values the cells, as in charts, and the sum in ms."""
    spec = EVERY[name]
    metric = HistogramMetricFamily(name, spec.text, labels=spec.labels)
    for labels, counts, ms in cells:
        seen, buckets = 0, []
        for bound, count in zip([*_BOUNDS, "+Inf"], counts, strict=True):
            seen += count
            buckets.append((bound, float(seen)))
        metric.add_metric(labels, buckets, ms / 1000)
    return metric
