"""The Celery app: its settings and tasks, and the Windlass app behind them, which is made at first use.

Until then settings may come from anywhere and in any order, as in Celery. ``app.windlass`` is the Windlass app, with
everything Celery has no words for.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

from windlass import Keep, Windlass
from windlass import Task as WindlassTask
from windlass.celery import _state, canvas, compile, conf, prefork, signals
from windlass.celery import result as results
from windlass.celery.builtin import add_together, declare_builtin, saved_group
from windlass.celery.control import Control
from windlass.celery.declare import make_task
from windlass.celery.exceptions import AlreadyRegistered, ImproperlyConfigured, NotRegistered
from windlass.celery.json_values import pack
from windlass.celery.modules import django_apps, load, module_in
from windlass.celery.request import node_name
from windlass.celery.schedules import timing_of, zone_name
from windlass.celery.signals import Signal
from windlass.celery.task import Task
from windlass.errors import WindlassError

log = logging.getLogger("celery")

_NOT_HERE = {
    "amqp": "there is no broker",
    "backend": "results are in the store: use app.AsyncResult(id)",
    "connection": "there is no broker",
    "connection_for_read": "there is no broker",
    "connection_for_write": "there is no broker",
    "events": "use app.windlass.events()",
    "loader": "name modules in include=",
    "log": "use the standard logging module",
    "pool": "there is no broker",
    "producer_pool": "there is no broker",
    "start": "run `windlass celery -A module worker`",
    "worker_main": "run `windlass celery -A module worker`",
    "Worker": "run `windlass celery -A module worker`, or app.windlass.worker() inside a program",
    "Beat": "every worker runs the schedules",
    "setup_security": "messages are not signed; protect the store",
    "add_defaults": "use app.conf.update()",
    "steps": "a worker's parts are its own",
    "user_options": "the command line is Windlass's own",
}


class TaskRegistry(dict[str, Task]):
    """An app's tasks by name."""

    def __missing__(self, name: str) -> Task:
        raise NotRegistered(name)

    def unregister(self, name: Any) -> None:
        del self[getattr(name, "name", name)]


