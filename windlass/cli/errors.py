"""How a command fails: one clear text on standard error and an exit code, never a traceback of Windlass itself."""

from __future__ import annotations

from typing import IO, Any

import click

from windlass.core.filters import FilterError
from windlass.errors import ConfigError, EnqueueError, StoreError, WindlassError

DEBUG = "windlass.debug"
"""The key in ``ctx.meta`` under which ``--debug`` is kept."""


class CliError(click.ClickException):
    """The command cannot be done as it was written: exit code 2. ``detail`` is printed above the error, unchanged."""

    exit_code = 2

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail

    def show(self, file: IO[Any] | None = None) -> None:
        if self.detail:
            click.echo(self.detail.rstrip("\n") + "\n", file=file, err=True)
        click.echo(f"{click.style('Error:', fg='red', bold=True)} {self.format_message()}", file=file, err=True)


class NotDone(CliError):
    """The command was understood, and the answer is no (an unknown job, a job that failed): exit code 1."""

    exit_code = 1


def as_cli_error(error: WindlassError) -> CliError:
    """A Windlass error as the command line shows it."""
    if isinstance(error, FilterError):
        return CliError(str(error), error.shown)
    if isinstance(error, ConfigError | EnqueueError | StoreError):
        return CliError(str(error))
    return NotDone(str(error))
