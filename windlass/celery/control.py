"""``app.control`` and ``app.control.inspect()``: Celery's questions to running workers, answered from the store.

Workers present themselves in the store, and jobs name their workers, so that no worker need be asked. Orders are
Windlass's own orders to workers. What Windlass does not have is refused with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass import JobInfo, State
from windlass.celery.exceptions import ImproperlyConfigured
from windlass.celery.json_values import unpack
from windlass.celery.rates import rate_of
from windlass.celery.request import read_extra
from windlass.core.hints import did_you_mean

if TYPE_CHECKING:
    from windlass.celery.app import Celery
    from windlass.store.reads import WorkerInfo

MOST = 1_000
"""So many jobs an answer lists."""

_SLOTS = "how many tasks run at once is settled when a worker starts: start another one, or use --autoscale"
_REFUSED = {
    "autoscale": _SLOTS,
    "pool_grow": _SLOTS,
    "pool_shrink": _SLOTS,
    "pool_restart": "send SIGHUP to the worker: it replaces its processes one by one",
    "time_limit": "a task's limits are those of its code, or of the call: apply_async(time_limit=...)",
    "revoke_by_stamped_headers": "tasks carry no stamps",
    "election": "workers elect nobody",
    "clock": "events are in the order of the store",
    "memsample": "see `windlass workers`",
    "memdump": "see `windlass workers`",
    "objgraph": "see `windlass workers`",
    "hello": "workers need not know of each other",
    "query_tasks": "use query_task(ids)",
}
_NOTHING_TO_DO = ("enable_events", "disable_events", "heartbeat")
_COMMANDS = (
    "revoke",
    "terminate",
    "rate_limit",
    "add_consumer",
    "cancel_consumer",
    "shutdown",
    "ping",
    *_NOTHING_TO_DO,
)


def refused(what: str, name: str, known: Iterable[str]) -> AttributeError:
    if name in _REFUSED:
        return AttributeError(f"{what}.{name} has no counterpart: {_REFUSED[name]}")
    return AttributeError(f"there is no {what}.{name}{did_you_mean(name, known)}")


# -- which workers


def node_of(info: WorkerInfo) -> str:
    """A worker's name in Celery's form, with its id, as several may run on one host."""
    return f"celery@{info.presence.id}"


def nodes(app: Celery, destination: Any = None) -> dict[str, WorkerInfo]:
    """The live workers by name; ``destination`` picks some by ``celery@HOST``, HOST:PID or id."""
    alive = [info for info in app.windlass.sync.run(app.windlass.workers()) if info.alive]
    wanted = None if destination is None else [destination] if isinstance(destination, str) else list(destination)
    return {node_of(info): info for info in alive if wanted is None or any(_is_meant(info, name) for name in wanted)}


def _is_meant(info: WorkerInfo, name: str) -> bool:
    who = info.presence
    return name.removeprefix("celery@") in (who.id, who.host, f"{who.host}:{who.pid}")


class Inspect:
    """Questions about workers. Each answer is a mapping by worker, or None without workers."""

    def __init__(
        self, app: Celery, destination: Any = None, timeout: float | None = None, callback: Any = None,
        connection: Any = None, limit: int | None = None, pattern: str | None = None, matcher: Any = None,
    ) -> None:  # fmt: skip
        if callback is not None or pattern is not None:
            raise ImproperlyConfigured("inspect() takes destination=; callback= and pattern= have no counterpart")
        self.app, self.destination, self.limit = app, destination, limit

    def _each(self, say: Callable[[WorkerInfo], Any]) -> dict[str, Any] | None:
        found = list(nodes(self.app, self.destination).items())[: self.limit]
        return {name: say(info) for name, info in found} or None

    def _jobs(self, state: State) -> list[JobInfo]:
        return self.app.windlass.sync.jobs(state=state, limit=MOST).jobs

    def ping(self, destination: Any = None) -> dict[str, Any] | None:
        if destination is not None:
            return Inspect(self.app, destination).ping()
        return self._each(lambda info: {"ok": "pong"})

    def active(self, safe: Any = None) -> dict[str, Any] | None:
        """The tasks each worker runs."""
        running = self._jobs(State.RUNNING)
        return self._each(lambda info: [_request(job, info) for job in running if job.worker == info.presence.id])

    def scheduled(self, safe: Any = None) -> dict[str, Any] | None:
        """Scheduled tasks. They wait in the store, so every worker of their queue lists them."""
        waiting = [job for job in self._jobs(State.SCHEDULED) if job.due_at is not None]
        return self._each(
            lambda info: [
                {"eta": job.due_at.isoformat() if job.due_at else None, "priority": job.priority,
                 "request": _request(job, info)}
                for job in waiting if job.queue in info.presence.queues
            ]
        )  # fmt: skip

    def reserved(self, safe: Any = None) -> dict[str, Any] | None:
        """Nothing: a worker takes a task only when it has a slot for it."""
        return self._each(lambda info: [])

    def revoked(self) -> dict[str, Any] | None:
        """Tasks that were revoked and are still kept."""
        ids = [job.id for job in self._jobs(State.CANCELLED)]
        return self._each(lambda info: ids)

    def registered(self, *taskinfoitems: str) -> dict[str, Any] | None:
        if taskinfoitems:
            raise ImproperlyConfigured("inspect().registered() tells names; attributes of tasks have no counterpart")
        return self._each(lambda info: sorted(name for name in info.presence.declares if not _is_ours(name)))

    registered_tasks = registered

    def active_queues(self) -> dict[str, Any] | None:
        return self._each(lambda info: [{"name": queue, "routing_key": queue} for queue in info.presence.queues])

    def stats(self) -> dict[str, Any] | None:
        return self._each(_stats)

    def conf(self, with_defaults: bool = False) -> dict[str, Any] | None:
        """The settings of this app, which its workers share, without the secrets in URLs."""
        conf = self.app.conf
        names = [name for name in conf if name not in ("broker_url", "result_backend")]
        said = {name: conf[name] for name in names if with_defaults or conf.is_set(name)}
        return self._each(lambda info: said)

    def query_task(self, *ids: Any) -> dict[str, Any] | None:
        """Which of these tasks each worker runs."""
        wanted = [id for item in ids for id in ([item] if isinstance(item, str) else item)]
        found = [info for id in wanted if (info := self.app.windlass.sync.job(str(id)).info()) is not None]
        return self._each(
            lambda info: {
                job.id: ["active", _request(job, info)]
                for job in found if job.state is State.RUNNING and job.worker == info.presence.id
            }
        )  # fmt: skip

    def report(self) -> dict[str, Any] | None:
        return self._each(
            lambda info: {"ok": f"windlass {info.presence.load.get('version', '')}, queues {info.presence.queues}"}
        )

    def __getattr__(self, name: str) -> Any:
        raise refused("inspect()", name, [key for key in vars(Inspect) if not key.startswith("_")])


def _is_ours(task: str) -> bool:
    return task.startswith("*") or task == "celery.saved_group"


def _request(job: JobInfo, info: WorkerInfo) -> dict[str, Any]:
    given = job.args if isinstance(job.args, Mapping) else {}
    extra = read_extra(job.headers)
    return {
        "id": extra.id or job.id, "name": job.task, "type": job.task, "args": unpack(given.get("*args", [])),
        "kwargs": {name: unpack(value) for name, value in given.items() if name != "*args"},
        "hostname": node_of(info), "time_start": job.started_at.timestamp() if job.started_at else None,
        "acknowledged": False, "worker_pid": info.presence.pid,
        "delivery_info": {
            "exchange": "", "routing_key": job.queue, "priority": job.priority,
            "redelivered": job.crashes > 0 or job.snoozes > 0,
        },
    }  # fmt: skip


def _stats(info: WorkerInfo) -> dict[str, Any]:
    who = info.presence
    return {
        "pid": who.pid, "uptime": int(time.time() - who.started_at / 1000) if who.started_at else 0,
        "pool": {"max-concurrency": who.concurrency, "processes": [who.pid]}, "prefetch_count": who.concurrency,
        "total": {"all tasks": who.load.get("done", 0)}, "running": info.running, "mode": who.load.get("mode"),
        "memory": who.load.get("memory"), "version": who.load.get("version"),
    }  # fmt: skip


class Control:
    """Orders to workers, and changes of running tasks. ``timeout`` has no effect: no reply is waited for."""

    def __init__(self, app: Celery) -> None:
        self.app = app

    def inspect(self, destination: Any = None, **options: Any) -> Inspect:
        return Inspect(self.app, destination, **options)

    def revoke(
        self, task_id: Any, destination: Any = None, terminate: bool = False, signal: Any = None, **_: Any
    ) -> None:
        """Revoke tasks wherever they are; the store keeps the order. With ``terminate`` running ones are
        stopped too.
        """
        for id in [task_id] if isinstance(task_id, str) else task_id:
            self.app.AsyncResult(str(id)).revoke(terminate=terminate)

    def terminate(self, task_id: Any, destination: Any = None, signal: Any = None, **_: Any) -> None:
        self.revoke(task_id, terminate=True)

    def rate_limit(self, task_name: str, rate_limit: Any, destination: Any = None, **_: Any) -> None:
        """Set another rate for a task, over all workers together. ``None`` and 0: no limit."""
        if destination is not None:
            raise ImproperlyConfigured("rate_limit(destination=...) has no counterpart: a rate holds for all workers")
        gate = self.app.windlass.task_gate(task_name)
        self.app.windlass.sync.run(gate.tune(rate=rate_of(rate_limit, f"the rate_limit of {task_name}")))

    def ping(self, destination: Any = None, timeout: float = 1.0, **_: Any) -> list[dict[str, Any]]:
        return [{name: {"ok": "pong"}} for name in nodes(self.app, destination)]

    def add_consumer(self, queue: str, destination: Any = None, **options: Any) -> list[dict[str, Any]]:
        """Let workers serve a queue beside their others."""
        return self._tell(destination, lambda ids: self.app.windlass.serve(queue, *ids), f"serves {queue}")

    def cancel_consumer(self, queue: str, destination: Any = None, **options: Any) -> list[dict[str, Any]]:
        """Let workers claim nothing more from a queue."""
        return self._tell(destination, lambda ids: self.app.windlass.leave(queue, *ids), f"leaves {queue}")

    def shutdown(self, destination: Any = None, timeout: Any = None, **_: Any) -> None:
        """Let workers finish what they run and end."""
        self._tell(destination, lambda ids: self.app.windlass.order("stop", *ids), "told to stop")

    def _tell(self, destination: Any, order: Callable[[Sequence[str]], Any], done: str) -> list[dict[str, Any]]:
        meant = nodes(self.app, destination)
        if meant:
            self.app.windlass.sync.run(order([info.presence.id for info in meant.values()]))
        return [{name: {"ok": done}} for name in meant]

    def purge(self, connection: Any = None) -> int:
        """Delete the waiting jobs of the queues that a worker serves by default. Answers how many."""
        return sum(self.app.windlass.sync.queue(queue).purge() for queue in self.app.worker_queues())

    discard_all = purge

    def broadcast(
        self, command: str, arguments: Mapping[str, Any] | None = None, destination: Any = None, reply: bool = False,
        **_: Any,
    ) -> Any:  # fmt: skip
        """Give one of the orders here by its name."""
        if command not in _COMMANDS:
            raise ImproperlyConfigured(str(refused("control", command, _COMMANDS)))
        if command in _NOTHING_TO_DO:
            return [{name: {"ok": "always so"}} for name in nodes(self.app, destination)] if reply else None
        answer = getattr(self, command)(**dict(arguments or {}), destination=destination)
        return answer if reply else None

    def enable_events(self, destination: Any = None, **_: Any) -> None:
        """Nothing to do: the event stream has every job."""

    disable_events = heartbeat = enable_events

    def __getattr__(self, name: str) -> Any:
        raise refused("app.control", name, [key for key in vars(Control) if not key.startswith("_")])
