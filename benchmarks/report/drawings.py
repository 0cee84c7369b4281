"""Which drawings a run gets: rates as bars, latency as bars, growth as lines."""

from typing import Any

from benchmarks import engines
from benchmarks.report import svg
from benchmarks.report.stats import Samples
from benchmarks.scenarios.base import Scenario

BARS = {
    "enqueue": ("enqueue", "concurrent", "bulk"),
    "drain": ("drain",),
    "latency": ("latency",),
    "workloads": ("io", "threads", "cpu"),
    "footprint": ("startup", "memory", "space"),
}


def draw(run: dict[str, Any]) -> dict[str, str]:
    """Drawings by name, only those the run has samples for."""
    samples = Samples(run)
    scenarios = engines.of(run).measured(run, samples.contenders)
    made = {}
    for name, families in BARS.items():
        groups = [
            (f"{one.title}: {metric.name}, {metric.unit}", _bars(samples, one, metric.name))
            for one in scenarios
            if one.family in families
            for metric in one.metrics
        ]
        if groups:
            made[name] = svg.bars(groups)
    for one in scenarios:
        if one.family == "growth":
            made[one.name.replace(":", "-")] = svg.lines(f"{one.title}, jobs/s", _growth(samples, one.name))
    return made


def _bars(samples: Samples, scenario: Scenario, metric: str) -> list[svg.Bar]:
    found = []
    for name in samples.contenders(scenario.name):
        value = samples.value(scenario.name, name, metric)
        if value:
            found.append(svg.Bar(name, value.median, value.low, value.high, name.startswith("windlass")))
    return found


def _growth(samples: Samples, scenario: str) -> list[tuple[str, list[tuple[float, float]]]]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for contender in samples.contenders(scenario):
        name, _, size = contender.partition(" @ ")
        value = samples.value(scenario, contender, "rate")
        if value:
            curves.setdefault(name, []).append((float(size.replace(",", "")), value.median))
    return [(name, sorted(curve)) for name, curve in curves.items()]
