"""``windlass limits``, and what the commands of queues and tasks share: their gates shown, and tuned from words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from windlass.cli import output
from windlass.cli.target import Target, run, takes_app
from windlass.core.duration import show_ms
from windlass.core.limits import Limits, Rate, show_rate
from windlass.handles.gates import LimitInfo


@click.command()
@takes_app()
def limits(target: Target, as_json: bool) -> None:
    """Show every limit that is in force: of queues, tasks and breakers, with what is held and when it opens."""
    app = target.load()
    found = run(app, app.limits)
    if as_json:
        output.print_json(found)
    elif not found:
        output.note("nothing is limited")
    else:
        columns = ("gate", "held", "limit", "rate", "opens", "waiting", "about")
        output.table(columns, [_row(info) for info in found], right=columns[1:6], spare=("waiting", "opens"))


def _row(info: LimitInfo) -> tuple[Any, ...]:
    return (
        f"{info.kind} {info.name}", info.held if info.limit else "", info.limit or "",
        show_rate(info.rate) if info.rate else "", show_ms(info.opens_in) if info.opens_in else "",
        info.waiting or "", about(info),
    )  # fmt: skip


def about(info: LimitInfo) -> str:
    """A remark on what the columns do not show."""
    words = ["paused"] * info.paused + ["draining"] * info.draining
    words += [f"closed for {show_ms(info.closed_for)}"] if info.closed_for else []
    words += [f"{info.key_limit} per key"] if info.key_limit else []
    words += [f"{show_rate(info.key_rate)} per key"] if info.key_rate else []
    words += [f"at most {info.max_ready:,} ready"] if info.max_ready else []
    tuned = [name for name in info.tuned if name not in ("paused", "draining")]
    words += [f"tuned: {', '.join(tuned)}"] if tuned else []
    return ", ".join(words)


def in_words(limits: Limits) -> str:
    """The limits of a queue, on one line."""
    words = ["paused"] * bool(limits.paused) + ["draining"] * bool(limits.draining)
    words += [f"limit {limits.limit:,}"] if limits.limit else []
    words += [_rate(limits.rate)] if _rate(limits.rate) else []
    words += [f"{limits.key_limit:,} per key"] if limits.key_limit else []
    words += [f"{_rate(limits.key_rate)} per key"] if _rate(limits.key_rate) else []
    words += [f"at most {limits.max_ready:,} ready"] if limits.max_ready else []
    return ", ".join(words)


def _rate(rate: Rate | None) -> str:
    return show_rate(rate) if rate is not None and rate.every else ""


# -- tuning


def _count(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    if value is None or value.lower() == "none":
        return value
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is neither a whole number above 0 nor none", ctx, param)
    return int(value)


_COUNTS = {
    "limit": "Units running at once, over all workers",
    "key-limit": "The same for each key",
    "max-ready": "Ready jobs, beyond which callers must wait",
}
_RATES = {"rate": "Starts, such as 10/m or '100/s, burst 20'", "key-rate": "The same for each key"}


def tuning(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options for limits; the value ``none`` takes a limit away."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(names):
            if name in _COUNTS:
                option = click.option(f"--{name}", metavar="N|none", callback=_count, help=f"{_COUNTS[name]}.")
            else:
                option = click.option(f"--{name}", metavar="RATE|none", help=f"{_RATES[name]}.")
            command = option(command)
        return command

    return decorate


def said(given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, with None for "no limit"."""
    known = {name: value for name, value in given.items() if value is not None}
    if not known:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"say what to tune: {options}; the value none takes a limit away")
    return {name: None if str(value).lower() == "none" else value for name, value in known.items()}


def told(what: str, done: str, info: LimitInfo, as_json: bool) -> None:
    """Print what was done to a gate, and what holds there now."""
    if as_json:
        output.print_json(info)
        return
    shown = Limits(info.limit, info.rate, info.key_limit, info.key_rate, info.max_ready, info.paused, info.draining)
    now = in_words(shown)
    click.echo(f"{what}  {click.style(done, fg='green')}" + (f": {now}" if now and now != done else ""))