class Celery:
    """``Celery("proj", broker="redis://...")``. The name also separates the app's jobs from others in the store."""

    def __init__(
        self, main: str | None = None, loader: Any = None, backend: str | None = None, amqp: Any = None,
        events: Any = None, log: Any = None, control: Any = None, set_as_current: bool = True, tasks: Any = None,
        broker: str | None = None, include: Any = None, changes: Mapping[str, Any] | None = None,
        config_source: Any = None, fixups: Any = None, task_cls: Any = None, autofinalize: bool = True,
        namespace: str | None = None, strict_typing: bool = True, **settings: Any,
    ) -> None:  # fmt: skip
        for name, value in {"loader": loader, "amqp": amqp, "events": events, "log": log, "control": control}.items():
            if value is not None:
                raise ImproperlyConfigured(f"Celery({name}=...) has no counterpart: a worker's parts are its own")
        self.main = main
        self.conf = conf.Settings()
        self.Task: type[Task] = task_cls or Task
        self.strict_typing = strict_typing
        self.control = Control(self)
        self.on_configure = Signal("app.on_configure")
        self.on_after_configure = Signal("app.on_after_configure")
        self.on_after_finalize = Signal("app.on_after_finalize")
        self.on_after_fork = Signal("app.on_after_fork")
        self._tasks = TaskRegistry()
        self._windlass: Windlass | None = None
        self._lock = threading.RLock()
        self._discover: list[tuple[Any, str | None]] = []
        self._sources: list[tuple[Any, str]] = []
        self._periodic: set[str] = set()
        self._finalized = self._configured = False
        given = {"broker_url": broker, "result_backend": backend, "include": include, **(changes or {}), **settings}
        self.conf.update({name: value for name, value in given.items() if value is not None})
        if config_source is not None:
            self.config_from_object(config_source, namespace=namespace)
        declare_builtin(self)
        _state.add_app(self, set_as_current)

    # -- settings

    def config_from_object(
        self, obj: Any, silent: bool = False, force: bool = False, namespace: str | None = None
    ) -> None:
        """Take the settings of a module, a class or a mapping; a name "module:attribute" is read when it is needed."""
        self._sources.append((obj, namespace or ""))
        self.conf.read_later(lambda: self._read_sources(silent))
        if force:
            _ = self.conf.broker_url

    def _read_sources(self, silent: bool) -> None:
        sources, self._sources = self._sources, []
        for obj, namespace in reversed(sources):  # the last source wins, and what was set by hand wins over all
            try:
                found = load(obj) if isinstance(obj, str) else obj
            except ImportError:
                if silent:
                    continue
                raise
            self.conf.add_defaults(conf.from_object(found, namespace))

    def config_from_envvar(self, variable_name: str, silent: bool = False, force: bool = False) -> None:
        name = os.environ.get(variable_name)
        if name:
            self.config_from_object(name, silent=silent, force=force)
        elif not silent:
            raise ImproperlyConfigured(f"${variable_name} is not set; it names the module with the settings")

    @property
    def timezone(self) -> Any:
        zone = self.conf.timezone
        return ZoneInfo(zone) if isinstance(zone, str) else zone or UTC

    def now(self) -> datetime:
        return datetime.now(self.timezone)

    def instant(self, value: Any) -> datetime:
        """A time with its zone. A naive one is UTC, or the app's own time where ``enable_utc`` is off, as in Celery."""
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if not isinstance(value, datetime):
            raise TypeError(f"{value!r} is no datetime")
        zone = UTC if self.conf.enable_utc else self.timezone
        return value if value.tzinfo is not None else value.replace(tzinfo=zone)

    # -- tasks

    def task(self, *args: Any, **options: Any) -> Any:
        """``@app.task`` or ``@app.task(bind=True, max_retries=5, ...)``."""
        if len(args) > 1 or (args and not callable(args[0])):
            raise TypeError("@app.task takes options by name")
        if args:
            return self._task(args[0], options)
        return lambda fun: self._task(fun, options)

    def _task(self, fun: Callable[..., Any], options: Mapping[str, Any]) -> Task:
        if isinstance(fun, Task):
            raise ImproperlyConfigured(f"{fun!r} is a task already")
        name = options.get("name") or self.gen_task_name(fun.__name__, fun.__module__)
        known = self._tasks.get(name)
        if known is not None:
            before = known.__wrapped__
            if (getattr(before, "__module__", ""), getattr(before, "__qualname__", "")) == (
                fun.__module__,
                fun.__qualname__,
            ):
                return known
            raise AlreadyRegistered(
                f"two functions want the task name {name!r}: {before!r} and {fun!r}; give one name="
            )
        return self.register_task(make_task(self, fun, options))

    def register_task(self, task: Any, **options: Any) -> Task:
        """Declare an instance of a task class, or the class itself."""
        made: Task = task() if isinstance(task, type) else task
        if not made.name:
            made.name = self.gen_task_name(type(made).__name__, type(made).__module__)
        for name, value in options.items():
            setattr(made, name, value)
        made.typing = self.strict_typing if made.typing is None else made.typing
        made.attach(self)
        with self._lock:
            self._tasks[made.name] = made
            if self._windlass is not None:
                self._declare(self._windlass, made)
        return made

    def gen_task_name(self, name: str, module: str) -> str:
        if module == "__main__":
            file = getattr(sys.modules.get("__main__"), "__file__", None) or "main"
            module = self.main or os.path.splitext(os.path.basename(file))[0]
        return f"{module}.{name}"

    @property
    def tasks(self) -> TaskRegistry:
        if not self._finalized:
            self.finalize()
        return self._tasks

    def finalize(self, auto: bool = False) -> None:
        """Declare the shared tasks. Happens by itself."""
        with self._lock:
            if not self._finalized:
                self._finalized = True
                _state.declare_shared(self)
                self.on_after_finalize.send(sender=self)

    def autodiscover_tasks(self, packages: Any = None, related_name: str | None = "tasks", force: bool = False) -> None:
        """Import ``package.tasks`` of each package when the app is used. Without packages: those of Django."""
        self._discover.append((packages, related_name))
        if force:
            self.import_default_modules()
        elif self._windlass is not None:
            self._windlass.include.extend(self._found())

    def import_default_modules(self) -> None:
        """Import the modules that declare tasks: ``include``, ``imports`` and what is discovered."""
        for module in dict.fromkeys([*self.conf.include, *self.conf.imports, *self._found()]):
            importlib.import_module(module)

    def _found(self) -> list[str]:
        found: list[str] = []
        for packages, related in self._discover:
            names = packages() if callable(packages) else packages if packages is not None else django_apps()
            for package in [names] if isinstance(names, str) else names:
                if (module := module_in(package, related)) is not None:
                    found.append(module)
        return found

    # -- the app behind it

    @property
    def windlass(self) -> Windlass:
        """The Windlass app that keeps and runs the jobs."""
        if self._windlass is None:
            with self._lock:
                if self._windlass is None:
                    self._windlass = self._make_windlass()
        return self._windlass

    def _make_windlass(self) -> Windlass:
        self._configure()
        settings = self.conf
        name = re.sub(r"[^A-Za-z0-9_.:/@-]", "-", self.main or "celery").lstrip(".:/@-") or "celery"
        modules = list(dict.fromkeys([*settings.include, *settings.imports, *self._found()]))
        expires = settings.result_expires
        done = Keep(count=None if settings.is_set("result_expires") else 100_000, age=expires or None)
        zone = settings.timezone if isinstance(settings.timezone, str) else "UTC"
        made = Windlass(
            name, settings.broker_url, include=modules, tz=zone,
            keep=Keep(
                count=done.count, age=done.age, failed=Keep(count=100_000, age=settings.result_failure_expires or "30d")
            ),
        )  # fmt: skip
        self.finalize()
        settings.fix()
        made.task(name="celery.saved_group", queue=settings.task_default_queue)(saved_group)
        made.task(name="celery.together", queue=settings.task_default_queue)(add_together)
        for task in self._tasks.values():
            self._declare(made, task)
        made.on_start(self._on_start)
        made.on_stop(self._on_stop)
        return made

    def _configure(self) -> None:
        if not self._configured:
            self._configured = True
            self.on_configure.send(sender=self)
            _ = self.conf.broker_url
            self.on_after_configure.send(sender=self, source=self.conf)

    @staticmethod
    def _declare(made: Windlass, task: Task) -> None:
        made.declared.add_task(task.function_for_windlass(), task.options_for_windlass())

    def declared(self, name: str) -> WindlassTask[Any, Any]:
        """A task as Windlass knows it."""
        return self.windlass.tasks[name]

    def _on_start(self, state: SimpleNamespace) -> None:
        worker = SimpleNamespace(hostname=node_name(), app=self)
        signals.worker_init.send(sender=worker)
        if not prefork.is_used_by(self):  # its children send the signal themselves
            signals.worker_process_init.send(sender=worker)
        self.declare_schedules()
        signals.worker_ready.send(sender=worker)

    def _on_stop(self, state: SimpleNamespace) -> None:
        worker = SimpleNamespace(hostname=node_name(), app=self)
        if not prefork.is_used_by(self):
            signals.worker_process_shutdown.send(sender=worker, pid=os.getpid(), exitcode=0)
        signals.worker_shutdown.send(sender=worker)

    # -- calling

    def send(self, name: str, args: Any, kwargs: Any, options: dict[str, Any]) -> Any:
        """Make one call. ``link`` and the like are among the options."""
        sig = canvas.Signature(name, args, kwargs, options, app=self)
        return compile.submit(self, sig)

    def send_task(
        self, name: str, args: Any = None, kwargs: Any = None, countdown: float | None = None, eta: Any = None,
        task_id: str | None = None, producer: Any = None, connection: Any = None, router: Any = None,
        result_cls: Any = None, expires: Any = None, publisher: Any = None, link: Any = None, link_error: Any = None,
        **options: Any,
    ) -> Any:  # fmt: skip
        """Call a task by name, also one of another program."""
        given = {"countdown": countdown, "eta": eta, "task_id": task_id, "expires": expires, "link": link,
                 "link_error": link_error, **options}  # fmt: skip
        return self.send(name, args, kwargs, {key: value for key, value in given.items() if value is not None})

    def signature(self, *args: Any, **kwargs: Any) -> canvas.Signature:
        return canvas.signature(*args, app=self, **kwargs)

    subtask = signature

    def AsyncResult(self, id: str, **options: Any) -> results.AsyncResult:
        return results.AsyncResult(id, app=self, **options)

    def GroupResult(
        self, id: str | None = None, members: Any = (), parent: Any = None, **options: Any
    ) -> results.GroupResult:
        return results.GroupResult(id, options.pop("results", members), parent, app=self, **options)

    def ResultSet(self, members: Any = (), **options: Any) -> results.ResultSet:
        return results.ResultSet(options.pop("results", members), app=self, **options)

    # -- groups that were saved

    def save_group(self, result: results.GroupResult) -> None:
        """Save a group's ids as the arguments of a job that does nothing: its record is kept as long as results are."""
        call = self.declared("celery.saved_group").options(id=f"{result.id}.saved")
        call.delay(pack(result.as_tuple()))

    def restore_group(self, id: str) -> results.GroupResult | None:
        info = self.windlass.sync.job(f"{id}.saved").info()
        return results.result_from_tuple(info.args["group"], self) if info is not None else None

    def delete_group(self, id: str) -> None:
        self.windlass.sync.job(f"{id}.saved").forget()

    # -- schedules

    def add_periodic_task(
        self, schedule: Any, sig: Any, args: Any = (), kwargs: Any = None, name: str | None = None, **options: Any
    ) -> str:
        """An entry of ``beat_schedule``: workers run it."""
        found = canvas.maybe_signature(sig, self)
        if found.members or found.is_empty:
            raise ImproperlyConfigured(f"a periodic task is one task, and {found!r} is several; let a task call them")
        key = name or repr(found)
        self.conf.beat_schedule[key] = {
            "task": found.task, "schedule": schedule, "args": (*found.args, *args),
            "kwargs": {**found.kwargs, **(kwargs or {})}, "options": {**found.options, **options},
        }  # fmt: skip
        return key

    def declare_schedules(self) -> None:
        """Declare ``beat_schedule``, as it is now, as schedules of this worker's code."""
        declared = self.windlass.schedules.declared
        for gone in self._periodic - self.conf.beat_schedule.keys():
            declared.pop(gone, None)
        self._periodic = set(self.conf.beat_schedule)
        for key, entry in self.conf.beat_schedule.items():
            sig = canvas.Signature(
                entry["task"], entry.get("args") or (), entry.get("kwargs") or {}, dict(entry.get("options") or {}),
                app=self,
            )  # fmt: skip
            try:
                timing, policies = timing_of(entry["schedule"], self.timezone)
                call = compile.periodic_call(self, sig)
                self.windlass.schedules.declare_call(key, timing, call, {**policies, "tz": zone_name(self.timezone)})
            except (TypeError, ValueError, WindlassError) as error:
                raise ImproperlyConfigured(f"beat_schedule[{key!r}]: {error}") from error

    # -- the rest

    @property
    def current_task(self) -> Any:
        frame = _state.current_frame()
        return frame.task if frame is not None else None

    @property
    def configured(self) -> bool:
        return self._configured

    def set_current(self) -> None:
        _state.set_current(self)

    set_default = set_current

    def worker_queues(self) -> list[str]:
        """The queues of a worker that is given none: ``task_queues``, or the default one alone, as in Celery."""
        return list(self.conf.task_queues) or [self.conf.task_default_queue]

    def close(self) -> None:
        """Close the connection to the store."""
        if self._windlass is not None:
            self._windlass.sync.close()

    def __enter__(self) -> Celery:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name in _NOT_HERE:
            raise AttributeError(f"app.{name} has no counterpart: {_NOT_HERE[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<Celery {self.main or '__main__'}>"


def shared_task(*args: Any, **options: Any) -> Any:
    """Declare a task in every app: for code that does not know which app it will be part of."""

    def share(fun: Callable[..., Any]) -> Any:
        _state.add_shared(lambda app: app.task(**options)(fun))
        wanted = options.get("name")
        return _state.Proxy(
            lambda: (app := _state.get_current_app()).tasks[wanted or app.gen_task_name(fun.__name__, fun.__module__)]
        )

    return share(args[0]) if len(args) == 1 and callable(args[0]) else share
