"""``windlass worker``: this process as a worker, or a supervisor over several that run this same command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click
import msgspec

from windlass.app import Windlass
from windlass.cli import banner, option_types
from windlass.cli.errors import CliError
from windlass.cli.find_app import load_tasks
from windlass.cli.target import Target, complete_queues, run, takes_app
from windlass.core.packages import pip_install
from windlass.support.logs import LEVELS
from windlass.worker.logs import set_up_logging

ARGUMENTS = "windlass.arguments"
"""The key in ``ctx.meta`` of the command line as it was given."""

_COUNT: dict[str, Any] = {"type": click.IntRange(min=1), "metavar": "N"}


@click.command()
@takes_app(by_url=False, json=False)
@click.option("-Q", "--queues", callback=option_types.weighted_queues, multiple=True, metavar="A,B",
              shell_complete=complete_queues,
              help="Queues to serve, the most urgent first; A*5,B*2: by turns [all declared].")  # fmt: skip
@click.option("-c", "--concurrency", **_COUNT, help="Jobs at once in each process [100].")
@click.option("--processes", **_COUNT, help="Worker processes [1].")
@click.option("--autoscale", callback=option_types.scale, metavar="MIN,MAX", help="Processes by load (either order).")
@click.option("--children", **_COUNT, help="Child processes for tasks that run in processes [one per core].")
@click.option(
    "--grace", callback=option_types.duration, metavar="TIME", help="Time for running jobs at shutdown [30s]."
)
@click.option("--max-jobs", **_COUNT, help="Replace a process after so many jobs.")
@click.option(
    "--max-memory", type=click.IntRange(min=1), metavar="MB", help="Replace a process that occupies more than this."
)
@click.option("--metrics", callback=option_types.address, metavar="[HOST:]PORT",
              help="Serve metrics for Prometheus here, of all processes; 0 takes a free port.")  # fmt: skip
@click.option("--reload", is_flag=True, help="Restart when a source file changes, for development.")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="A module that declares tasks; repeatable.")
@click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False), default="info", show_default=True,
              help="Log from this level on.")  # fmt: skip
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="Lines for people, or one JSON object per line.")  # fmt: skip
@click.option("--log-success/--no-log-success", default=None, help="Log every job that succeeds [the app's setting].")
@click.option("--child", is_flag=True, hidden=True, help="This is a supervisor's child.")
@click.option("--describe", is_flag=True, hidden=True, help="Print what the banner shows as JSON, and exit.")
def worker(target: Target, imports: tuple[str, ...], log_level: str, log_format: str, **given: Any) -> None:
    """Run a worker for APP.

    With one process the worker is this process. With more, and with --autoscale, --reload, --max-jobs
    or --max-memory, this process supervises: it starts workers, replaces those that die, and passes
    signals on. SIGTERM and Ctrl-C drain: running jobs get the grace time to finish, the rest goes
    back to the queue.

    \b
      windlass worker shop:app
      windlass worker shop:app -Q urgent,default -c 50 --processes 4
      windlass worker shop:app -Q 'critical*5,default*2,low'
    """
    set_up_logging(log_level, log_format)
    if given["processes"] and given["autoscale"]:
        raise click.UsageError("give --processes or --autoscale, not both")
    if given["child"] or given["describe"] or not supervised(given):
        job = ProcessRole(target, imports, worker_options(given), log_level, log_format, given["metrics"])
        sys.exit(job.describe() if given["describe"] else job.be_child() if given["child"] else job.run())
    from windlass.cli.supervise import supervise

    sys.exit(supervise(given, target.spec, log_format))


def worker_options(given: dict[str, Any]) -> dict[str, Any]:
    """The options of ``app.worker()`` out of those of the command."""
    names = ("concurrency", "children", "grace", "max_jobs", "max_memory", "log_success")
    options = {name: given[name] for name in names if given[name] is not None}
    if given["queues"]:
        options["queues"] = given["queues"]
    return options


def supervised(given: dict[str, Any]) -> bool:
    several = (given["processes"] or 1) > 1 or given["autoscale"]
    return bool(several or given["reload"] or given["max_jobs"] or given["max_memory"])


class ProcessRole(NamedTuple):
    """What this process was started as: a worker, a supervisor's child, or the one that describes the worker."""

    target: Target
    imports: tuple[str, ...]
    options: dict[str, Any]
    log_level: str
    log_format: str
    metrics: tuple[str, int] | None = None

    def load(self) -> Windlass:
        app = self.target.load()
        load_tasks(app, self.imports)
        set_up_logging(self.log_level, self.log_format)
        return app

    def run(self) -> int:
        """Run a worker until told to stop."""
        from windlass.worker.running import run_worker

        metrics = need_metrics() if self.metrics else None
        app = self.load()
        banner.show(description(app, self.options), os.getpid(), "1", self.log_format)
        if metrics is None or self.metrics is None:
            return run_alone(lambda last: run_worker(app, self.options, last=last))
        port, gathered = metrics.serve(*self.metrics)
        meter = metrics.meter_of_one(gathered)
        return run_alone(lambda last: run_worker(app, self.options, companion=meter, last=last), port.close)

    def describe(self) -> int:
        """Describe the worker to the supervisor, which does not import the app."""
        click.echo(msgspec.json.encode(description(self.load(), self.options)))
        return 0

    def be_child(self) -> int:
        """Run as one of a supervisor's workers."""
        from windlass.cli.supervise import be_child
        from windlass.worker.running import run_worker

        def work(report: Callable[[dict[str, Any]], None] | None) -> int:
            meter = None
            if self.metrics and report is not None:
                meter = need_metrics().Meter(lambda words: report({"measured": words}))
            return run_worker(self.load(), self.options, report=report, companion=meter)

        return be_child(work)


def run_alone(work: Callable[[Callable[[int], object]], int], close: Callable[[], object] = lambda: None) -> int:
    """Run a worker without a supervisor. ``work`` is told how to end the process if a task has left a thread in it."""
    from windlass.worker.process_end import end_process
    from windlass.worker.service import EXIT_REPLACE

    again = command(click.get_current_context().meta[ARGUMENTS])

    def begin_anew(code: int) -> None:
        if code == EXIT_REPLACE:
            # There is no supervisor to do it: the process replaces itself, which also ends its stuck threads.
            os.execv(sys.executable, again)

    def end(code: int) -> None:
        begin_anew(code)
        end_process(code)

    code = work(end)
    close()
    begin_anew(code)
    return code


def need_metrics() -> Any:
    """The module that serves metrics, or what to install."""
    try:
        import windlass.observe.serving as module
    except ImportError as error:
        raise CliError(f"--metrics needs more packages: {pip_install('telemetry')}") from error
    return module


def command(arguments: Sequence[str], flag: str = "") -> list[str]:
    """The command line of this process for a clean interpreter, with a hidden flag added."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    flags = [flag] if flag else []
    return [sys.executable, "-m", "windlass", *arguments[:end], *flags, *arguments[end:]]


def description(app: Windlass, options: dict[str, Any]) -> banner.Description:
    """What the banner shows. Checks the options and reaches the store for it."""
    from windlass.worker.worker_options import check_worker_options

    checked = check_worker_options(app, options)

    async def ask() -> banner.Description:
        client = await app.client()
        return banner.describe(app, checked, await client.store.info())

    found = run(app, ask)
    if found.engine.startswith("memory"):
        raise CliError(
            "a memory:// store lives in one process, so this worker would never see a job; give the app another URL, "
            "or run the worker inside the program with app.worker()"
        )
    return found
