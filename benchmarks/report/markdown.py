"""The report as Markdown: the machine, the ratios against their targets, then every contender of every scenario."""

import os
from pathlib import Path
from typing import Any

from benchmarks import engines
from benchmarks.engines import Engine
from benchmarks.report.stats import Samples, Spread
from benchmarks.report.targets import BEST_PYTHON, Target
from benchmarks.scenarios.base import Metric, Scenario


def render(run: dict[str, Any], drawings: list[str]) -> str:
    """The whole page."""
    samples = Samples(run)
    engine = engines.of(run)
    scenarios = engine.measured(run, samples.contenders)
    ratios = _ratios(samples, scenarios, engine.targets)
    parts = [
        f"# {engine.title}",
        _others(engine),
        _machine(run),
        engine.method.strip(),
        "## Ratios and targets",
        ratios,
    ]
    parts += [f"![{name}]({name}.svg)" for name in drawings]
    parts += ["## All figures"]
    for scenario in scenarios:
        parts += [f"### {scenario.title}", _figures(samples, scenario)]
    parts += _remarks(run)
    return "\n\n".join(parts) + "\n"


def _others(engine: Engine) -> str:
    """Where the other engines' pages are, seen from this one's."""
    others = [one for one in engines.ALL.values() if one is not engine]
    links = [f"[{one.title}]({Path(os.path.relpath(one.docs, engine.docs)).as_posix()}/README.md)" for one in others]
    return f"See also: {', '.join(links)}."


def number(value: float) -> str:
    """A figure with three digits that matter."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _times(ratio: Spread) -> str:
    return f"{number(ratio.median)}× ({number(ratio.low)}–{number(ratio.high)})"


def _machine(run: dict[str, Any]) -> str:
    about = run["machine"]
    kind = "Quick run" if run["quick"] else "Full run"
    lines = [
        (
            f"{kind}, {about['date']}: {about['cores']} cores ({about['cpu']}), {about['memory']}, "
            f"{about['system']}, {about['python']}, {_server(about)}load at the start {about['load']}."
        ),
        "",
    ]
    for peer, versions in run["versions"].items():
        found = ", ".join(f"{name} {version}" for name, version in versions.items())
        lines.append(f"- {peer}: {found}")
    return "\n".join(lines)


def _server(about: dict[str, str]) -> str:
    return f"{about['server']}, " if "server" in about else ""


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _ratios(samples: Samples, scenarios: list[Scenario], targets: tuple[Target, ...]) -> str:
    known = {(one.name, metric.name): (one, metric) for one in scenarios for metric in one.metrics}
    rows = [
        _ratio_row(samples, target, *known[target.scenario, target.metric])
        for target in targets
        if (target.scenario, target.metric) in known
    ]
    return _table(["scenario", "figure", "Windlass", "beside", "its figure", "ratio (spread)", "target", "met"], rows)


def _ratio_row(samples: Samples, target: Target, scenario: Scenario, metric: Metric) -> list[str]:
    own = samples.value(scenario.name, target.subject, metric.name)
    if target.plain:
        return _plain_row(target, scenario, metric, own)
    baseline = _baseline(samples, target, metric)
    other = samples.value(scenario.name, baseline, metric.name)
    ratio = samples.ratio(scenario.name, metric.name, target.subject, baseline)
    subject = "" if target.subject == "windlass" else f" ({target.subject.removeprefix('windlass ')})"
    return [
        scenario.name + subject,
        f"{metric.name}, {metric.unit}",
        number(own.median) if own else "–",
        baseline.removeprefix("windlass ") or "–",
        number(other.median) if other else "–",
        _times(ratio) if ratio else "–",
        str(target),
        ("yes" if target.met(ratio.median) else "**no**") if ratio else "–",
    ]


def _baseline(samples: Samples, target: Target, metric: Metric) -> str:
    if target.baseline and target.baseline != BEST_PYTHON:
        return target.baseline
    runtime = "python" if target.baseline == BEST_PYTHON else ""
    return samples.best(target.scenario, metric.name, metric.higher, runtime) or ""


def _plain_row(target: Target, scenario: Scenario, metric: Metric, own: Spread | None) -> list[str]:
    """A bound on the figure itself: there is nothing beside it."""
    spread = f"({number(own.low)}–{number(own.high)})" if own else "–"
    verdict = ("yes" if target.met(own.median) else "**no**") if own else "–"
    figure = number(own.median) if own else "–"
    return [scenario.name, f"{metric.name}, {metric.unit}", figure, "–", "–", spread, str(target), verdict]


def _figures(samples: Samples, scenario: Scenario) -> str:
    head = ["contender", "configuration"]
    for metric in scenario.metrics:
        head += [f"{metric.name}, {metric.unit} (spread)", "Windlass to it"]
    rows = []
    for name in samples.contenders(scenario.name):
        row = [
            name + (" (bare queue)" if samples.bare(scenario.name, name) else ""),
            samples.setting(scenario.name, name),
        ]
        for metric in scenario.metrics:
            value = samples.value(scenario.name, name, metric.name)
            ratio = samples.ratio(scenario.name, metric.name, "windlass", name)
            row.append(f"{number(value.median)} ({number(value.low)}–{number(value.high)})" if value else "–")
            row.append(_times(ratio) if ratio and name != "windlass" else "–")
        rows.append(row)
    return _table(head, rows)


def _remarks(run: dict[str, Any]) -> list[str]:
    lines = [f"- {peer} was skipped: {reason}" for peer, reason in run["skipped"].items()]
    for failure in run["failures"]:
        where = f"{failure['contender']} ({failure['setting']})"
        lines.append(f"- {where} failed in {failure['scenario']}: {failure['reason']}")
    parts = ["## Skipped and failed", "\n".join(lines)] if lines else []
    if run["scouted"]:
        rows = [
            [found["scenario"], found["contender"], found["setting"], number(found["rate"])] for found in run["scouted"]
        ]
        table = _table(["scenario", "contender", "configuration", "its first figure"], rows)
        parts += ["## Configurations tried", "One short trial each; the fastest went into the rounds.", table]
    return parts
