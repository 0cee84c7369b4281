"""The report as Markdown: the machine, the ratios against their targets, then every contender of every scenario."""

from typing import Any

from benchmarks.harness.plan import FULL, QUICK
from benchmarks.report.stats import Samples, Spread
from benchmarks.report.targets import TARGETS, Target
from benchmarks.scenarios import build
from benchmarks.scenarios.base import Metric, Scenario

HOW = """
How it was measured: every system in its own environment, all on this machine in one run. Each scenario ran in rounds,
every round measuring all contenders in rotated order; a ratio is taken within a round, and the table gives the median
of the rounds with the smallest and largest. Backlogs are filled before the worker starts; the worker is a new process,
started with the system's own command (never forked from the harness), and the clock runs from the first executed job
to the last, stamped by the jobs themselves in shared memory.

*Full* syncs every commit (`synchronous=FULL`; Huey `fsync=True`). *Relaxed* does not: Windlass uses `NORMAL`, which
keeps the file whole after a power cut, while Huey with `fsync=False` and django-tasks-db use `OFF`, which may not, and
Celery's filesystem transport syncs nothing. Pollers were set to look every 0.2 to 5 ms, their idle processor time is
given. Bare queues have no tasks, results, retries or workers; they are listed and not counted as best peer. Slow
systems were given fewer jobs.
"""


def render(run: dict[str, Any], drawings: list[str]) -> str:
    """The whole page."""
    samples = Samples(run)
    scenarios = [one for one in build(QUICK if run["quick"] else FULL) if samples.contenders(one.name)]
    parts = ["# Benchmarks", _machine(run), HOW.strip(), "## Ratios and targets", _ratios(samples, scenarios)]
    parts += [f"![{name}]({name}.svg)" for name in drawings]
    parts += ["## All figures"]
    for scenario in scenarios:
        parts += [f"### {scenario.title}", _figures(samples, scenario)]
    parts += _remarks(run)
    return "\n\n".join(parts) + "\n"


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
            f"{about['system']}, {about['python']}, load at the start {about['load']}."
        ),
        "",
    ]
    for peer, versions in run["versions"].items():
        found = ", ".join(f"{name} {version}" for name, version in versions.items())
        lines.append(f"- {peer}: {found}")
    return "\n".join(lines)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _ratios(samples: Samples, scenarios: list[Scenario]) -> str:
    known = {(one.name, metric.name): (one, metric) for one in scenarios for metric in one.metrics}
    rows = [
        _ratio_row(samples, target, *known[target.scenario, target.metric])
        for target in TARGETS
        if (target.scenario, target.metric) in known
    ]
    return _table(["scenario", "figure", "Windlass", "beside", "its figure", "ratio (spread)", "target", "met"], rows)


def _ratio_row(samples: Samples, target: Target, scenario: Scenario, metric: Metric) -> list[str]:
    baseline = target.baseline or samples.best(scenario.name, metric.name, metric.higher) or ""
    own = samples.value(scenario.name, target.subject, metric.name)
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
        table = _table(["scenario", "contender", "configuration", "jobs/s"], rows)
        parts += ["## Configurations tried", "One short trial each; the fastest went into the rounds.", table]
    return parts
