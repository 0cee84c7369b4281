"""``windlass celery -A module worker|beat|flower``: Celery's command line for apps of ``windlass.celery``.

Options with a counterpart do the same; options that tune what does not exist here are accepted and change nothing;
others are refused with the reason. Celery's prefork pool becomes as many worker processes, with one task at a time in
each.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import click
import msgspec

from windlass.app import Windlass
from windlass.celery import Celery, prefork, signals
from windlass.celery.setting_names import GREEN, NO_GREEN
from windlass.cli import banner, celery_control, option_types
from windlass.cli.errors import CliError, NotDone
from windlass.cli.find_app import load_module, load_tasks, module_of_file, search_here, split
from windlass.cli.worker import ARGUMENTS, command, description, run_alone
from windlass.core.hints import did_you_mean
from windlass.support.logs import LEVELS
from windlass.worker.logs import set_up_logging

POOLS = ("prefork", "processes", "threads", "solo", *GREEN)
INSTEAD = {
    "events": "windlass tail", "list": "windlass queues", "report": "windlass doctor",
    "graph": "app.windlass.workflow()",
    "multi": "a service manager such as systemd, one unit per worker", "shell": "python -i", "logtool": "windlass tail",
    "migrate": "nothing: jobs stay in the store", "upgrade": "nothing: settings have their new names only",
}  # fmt: skip


class CeleryCommands(click.Group):
    """A group that names the replacement of Celery's other commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.commands and not ctx.resilient_parsing:
            if name in INSTEAD:
                ctx.fail(f"`celery {name}` has no counterpart of this name; use {INSTEAD[name]}")
            ctx.fail(f"there is no command {name!r}{did_you_mean(name, [*self.commands, *INSTEAD])}")
        return super().resolve_command(ctx, args)


@click.group(cls=CeleryCommands)
@click.option("-A", "--app", "spec", metavar="APP", envvar="CELERY_APP", help="The module with the Celery app.")
@click.option("-b", "--broker", envvar="CELERY_BROKER_URL", metavar="URL", help="The store, over what the app says.")
@click.option("--workdir", type=click.Path(exists=True, file_okay=False), help="Change to this folder first.")
@click.pass_context
def celery(ctx: click.Context, spec: str | None, broker: str | None, workdir: str | None) -> None:
    """Run an app written for Celery that imports windlass.celery.

    APP is a module, as for Celery: `proj` finds `proj.app`, `proj.celery`, or any Celery app in either.

    \b
      windlass celery -A proj worker -l INFO -Q emails,default -c 4
    """
    if workdir:
        os.chdir(workdir)
    ctx.obj = CeleryOptions(spec or ctx.meta.get("windlass.app") or os.environ.get("WINDLASS_APP", ""), broker)


class CeleryOptions(NamedTuple):
    """The options given before the command."""

    spec: str
    broker: str | None


# -- finding the app


def find_celery(given: CeleryOptions) -> Celery:
    """The Celery app a module holds, under any name; for a package, also the one in its module ``celery``."""
    if not given.spec:
        raise click.UsageError("which app? Give its module: windlass celery -A proj worker")
    place, _, attribute = split(given.spec)
    search_here()
    module = load_module(module_of_file(place) if place.endswith(".py") else place, given.spec)
    app = _named(module, attribute, given.spec) if attribute else _only(module, given.spec)
    if given.broker:
        app.conf.broker_url = given.broker
    return app


def _named(module: ModuleType, attribute: str, spec: str) -> Celery:
    found = getattr(module, attribute, None)
    if isinstance(found, ModuleType):
        return _only(found, spec)
    if not isinstance(found, Celery):
        near = did_you_mean(attribute, _apps(module)) or _instead(module)
        raise CliError(f"{spec}: {module.__name__} has no Celery app {attribute!r}{near}")
    return found


def _apps(module: ModuleType) -> dict[str, Celery]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Celery)}


