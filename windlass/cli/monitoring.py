"""``windlass alerts`` and ``windlass grafana``: files for Prometheus and Grafana, on standard output."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from windlass.cli.errors import CliError
from windlass.cli.target import Target, takes_app
from windlass.core.hints import did_you_mean
from windlass.observe.alerts import (
    OFF,
    Thresholds,
    as_values,
    as_yaml,
    make_alerts,
    parse_queue,
    parse_threshold,
    parse_thresholds,
    seconds,
)
from windlass.observe.grafana import make_dashboard

_OR_OFF = f"or {OFF}"


@click.command()
@takes_app(by_url=False, optional=True)
@click.option("--ready", metavar="N", help=f"Ready jobs, for five minutes, {_OR_OFF} [10000].")
@click.option("--oldest", metavar="TIME", help=f"How long the oldest ready job waits, {_OR_OFF} [300s].")
@click.option("--failures", metavar="N", help=f"Failures a minute, {_OR_OFF} [10].")
@click.option("--dead", metavar="N", help=f"New dead letters, {_OR_OFF} [0].")
@click.option("--lag", metavar="TIME", default="0.5s", show_default=True, help=f"Of a worker's event loop, {_OR_OFF}.")
@click.option("--queue", "queues", multiple=True, metavar="NAME:KEY=VALUE,…",
              help="Other thresholds for one queue, such as emails:ready=500,oldest=1m; repeatable.")  # fmt: skip
@click.option("--every", metavar="TIME", default="15s", show_default=True, help="How often Prometheus scrapes.")
def alerts(
    target: Target | None, queues: tuple[str, ...], lag: str, every: str, as_json: bool, **given: str | None
) -> None:
    """Print alert rules for Prometheus.

    An alert fires when a number is above its threshold, for each queue by itself. With APP, the names
    given by --queue are checked.

    \b
      windlass alerts > windlass.rules.yml
      windlass alerts shop:app --oldest 2m --queue emails:ready=500,dead=off
    """
    base = parse_thresholds({name: text for name, text in given.items() if text is not None}, Thresholds(), "alerts")
    own = dict(parse_queue(text, base) for text in queues)
    if len(own) < len(queues):
        raise click.UsageError("--queue names a queue twice; give all its thresholds at once, with commas between them")
    name = check_queues(target, own) if target is not None else ""
    made = make_alerts(base, own, lag=parse_threshold("lag", lag, "alerts"), every=seconds(every, "--every"))
    group = f"windlass-{name}" if name else "windlass"
    click.echo(msgspec.json.encode(as_values(made, group)) if as_json else as_yaml(made, group), nl=as_json)


def check_queues(target: Target, own: dict[str, Any]) -> str:
    """The app's name, if it declares all these queues."""
    app = target.load(tasks=True)
    known = {task.queue for task in app.tasks.values()} | app.declared.queue_layers.keys() | app.handlers.keys()
    for name in own:
        if name not in known:
            near = did_you_mean(name, known)
            raise CliError(f"{app.name} declares no queue {name!r}{near}; to write the rule anyway, leave the app out")
    return app.name


@click.command()
@takes_app(by_url=False, json=False, optional=True)
def grafana(target: Target | None) -> None:
    """Print a dashboard for Grafana, to be imported there. APP gives it its title.

    \b
      windlass grafana shop:app > windlass.json
    """
    app = target.load().name if target is not None else ""
    click.echo(msgspec.json.format(msgspec.json.encode(make_dashboard(app)), indent=2))
