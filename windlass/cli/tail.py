"""``windlass tail``: the event stream, one line each."""

from __future__ import annotations

from typing import Any

import click

from windlass.app import Windlass
from windlass.cli import option_types, output
from windlass.cli.target import Target, complete_queues, complete_tasks, run, takes_app
from windlass.core.duration import show_ms
from windlass.core.event import KINDS, Event

_COLOURS = {
    "succeeded": "green",
    "failed": "red",
    "lost": "red",
    "retried": "yellow",
    "cancelled": "yellow",
    "skipped": "yellow",
    "started": "blue",
    "enqueued": "cyan",
}
_MOST = 120


@click.command()
@takes_app()
@click.option("--queue", default="", shell_complete=complete_queues, help="Only this queue.")
@click.option("--task", default="", shell_complete=complete_tasks, help="Only this task.")
@click.option("--kind", "kinds", type=click.Choice(sorted(KINDS)), metavar="KIND", multiple=True,
              help="Only this kind of event; repeatable.")  # fmt: skip
@click.option("--since", default="", metavar="CURSOR", help="From behind this event on; 0 is the oldest kept [now].")
@click.option("--no-follow", is_flag=True, help="Print what is kept and end, instead of waiting for more.")
def tail(target: Target, as_json: bool, no_follow: bool, **chosen: Any) -> None:
    """Follow what happens: jobs enqueued, started, retried, ended, workers that come and go.

    With --json every line is an event, and its cursor goes into --since to resume behind it.
    """
    app = target.load()
    if no_follow:
        chosen["since"] = chosen["since"] or "0"
    last = [""]
    try:
        run(app, lambda: follow(app, as_json, not no_follow, last, chosen))
    except KeyboardInterrupt:
        if last[0] and not as_json:
            output.note(f"\nresume with --since {last[0]}")
        raise


async def follow(app: Windlass, as_json: bool, follows: bool, last: list[str], chosen: dict[str, Any]) -> None:
    async for event in app.events(follow=follows, **chosen):
        if as_json:
            output.print_json(event, line=True)
        else:
            click.echo(line_of(event))
        last[0] = event.cursor


def line_of(event: Event) -> str:
    """``12:03:44.120  succeeded  0197…  shop.add  [emails]``"""
    kind = click.style(f"{event.kind:<11}", fg=_COLOURS.get(event.kind, "bright_black"))
    queue = f"[{event.queue}]" if event.queue else ""
    who = "" if event.job else event.worker
    parts = (output.hour(event.at), kind, event.job, event.task, queue, who, data_of(event))
    return "  ".join(filter(None, parts)).rstrip()


def data_of(event: Event) -> str:
    """What came with an event, in words."""
    data = option_types.json_or_text(event.data) if isinstance(event.data, str) else event.data
    if event.kind == "log" and isinstance(data, list) and len(data) == 2:
        return f"{data[0]}: {data[1]}"
    if not isinstance(data, dict):
        return "" if data is None else output.compact(data, _MOST)
    if event.kind == "progress":
        return f"{data.get('percent', 0):g}% {data.get('message', '')}".strip()
    if event.kind == "retried" and data.keys() == {"delay"}:
        return f"again in {show_ms(data['delay'])}"
    return str(data["reason"]) if data.keys() == {"reason"} else output.compact(data, _MOST)
