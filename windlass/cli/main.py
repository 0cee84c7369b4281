"""The ``windlass`` command: a group whose commands are imported when they are used, so that a worker stays small."""

from __future__ import annotations

import importlib
from typing import Any

import click

from windlass.cli.errors import DEBUG, as_cli_error
from windlass.core.hints import did_you_mean
from windlass.errors import WindlassError

INTERRUPTED = 130

COMMANDS = {
    "worker": "worker:worker",
    "enqueue": "enqueue:enqueue",
    "jobs": "jobs:jobs",
    "tail": "tail:tail",
    "top": "top:top",
    "cancel": "change:cancel",
    "retry": "change:retry",
    "workflows": "workflows:workflows",
    "dead": "dead:dead",
    "queues": "queues:queues",
    "schedules": "schedules:schedules",
    "tasks": "tasks:tasks",
    "limits": "limits:limits",
    "breakers": "breakers:breakers",
    "workers": "queues:workers",
    "web": "web:web",
    "audit": "audit:audit",
    "schema": "schema:schema",
    "alerts": "monitoring:alerts",
    "grafana": "monitoring:grafana",
    "doctor": "doctor:doctor",
    "bench": "bench:bench",
    "celery": "celery:celery",
    "completion": "completion:completion",
}


class Commands(click.Group):
    """Finds commands by name, imports them lazily, and turns Windlass's errors into clear exits."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"windlass.cli.{module}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {name!r}{did_you_mean(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["windlass.arguments"] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except WindlassError as error:
            if ctx.meta.get(DEBUG):
                raise
            raise as_cli_error(error) from error


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from windlass import __version__

        click.echo(f"windlass {__version__}")
        ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every command has --help. `windlass completion bash|zsh|fish` completes commands in your shell.",
)
@click.option("-A", "--app", metavar="APP", help="The app, for any command: the same as giving it to the command.")
@click.option("--debug", is_flag=True, help="Show Python tracebacks of errors.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Say the version.")
@click.pass_context
def cli(ctx: click.Context, app: str | None, debug: bool) -> None:
    """Run background jobs and look after them.

    \b
    APP, the first argument of most commands, is one of
      shop:app          the object `app` of the module `shop`
      shop              the only Windlass app of the module, or the one named `app`
      path/to/shop.py   a file, also with :name
    It can be left out where -A/--app or $WINDLASS_APP names it. Commands that only need the store
    also take --url or $WINDLASS_URL instead. The current directory is searched for modules.

    Exit codes: 0 done, 1 the answer is no (an unknown job, a failed one), 2 a mistake in the call.
    """
    ctx.meta["windlass.app"] = app
    if debug:
        ctx.meta[DEBUG] = True


def main() -> None:
    """The console script."""
    cli(prog_name="windlass")