def _only(module: ModuleType, spec: str) -> Celery:
    apps = _apps(module)
    for name in ("app", "celery"):
        if name in apps:
            return apps[name]
    if len({id(app) for app in apps.values()}) == 1:
        return next(iter(apps.values()))
    if apps:
        raise CliError(
            f"{spec} has {len(apps)} Celery apps; say which: {' or '.join(f'{spec}:{name}' for name in apps)}"
        )
    inner = f"{module.__name__}.celery"
    if hasattr(module, "__path__") and importlib.util.find_spec(inner) is not None:
        return _only(load_module(inner, inner), inner)
    raise CliError(f"{spec} has no Celery app{_instead(module)}")


def _instead(module: ModuleType) -> str:
    """Why the module may hold no app of this layer: an import of Celery that was not changed."""
    theirs = sys.modules.get("celery")
    if theirs is not None and any(isinstance(value, getattr(theirs, "Celery", ())) for value in vars(module).values()):
        return "; its app is one of the celery package: import Celery from windlass.celery"
    return ""


# -- the worker


def _refused(reason: str) -> dict[str, Any]:
    def refuse(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value:
            raise click.UsageError(f"{'/'.join(param.opts)} has no counterpart: {reason}")

    return {"callback": refuse, "expose_value": False, "hidden": True, "help": f"Refused: {reason}."}


_UNUSED: dict[str, Any] = {"expose_value": False, "hidden": True, "help": "Taken, and of no effect here."}
_COUNT: dict[str, Any] = {"type": click.IntRange(min=1), "metavar": "N"}
_OPTIONS = [
    click.option("-Q", "--queues", callback=option_types.queues, multiple=True, metavar="A,B", help="Queues to serve."),
    click.option(
        "-X", "--exclude-queues", callback=option_types.queues, multiple=True, metavar="A,B", help="Not these."
    ),
    click.option("-c", "--concurrency", metavar="N", help="Tasks at once [one per core]."),
    click.option("-P", "--pool", type=click.Choice(POOLS), help="Child processes, threads, or one at a time."),
    click.option("--autoscale", callback=option_types.scale, metavar="MAX,MIN", help="Processes by load."),
    click.option("--max-tasks-per-child", **_COUNT, help="Replace a process after so many tasks."),
    click.option("--max-memory-per-child", **_COUNT, help="Replace a process that occupies more KiB than this."),
    click.option("--time-limit", type=float, metavar="SECONDS", help="Hard limit of every task without its own."),
    click.option("--soft-time-limit", type=float, metavar="SECONDS", help="Soft limit of every task without its own."),
    click.option("-I", "--include", multiple=True, metavar="A,B", help="More modules with tasks."),
    click.option(
        "-l",
        "--loglevel",
        default="warning",
        type=click.Choice([*LEVELS, "fatal"], case_sensitive=False),
        help="Log from this level on.",
        show_default=True,
    ),
    click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="Text or JSON lines."),
    click.option("-B", "--beat", is_flag=True, **_UNUSED),
    click.option("-n", "--hostname", **_UNUSED),
    click.option("-O", "--optimization", **_UNUSED),
    click.option("-E", "--task-events", "--events", is_flag=True, **_UNUSED),
    click.option("--prefetch-multiplier", **_UNUSED),
    click.option("--disable-prefetch", is_flag=True, **_UNUSED),
    click.option("--pool-start-method", **_UNUSED),
    click.option("--heartbeat-interval", **_UNUSED),
    click.option("--without-gossip", is_flag=True, **_UNUSED),
    click.option("--without-mingle", is_flag=True, **_UNUSED),
    click.option("--without-heartbeat", is_flag=True, **_UNUSED),
    click.option("-S", "--statedb", **_UNUSED),
    click.option("-s", "--schedule", "--schedule-filename", **_UNUSED),
    click.option("--scheduler", **_UNUSED),
    click.option("-D", "--detach", is_flag=True, **_refused("let a service manager such as systemd run the worker")),
    click.option("--pidfile", **_refused("let a service manager such as systemd run the worker")),
    click.option("-f", "--logfile", **_refused("redirect standard error: 2>worker.log")),
    click.option("--uid", **_refused("start the worker as that user")),
    click.option("--gid", **_refused("start the worker as that group")),
    click.option("--umask", **_refused("set it before the worker starts")),
    click.option("--purge", "--discard", is_flag=True, **_refused("cancel jobs with `windlass cancel`")),
    click.option("--child", is_flag=True, hidden=True, help="This is a supervisor's child."),
    click.option("--describe", is_flag=True, hidden=True, help="Print what the banner shows as JSON, and exit."),
    click.option("--plan", is_flag=True, hidden=True, help="Print what is to be started as JSON, and exit."),
]


