"""A worker's options, checked against the app, and what the worker declares to the store. Starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.calls.task import Task
from windlass.core.duration import to_ms
from windlass.core.hints import did_you_mean
from windlass.core.limits import NO_LIMITS, Limits
from windlass.core.terms import queue_gate, task_gate
from windlass.errors import ConfigError
from windlass.operate.notices import QUEUE as NOTICES
from windlass.settings import WorkerOptions
from windlass.store.base import Store
from windlass.store.flow import Tuning
from windlass.store.jobs import Declared
from windlass.worker.child_functions import function_path, load_object
from windlass.worker.queue_shares import parse_queues

if TYPE_CHECKING:
    from windlass.app import Windlass


_COUNTS = ("concurrency", "children", "max_jobs", "max_memory", "child_max_jobs", "child_max_memory")


class CheckedOptions(msgspec.Struct, frozen=True):
    """A worker's options after the check. Durations in seconds. ``weights`` of its queues; empty to serve them strictly
    in order.
    """

    queues: tuple[str, ...]
    weights: tuple[int, ...] = ()
    concurrency: int = 100
    children: int = 0
    grace: float = 30.0
    stall_warning: float = 1.0
    stall_limit: float = 3600.0
    max_jobs: int = 0
    max_memory: int = 0
    log_success: bool = False
    child_max_jobs: int = 0
    child_max_memory: int = 0


def check_worker_options(app: Windlass, options: Mapping[str, Any]) -> CheckedOptions:
    """Check a worker's options against the app."""
    for name in options:
        if name not in WorkerOptions.__annotations__:
            hint = did_you_mean(name, WorkerOptions.__annotations__)
            raise ConfigError(f"the worker got an unknown option {name!r}{hint}")
    for name in _COUNTS:
        value = options.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < (1 if name == "concurrency" else 0):
            raise ConfigError(f"the worker's {name} is {value!r}; give a whole number above 0")
    check_tasks(app)
    queues, weights = with_notices(app, *parse_queues(options.get("queues") or default_queues(app)))
    checked = {name: options[name] for name in _COUNTS if name in options}
    for name in ("grace", "stall_warning", "stall_limit"):
        if name in options:
            checked[name] = to_ms(options[name] or 0, name) / 1000
    checked["log_success"] = options.get("log_success", app.settings.log_success)
    if not isinstance(checked["log_success"], bool):
        raise ConfigError(f"the worker's log_success is {checked['log_success']!r}; give True or False")
    if checked.get("stall_warning") == 0:
        raise ConfigError("the worker's stall_warning is 0; give a duration above 0")
    return CheckedOptions(queues, weights, **checked)


def with_notices(
    app: Windlass, queues: tuple[str, ...], weights: tuple[int, ...]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Add the queue of notices, if the app has notices: every worker serves it. It comes first, or a backlog would
    delay the few notices there are.
    """
    if not app.notices or NOTICES in queues:
        return queues, weights
    return (NOTICES, *queues), (1, *weights) if weights else ()


def check_tasks(app: Windlass) -> None:
    """Refuse to start a worker that could run nothing, or not what it declares."""
    if not app.tasks and not app.handlers:
        raise ConfigError(
            f"app {app.name} declares no task, so this worker could run nothing. Is the module with the tasks "
            "imported? Name it in include=[...] or with --import"
        )
    for task in app.tasks.values():
        if task.runs_in == "process":
            check_importable(task)


def check_importable(task: Task[Any, Any]) -> None:
    """Refuse a task that no child could import, now and not with its first job."""
    path = function_path(task.fn)
    if not isinstance(load_object(path), Task):
        raise ConfigError(
            f"task {task.name} cannot run in a process: a child imports it as {path}, and finds the plain function "
            "there. Declare it where it is defined, with @app.task(runs_in='process')"
        )


def modules_of_process_tasks(app: Windlass) -> list[str]:
    tasks = (task for task in app.tasks.values() if task.runs_in == "process")
    return sorted({function_path(task.fn).partition(":")[0] for task in tasks})


def default_queues(app: Windlass) -> list[str]:
    """Every queue for which the app declares a task or handler, with that of notices first, as in ``with_notices``."""
    names = {task.queue for task in app.tasks.values()} | set(app.handlers) | set(app.declared.queue_layers)
    return sorted(names, key=lambda name: (name != NOTICES, name)) or ["default"]


def declarations(app: Windlass) -> dict[str, Declared]:
    """What the store is told of each task. A crash limit is told only if the code sets one."""
    declared = {}
    for task in app.tasks.values():
        layers = (task.layer, app.declared.queue_layers.get(task.queue, {}), app.declared.defaults)
        limited = any("on_crash" in layer or "max_crashes" in layer for layer in layers)
        limit = app.declared.resolve(task.name, task.queue).max_crashes if limited else 0
        declared[task.name] = Declared(task.versions, limit)
    return {**declared, **{f"*{queue}": Declared() for queue in app.handlers}}


def declared_limits(app: Windlass) -> dict[str, Limits]:
    """What the code says of the gate of each task and queue of this app, also where it says nothing."""
    gates = {task_gate(task.name): limits_of(task.layer) for task in app.tasks.values()}
    return gates | {
        queue_gate(name): limits_of(app.declared.queue_layers.get(name, {})) for name in default_queues(app)
    }


def limits_of(layer: Mapping[str, Any]) -> Limits:
    """What one layer of options says of its own gate. The limits of keys travel with the jobs."""
    rate = layer.get("rate")
    return Limits(limit=layer.get("limit") or None, rate=rate if rate is not None and rate.every else None)


_LIMITING = frozenset(("rate", "limit", "key_limit", "key_rate", "ordered", "breaker", "batch"))


def has_limits(app: Windlass) -> bool:
    """Whether this app's jobs may hold units that others wait for. Then no job is claimed before it can start."""
    layers = (*(task.layer for task in app.tasks.values()), *app.declared.queue_layers.values(), app.declared.defaults)
    return any(not _LIMITING.isdisjoint(layer) for layer in layers)


async def declare_limits(store: Store, app: Windlass) -> None:
    """Write to the gates what the code says now; a limit that is no longer in the code goes."""
    wanted = declared_limits(app)
    known = {gate.name: gate.declared for gate in await store.gates(list(wanted))}
    tunings = [
        Tuning(name=name, declared=limits) for name, limits in wanted.items() if known.get(name, NO_LIMITS) != limits
    ]
    if tunings:
        await store.tune(tunings)
