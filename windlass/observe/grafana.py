"""A dashboard for Grafana, as the JSON it imports: panels over the metrics of the store and of the workers. Pure."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

WIDE, HALF, THIRD = 24, 12, 8
HEIGHT = 8
_STORE = 'queue=~"$queue"'
_TASKS = 'queue=~"$queue",task=~"$task"'
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
RATE = "$__rate_interval"


class Line(NamedTuple):
    """One query, and the name of its lines."""

    expr: str
    legend: str


class Panel(NamedTuple):
    """A chart. ``unit`` as Grafana names it."""

    title: str
    text: str
    lines: tuple[Line, ...]
    unit: str = "short"
    width: int = HALF
    stacked: bool = False


def _counted(metric: str, by: str, chosen: str = _TASKS) -> str:
    """The query for a rate. Two dashboards of one app report the same series, so the largest counts and not the sum."""
    return f"sum by ({by}) (max without (instance, pod) (rate({metric}{{{chosen}}}[{RATE}])))"


def _now(metric: str, by: str, *chosen: str) -> str:
    inside = ",".join(chosen)
    return f"max by ({by}) ({metric}{{{inside}}})" if inside else f"max by ({by}) ({metric})"


def _quantiles(metric: str) -> tuple[Line, ...]:
    cells = f"sum by (le) (rate({metric}_bucket{{{_TASKS}}}[{RATE}]))"
    return tuple(Line(f"histogram_quantile({part}, {cells})", name)
                 for part, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")))  # fmt: skip


def _panels() -> dict[str, list[Panel]]:
    """The panels by row."""
    return {"Flow": _flow(), "Time": _time(), "Trouble": _trouble(), "Limits": _limits(), "Workers": _workers()}


def _flow() -> list[Panel]:
    ready = _now("windlass_queue_jobs", "queue", 'state="ready"', _STORE)
    live = _now("windlass_queue_jobs", "queue, state", 'state!~"succeeded|cancelled|skipped"', _STORE)
    settled = _counted("windlass_jobs_settled_total", "outcome")
    accepted, started = (_counted(f"windlass_jobs_{what}_total", "job") for what in ("accepted", "started"))
    oldest = _now("windlass_queue_oldest_ready_seconds", "queue", _STORE)
    used = "max(windlass_slots_used) / (max(windlass_slots) > 0)"
    return [
        Panel("Jobs settled", "By outcome, each second", (Line(settled, "{{outcome}}"),), "ops", stacked=True),
        Panel("Accepted, started", "Each second", (Line(accepted, "accepted"), Line(started, "started")), "ops"),
        Panel("Ready jobs", "By queue", (Line(ready, "{{queue}}"),)),
        Panel("Oldest ready job", "How long it has been waiting", (Line(oldest, "{{queue}}"),), "s"),
        Panel("Jobs by state", "Of the chosen queues", (Line(f"sum by (state) ({live})", "{{state}}"),)),
        Panel("Slots in use", "Of all live workers", (Line(used, "used"),), "percentunit"),
    ]


def _time() -> list[Panel]:
    wait, run, whole = (_quantiles(f"windlass_worker_{what}_seconds") for what in ("wait", "run", "job"))
    return [
        Panel("Waiting", "From being due to being claimed", wait, "s", THIRD),
        Panel("Running", "The task's own code", run, "s", THIRD),
        Panel("End to end", "From being enqueued to the end of the job", whole, "s", THIRD),
    ]


def _trouble() -> list[Panel]:
    retried, dead = (_counted(f"windlass_{what}_total", "queue") for what in ("jobs_retried", "dead_letters"))
    kept = _now("windlass_queue_jobs", "queue", 'state="failed"', _STORE)
    lost = (
        Line(_counted("windlass_jobs_lost_total", "queue"), "{{queue}}"),
        Line(f"sum(rate(windlass_worker_lost_claims_total[{RATE}]))", "leases lost"),
        Line(f"sum(rate(windlass_worker_process_deaths_total[{RATE}]))", "processes that died"),
    )
    opened = 'max by (breaker) (windlass_breaker_state{state="open"})'
    return [
        Panel("Retries", "Attempts that failed and are tried again, each second", (Line(retried, "{{queue}}"),), "ops"),
        Panel("New dead letters", "Each second", (Line(dead, "{{queue}}"),), "ops"),
        Panel("Dead letters", "That are in the store now", (Line(kept, "{{queue}}"),)),
        Panel("Runs lost", "Workers that died or lost their lease in the middle of a job", lost, "ops"),
        Panel("Breakers", "1 while open", (Line(opened, "{{breaker}}"),), width=WIDE),
    ]


def _limits() -> list[Panel]:
    waiting, held, limit = (_now(f"windlass_gate_{what}", "kind, name") for what in ("waiting_lanes", "held", "limit"))
    kept, replaced = (_counted(f"windlass_jobs_{what}_total", "queue") for what in ("deduplicated", "replaced"))
    due = "max by (schedule) (windlass_schedule_next_slot_timestamp_seconds) - time()"
    gate = "{{kind}} {{name}}"
    return [
        Panel("Lanes that wait", "At a limit, a rate, a pause or a breaker", (Line(waiting, gate),)),
        Panel("Limits in use", "Units that run, of those that may", (Line(f"{held} / {limit}", gate),), "percentunit"),
        Panel(
            "Deduplicated calls", "That made no job, each second",
            (Line(kept, "{{queue}}"), Line(replaced, "{{queue}} replaced")), "ops",
        ),
        Panel("Schedules", "Time until the next slot; below 0 it is late", (Line(due, "{{schedule}}"),), "s"),
    ]  # fmt: skip


def _workers() -> list[Panel]:
    serving = Line(_now("windlass_queue_workers", "queue", _STORE), "{{queue}}")
    lost = Line('max(windlass_workers{state="lost"})', "lost")
    running = Line("windlass_worker_running", "{{instance}} running")
    slots = Line("windlass_worker_slots", "{{instance}} slots")
    names = ("loop_lag_seconds", "memory_bytes", "stuck_threads")
    lag, memory, stuck = ((Line(f"windlass_worker_{name}", "{{instance}}"),) for name in names)
    return [
        Panel("Workers", "That serve each queue", (serving, lost)),
        Panel("Running jobs", "In each worker, of its slots", (running, slots)),
        Panel("Event loop lag", "The worst process of each worker", lag, "s", THIRD),
        Panel("Memory", "Resident, of each worker", memory, "bytes", THIRD),
        Panel("Stuck threads", "Their job timed out, and they go on", stuck, width=THIRD),
    ]


def make_dashboard(app: str = "") -> dict[str, Any]:
    """The whole dashboard; ``app`` is in its title."""
    name = re.sub(r"[^a-z0-9]+", "-", app.lower()).strip("-")[:30]
    return {
        "title": f"Windlass: {app}" if app else "Windlass",
        "uid": f"windlass-{name}" if name else "windlass",
        "description": "Jobs, queues and workers",
        "tags": ["windlass"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": _variables()},
        "panels": _laid_out(_panels()),
    }


def _variables() -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}
    return [
        source,
        _variable("queue", "Queue", "label_values(windlass_queue_jobs, queue)"),
        _variable("task", "Task", 'label_values(windlass_jobs_accepted_total{queue=~"$queue"}, task)'),
    ]


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name, "label": label, "type": "query", "datasource": _SOURCE, "definition": query,
        "query": {"query": query, "refId": name}, "refresh": 2, "sort": 1, "multi": True, "includeAll": True,
        "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]},
    }  # fmt: skip


def _laid_out(rows: dict[str, list[Panel]]) -> list[dict[str, Any]]:
    """The rows with the positions of their panels, each row under its title."""
    made: list[dict[str, Any]] = []
    y = 0
    for title, panels in rows.items():
        place = {"x": 0, "y": y, "w": WIDE, "h": 1}
        made.append(
            {"id": len(made) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        )
        x, y = 0, y + 1
        for panel in panels:
            if x + panel.width > WIDE:
                x, y = 0, y + HEIGHT
            made.append(_drawn(panel, len(made) + 1, {"x": x, "y": y, "w": panel.width, "h": HEIGHT}))
            x += panel.width
        y += HEIGHT
    return made


def _drawn(panel: Panel, id: int, place: dict[str, int]) -> dict[str, Any]:
    custom = {"fillOpacity": 30 if panel.stacked else 10, "showPoints": "never",
              "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"}}  # fmt: skip
    return {
        "id": id, "type": "timeseries", "title": panel.title, "description": panel.text, "gridPos": place,
        "datasource": _SOURCE,
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": line.expr, "legendFormat": line.legend}
            for number, line in enumerate(panel.lines)
        ],
        "fieldConfig": {"defaults": {"unit": panel.unit, "custom": custom}, "overrides": []},
        "options": {"legend": {"displayMode": "list"}, "tooltip": {"mode": "multi", "sort": "desc"}},
    }  # fmt: skip