def _worker_options(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@celery.command()
@_worker_options
@click.pass_obj
def worker(given: CeleryOptions, /, **options: Any) -> None:
    """Run a worker, with Celery's options."""
    job = ProcessRole(given, options)
    if options["plan"]:
        sys.exit(job.tell_plan())
    if options["describe"]:
        sys.exit(job.describe())
    if options["child"]:
        sys.exit(job.be_child())
    # The app's settings say which processes to start, and the supervisor imports no user code: another process asks.
    planned = ask_plan(command(click.get_current_context().meta[ARGUMENTS], "--plan"))
    if not planned.supervised:
        sys.exit(job.run())
    from windlass.cli.supervise import supervise

    set_up_logging(job.level, options["log_format"])
    wanted = {"processes": planned.processes, "autoscale": planned.autoscale, "reload": False}
    sys.exit(supervise(wanted, given.spec, options["log_format"]))


class WorkerPlan(msgspec.Struct):
    """The worker that its options and its app's settings describe together."""

    processes: int
    concurrency: int
    queues: list[str]
    autoscale: tuple[int, int] | None = None
    max_jobs: int | None = None
    max_memory: int | None = None
    children: int = 0

    @property
    def supervised(self) -> bool:
        """Whether whole processes are started and stopped. The children of a pool belong to their worker."""
        return not self.children and bool(self.processes > 1 or self.autoscale or self.max_jobs or self.max_memory)

    def options(self) -> dict[str, Any]:
        """The options for Windlass's worker."""
        chosen: dict[str, Any] = {"queues": self.queues, "concurrency": self.concurrency}
        prefix = "child_" if self.children else ""
        for name, value in (("max_jobs", self.max_jobs), ("max_memory", self.max_memory)):
            if value:
                chosen[prefix + name] = value
        if self.children:
            chosen["children"] = self.children
        return chosen


def make_plan(app: Celery, options: dict[str, Any]) -> WorkerPlan:
    """Lay the command line over the app's settings."""
    conf = app.conf
    pool = pool_of(app, options)
    wanted = options["concurrency"] if options["concurrency"] is not None else conf.worker_concurrency
    count = os.cpu_count() or 1 if wanted in (None, "auto", "0", 0) else _whole(wanted)
    in_processes = pool == "processes"
    if pool == "prefork":
        count = options["autoscale"][1] if options["autoscale"] else count
    memory = options["max_memory_per_child"] or conf.worker_max_memory_per_child
    queues = [queue for queue in options["queues"] or app.worker_queues() if queue not in options["exclude_queues"]]
    if not queues:
        raise click.UsageError("no queue is left to serve")
    return WorkerPlan(
        processes=count if in_processes else 1, concurrency=1 if in_processes or pool == "solo" else count,
        autoscale=options["autoscale"], queues=queues, children=count if pool == "prefork" else 0,
        max_jobs=options["max_tasks_per_child"] or conf.worker_max_tasks_per_child,
        max_memory=max(1, memory // 1024) if memory else None,
    )  # fmt: skip


def pool_of(app: Celery, options: dict[str, Any]) -> str:
    pool: str = options["pool"] or app.conf.worker_pool
    if pool in GREEN:
        raise click.UsageError(f"--pool {pool}: {NO_GREEN}")
    # Without process children, one worker process for each task at a time is the next best.
    return "processes" if pool == "prefork" and sys.platform == "win32" else pool


def _whole(text: Any) -> int:
    try:
        return max(1, int(text))
    except ValueError:
        raise click.UsageError(f"--concurrency {text!r} is no whole number") from None


def ask_plan(argv: list[str]) -> WorkerPlan:
    """Ask a process that may import the app; it prints by itself what is wrong."""
    answer = subprocess.run(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    if answer.returncode:
        raise click.exceptions.Exit(answer.returncode if answer.returncode > 0 else 1)
    return msgspec.json.decode(answer.stdout.strip().rpartition(b"\n")[2], type=WorkerPlan)


class ProcessRole(NamedTuple):
    """What this process was started as: a worker, a supervisor's child, or the one that describes the worker."""

    given: CeleryOptions
    settings: dict[str, Any]

    @property
    def level(self) -> str:
        level = str(self.settings["loglevel"]).lower()
        return "critical" if level == "fatal" else level

    def load(self) -> tuple[Windlass, WorkerPlan]:
        app = find_celery(self.given)
        said = {f"task_{name}": self.settings[name] for name in ("time_limit", "soft_time_limit")}
        said = {name: value for name, value in said.items() if value is not None}
        app.conf.update(said)
        planned = make_plan(app, self.settings)
        include = [name for part in self.settings["include"] for name in part.split(",") if name]
        if planned.children:
            over = {"broker_url": self.given.broker} if self.given.broker else {}
            prefork.use(app, {**said, **over}, include)
        made = app.windlass
        load_tasks(made, include)
        self._set_up_logging()
        return made, planned

    def _set_up_logging(self) -> None:
        """Set up the worker's logging, unless a receiver of ``setup_logging`` has done it."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)  # so that what tasks print appears at once
        level = getattr(logging, self.level.upper())
        named: dict[str, Any] = {"loglevel": level, "logfile": None, "format": None, "colorize": None}
        if signals.setup_logging.has_listeners():
            signals.setup_logging.send(sender=None, **named)
            return
        set_up_logging(self.level, self.settings["log_format"])
        signals.after_setup_logger.send(sender=None, logger=logging.getLogger(), **named)
        signals.after_setup_task_logger.send(sender=None, logger=logging.getLogger("celery.task"), **named)

    def run(self) -> int:
        """Run a worker until told to stop."""
        from windlass.worker.running import run_worker

        app, planned = self.load()
        banner.show(description(app, planned.options()), os.getpid(), "1", self.settings["log_format"])
        return run_alone(lambda last: run_worker(app, planned.options(), last=last))

    def tell_plan(self) -> int:
        click.echo(msgspec.json.encode(self.load()[1]))
        return 0

    def describe(self) -> int:
        """Describe the worker to the supervisor, which does not import the app."""
        app, planned = self.load()
        click.echo(msgspec.json.encode(description(app, planned.options())))
        return 0

    def be_child(self) -> int:
        """Run as one of a supervisor's workers."""
        from windlass.cli.supervise import be_child
        from windlass.worker.running import run_worker

        def work(report: Any) -> int:
            app, planned = self.load()
            return run_worker(app, planned.options(), report=report)

        return be_child(work)


# -- what is not needed


@celery.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.pass_obj
def beat(given: CeleryOptions) -> None:
    """Not needed: every worker runs the schedules. Shows those the app declares."""
    app = find_celery(given)
    app.windlass.load()
    for name, entry in app.conf.beat_schedule.items():
        click.echo(f"{name}: {entry['task']} {entry['schedule']!r}")
    click.echo(
        "No beat process is needed: schedules are kept in the store, and every worker fires them, each run once, "
        "however many workers there are. Nothing was started. See `windlass schedules`."
    )


@celery.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def flower() -> None:
    """Not needed: `windlass web` serves the dashboard."""
    raise NotDone(
        "Flower is not needed: `windlass web -A MODULE` serves the dashboard, `windlass top` one in the terminal"
    )


celery_control.add_commands(celery, find_celery)
