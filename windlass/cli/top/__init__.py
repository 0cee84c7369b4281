"""``windlass top``: queues, jobs, workers, dead letters, schedules and workflows in a terminal, live, with actions."""

from __future__ import annotations

import sys

import click

from windlass.cli.errors import CliError
from windlass.cli.target import Target, run, takes_app


@click.command()
@takes_app(json=False)
@click.option("--every", type=click.FloatRange(min=0.2, max=60), default=2.0, metavar="SECONDS",
              help="How often to look [2].")  # fmt: skip
@click.option("--once", is_flag=True, help="Print one look and end; also where there is no terminal.")
def top(target: Target, every: float, once: bool) -> None:
    """Watch queues, jobs and workers live, and act on them by key.

    \b
      1-6, tab   another table        x      choose rows
      j k        another row          enter  look closer
      /          filter jobs          ?      all keys, q leaves
    Actions leave a record in the audit log, as those of the dashboard do.
    """
    if not once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CliError("windlass top needs a terminal; --once prints one look, and `windlass tail` is for pipes")
    from windlass.cli.top.loop import look_once, watch

    app = target.load(tasks=bool(target.spec))
    run(app, lambda: look_once(app) if once else watch(app, every))
