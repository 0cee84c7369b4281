"""``windlass breakers``: the state of circuit breakers, and setting one by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import click

from windlass.cli import option_types, output
from windlass.cli.groups import ListGroup
from windlass.cli.operator import operator
from windlass.cli.target import Target, run, takes_app
from windlass.console import Console
from windlass.core.breaker import Mode
from windlass.limits.breakers import BreakerInfo

_COLOURS = {Mode.CLOSED: "green", Mode.OPEN: "red", Mode.HALF_OPEN: "yellow"}


@click.group(cls=ListGroup)
def breakers() -> None:
    """Show circuit breakers, and open and close them by hand. Without a command: list."""


@breakers.command("list")
@takes_app()
def list_breakers(target: Target, as_json: bool) -> None:
    """Show every breaker: its state, the errors and calls it counted of late, and what waits at it."""
    app = target.load(tasks=True)
    found = run(app, app.breakers.every)
    if as_json:
        output.print_json(found)
    elif not found:
        output.note("no breaker is declared, and none has anything to say")
    else:
        columns = ("breaker", "state", "errors", "calls", "running", "lanes waiting")
        output.table(columns, [_row(info) for info in found], right=columns[2:])


def _row(info: BreakerInfo) -> list[Any]:
    from rich.text import Text

    return [info.name, Text(in_words(info), _COLOURS[info.state]), info.errors, info.calls, info.running, info.waiting]


def in_words(info: BreakerInfo) -> str:
    """The state for people: ``open by hand, 12s more``."""
    text = info.state.replace("_", "-") + (" by hand" if info.forced else "")
    left = (info.until - datetime.now(UTC)).total_seconds() if info.until else 0.0
    return f"{text}, {output.about(int(left * 1000))} more" if left > 0 else text


@breakers.command("open")
@takes_app("NAME")
@click.option("--for", "time", callback=option_types.duration, metavar="TIME", help="Try it again then [until told].")
def open_breaker(target: Target, as_json: bool, words: list[str], time: float | None) -> None:
    """Open a breaker: what it guards is not called."""
    _act(target, words, lambda console, name: console.open_breaker(name, time), as_json)


@breakers.command("close")
@takes_app("NAME")
def close_breaker(target: Target, as_json: bool, words: list[str]) -> None:
    """Close a breaker, and keep it closed whatever fails."""
    _act(target, words, Console.close_breaker, as_json)


@breakers.command("auto")
@takes_app("NAME")
def free_breaker(target: Target, as_json: bool, words: list[str]) -> None:
    """Let a breaker follow the errors again. It begins closed."""
    _act(target, words, Console.auto_breaker, as_json)


def _act(
    target: Target, words: list[str], act: Callable[[Console, str], Awaitable[BreakerInfo]], as_json: bool
) -> None:
    if len(words) != 1:
        raise click.UsageError("give the name of one breaker")
    app = target.load(tasks=True)
    info = run(app, lambda: act(operator(app), words[0]))
    if as_json:
        output.print_json(info)
    else:
        click.echo(f"breaker {info.name}  {click.style(in_words(info), fg=_COLOURS[info.state])}")
