"""Several worker processes: the supervisor's side, which never imports user code, and a child's link to it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import click
import msgspec

from windlass.cli import banner
from windlass.cli.errors import CliError, as_cli_error
from windlass.cli.worker import ARGUMENTS, command, need_metrics
from windlass.errors import WindlassError
from windlass.store import make_store
from windlass.worker.supervisor import SupervisorOptions, run_supervisor
from windlass.worker.supervisor_link import EXIT_CONFIG, SupervisorLink

log = logging.getLogger("windlass.supervisor")


def supervise(given: dict[str, Any], spec: str, log_format: str) -> int:
    """Start the workers and keep them alive until told to stop; answers the exit code."""
    arguments = click.get_current_context().meta[ARGUMENTS]
    metrics = need_metrics() if given.get("metrics") else None
    found = _describe(command(arguments, "--describe"))
    options = SupervisorOptions(
        processes=given["processes"] or 1, autoscale=given["autoscale"], grace=found.grace, reload=given["reload"],
        reload_paths=_watched(spec),
    )  # fmt: skip
    banner.show(found, os.getpid(), _processes(options), log_format)
    port, gathered = metrics.serve(*given["metrics"]) if metrics else (None, None)
    try:
        return run_supervisor(
            command(arguments, "--child"), options, lambda worker: bury(found, worker), log, gather=gathered
        )
    finally:
        if port is not None:
            port.close()


def _describe(argv: list[str]) -> banner.Description:
    """What the workers will be, from a process that may import the app and prints by itself what is wrong."""
    answer = subprocess.run(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    if answer.returncode:
        raise click.exceptions.Exit(answer.returncode if answer.returncode > 0 else 1)
    # The last line only: user modules may print something while they are imported.
    return msgspec.json.decode(answer.stdout.strip().rpartition(b"\n")[2], type=banner.Description)


def _processes(options: SupervisorOptions) -> str:
    return "{}–{}".format(*options.autoscale) if options.autoscale else str(options.processes)


def _watched(spec: str) -> tuple[str, ...]:
    """The folders ``--reload`` watches: this one, and that of the app's file if it is elsewhere."""
    here, file = os.getcwd(), spec.partition(".py:")[0].removesuffix(".py") + ".py"
    folder = os.path.dirname(os.path.abspath(file))
    outside = os.path.isfile(file) and os.path.commonpath([here, folder]) != here
    return (here, folder) if outside else (here,)


def bury(found: banner.Description, worker: str) -> None:
    """Tell the store that a worker process is dead, so that its jobs need not wait for the lease to run out."""

    async def leave() -> None:
        store = make_store(found.url, found.rules.settings())
        await store.open()
        try:
            await store.leave(worker, crashed=True)
        finally:
            await store.close()

    asyncio.run(leave())


# -- the child's side


def be_child(work: Callable[[Callable[[dict[str, Any]], None] | None], int]) -> int:
    """Run a worker under a supervisor, which reports once for all why it cannot start."""
    leash = SupervisorLink.from_environment()
    try:
        return work(reporter(leash) if leash else None)
    except (WindlassError, CliError) as error:
        failure = error if isinstance(error, CliError) else as_cli_error(error)
        if leash is None:
            raise failure from error
        leash.failed("\n".join(filter(None, [failure.detail, failure.message])))
        return EXIT_CONFIG
    finally:
        if leash is not None:
            leash.finish()


def reporter(leash: SupervisorLink) -> Callable[[dict[str, Any]], None]:
    """A function that passes a worker's reports on. The first report, made on the worker's loop, also ties the worker's
    life to the supervisor's.
    """
    tied = False

    def report(message: dict[str, Any]) -> None:
        nonlocal tied
        if not tied:
            tied = True
            loop = asyncio.get_running_loop()
            leash.on_orphaned(loop, lambda: signal.raise_signal(signal.SIGTERM))
            # "Drop everything" is the same as being asked to stop twice.
            loop.add_signal_handler(signal.SIGQUIT, lambda: signal.raise_signal(signal.SIGTERM))
        leash.report(message)

    return report
