"""``windlass schedules``: what runs by the clock, when next, and what can be done to it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import click

from windlass.cli import output
from windlass.cli.errors import CliError, NotDone
from windlass.cli.groups import ListGroup
from windlass.cli.operator import operator
from windlass.cli.target import Target, debug_option, json_option, pick, run, takes_app
from windlass.console import Console
from windlass.core.job import NewJob
from windlass.core.language import every
from windlass.core.schedule import SchedulePlan, begin, decode_plan, parse_policies
from windlass.core.timing import Timing, cron, describe, remark
from windlass.errors import ConfigError
from windlass.handles.handle import Handle
from windlass.operate.schedules import ScheduleInfo, local, runs
from windlass.operate.timetable import read_row

MANY = 1_000
_NO_JOB = NewJob(id="", task="", queue="", payload=b"{}")


@click.group(cls=ListGroup)
def schedules() -> None:
    """Show schedules and when they run next; pause, run and remove them. Without a command: list."""


@schedules.command("list")
@takes_app()
def list_schedules(target: Target, as_json: bool) -> None:
    """Show every schedule: when it runs, when next, and what it runs."""
    app = target.load()
    found = run(app, app.schedules.list)
    if as_json:
        output.print_json(found)
    elif not found:
        output.note("there are no schedules; those in the code are kept when a worker starts")
    else:
        columns = ("schedule", "next", "last", "jobs", "task", "when")
        output.table(columns, [_row(info) for info in found], right=("jobs",), spare=("last", "jobs"))


def _row(info: ScheduleInfo) -> tuple[Any, ...]:
    from rich.text import Text

    following: Any = output.ago(info.next_at) if info.next_at else "never"
    if info.paused:
        following = Text(info.paused if info.paused == "paused" else f"paused: {info.paused}", "yellow")
    return info.name, following, output.ago(info.last_at), f"{info.fired:,}", info.task, f"{info.when} ({info.tz})"


@schedules.command("show")
@takes_app("NAME")
def show_schedule(target: Target, as_json: bool, words: list[str]) -> None:
    """Show one schedule with all its policies and its next runs."""
    app, name = target.load(), _one(words)

    async def ask() -> tuple[ScheduleInfo, list[datetime]]:
        info = await app.schedules.get(name)
        if info is None:
            raise NotDone(f"there is no schedule {name!r}")
        return info, await app.schedules.preview(name, n=5)

    info, following = run(app, ask)
    if as_json:
        output.print_json(info)
        return
    output.fields([
        ("schedule", info.name), ("when", info.when), ("time zone", info.tz), ("task", info.task),
        ("queue", info.queue), ("arguments", output.compact(info.args)), ("paused", info.paused),
        ("next", output.clock(info.next_at)), ("last", output.clock(info.last_at)), ("last job", info.last_job),
        ("jobs so far", info.fired), ("missed runs", info.missed), ("overlap", info.overlap),
        ("jitter", f"{info.jitter / 1000:g}s" if info.jitter else ""), ("start", output.clock(info.start)),
        ("end", output.clock(info.end)), ("limit", info.limit or ""), ("gap", info.gap), ("repeat", info.repeat),
        ("from", "the code" if info.in_code else "app.schedules.put()"),
    ])  # fmt: skip
    output.section("Next runs", "\n".join(f"{at:%a %Y-%m-%d %H:%M:%S %Z}" for at in following) or "none")


@schedules.command("pause")
@takes_app("NAME")
@click.option("--reason", default="paused", help="Kept with the schedule.")
def pause(target: Target, as_json: bool, words: list[str], reason: str) -> None:
    """Let a schedule run no more until it is resumed."""
    _act(target, words, lambda console, name: console.pause_schedule(name, reason), "paused", as_json)


@schedules.command("resume")
@takes_app("NAME")
def resume(target: Target, as_json: bool, words: list[str]) -> None:
    """Let a schedule run again, from its next time on."""
    _act(target, words, Console.resume_schedule, "resumed", as_json)


@schedules.command("run")
@takes_app("NAME")
def run_now(target: Target, as_json: bool, words: list[str]) -> None:
    """Run a schedule's task now, besides its times. Prints the job's id."""
    app, name = target.load(), _one(words)

    async def fire() -> Handle[Any]:
        # Not by the console, whose answer is an id, which may be that of an earlier job.
        async with operator(app).acting("run_schedule", name) as deed:
            await deed.begin()
            handle = await app.schedules.run(name)
            deed.record.details["id"], deed.record.count = handle.id, 1
        return handle

    handle = run(app, fire)
    if as_json:
        output.print_json({"id": handle.id, "existing": handle.existing})
    else:
        click.echo(handle.id)


@schedules.command("remove")
@takes_app("NAME")
def remove(target: Target, as_json: bool, words: list[str]) -> None:
    """Forget a schedule. One that the code declares comes back with the next worker: pause it instead."""
    app, name = target.load(), _one(words)
    run(app, lambda: operator(app).remove_schedule(name))
    if as_json:
        output.print_json({"removed": name})
    else:
        click.echo(f"{name}  {click.style('removed', fg='green')}")


def _act(
    target: Target, words: list[str], act: Callable[[Console, str], Awaitable[object]], done: str, as_json: bool
) -> None:
    app, name = target.load(), _one(words)

    async def both() -> ScheduleInfo:
        await act(operator(app), name)
        if (info := await app.schedules.get(name)) is None:
            raise NotDone(f"there is no schedule {name!r} any more")
        return info

    info = run(app, both)
    if as_json:
        output.print_json(info)
    else:
        following = "" if info.paused else f", next {output.clock(info.next_at) or 'never'}"
        click.echo(f"{name}  {click.style(done, fg='green')}{following}")


def _one(words: list[str]) -> str:
    if len(words) != 1:
        raise click.UsageError("give one schedule's NAME")
    return words[0]


# -- preview


@schedules.command("preview")
@click.argument("words", nargs=-1, metavar="[APP] NAME|EXPR")
@click.option("-A", "--app", "app_spec", metavar="APP", help="The app, instead of APP [$WINDLASS_APP].")
@click.option("--url", metavar="URL", help="The store, instead of an app [$WINDLASS_URL].")
@click.option("-n", "--runs", "count", type=click.IntRange(1, MANY), metavar="N", help="So many runs [10].")
@click.option("--year", type=click.IntRange(1970, 2200), metavar="YEAR", help="All runs of a year.")
@click.option("--tz", default="", metavar="ZONE", help="The time zone of EXPR.")
@click.option("--gap", type=click.Choice(["after", "skip"]), default="after", help="Of EXPR: times that do not exist.")
@click.option(
    "--repeat", type=click.Choice(["first", "last", "both"]), default="first", help="Of EXPR: times that come twice."
)
@json_option()
@debug_option()
def preview(
    words: tuple[str, ...], app_spec: str | None, url: str | None, count: int | None, year: int | None, tz: str,
    gap: str, repeat: str, as_json: bool,
) -> None:  # fmt: skip
    """Show when a schedule, or an expression, will run. Changes of the clock are marked.

    \b
      windlass schedules preview "30 2 * * *" --year 2026 --tz Europe/Berlin
      windlass schedules preview "weekday at 9:00"
      windlass schedules preview shop:app nightly
    """
    now = int(time.time() * 1000)
    timing = _timing(words[-1]) if words else None
    if timing is None:
        plan = _plan_of_row(words, app_spec, url)
    else:
        zone = getattr(timing, "tz", "") or tz or _zone_of(words[:-1], app_spec)
        fields = parse_policies({"tz": zone, "gap": gap, "repeat": repeat}, "preview")
        plan, _ = begin(SchedulePlan(timing=timing, job=_NO_JOB, **fields), now)
    after, until = _span(year, plan.tz) if year else (now, 0)
    slots = list(islice(runs(plan, after, until), count or (MANY if year else 10)))
    marked = [(local(slot, plan.tz), remark(plan.timing, plan.clock, slot)) for slot in slots]
    if as_json:
        output.print_json([{"at": at.isoformat(), "remark": word} for at, word in marked])
        return
    output.note(f"{describe(plan.timing)} ({plan.tz})")
    for at, word in marked:
        click.echo(f"{at:%a %Y-%m-%d %H:%M:%S %Z}" + (click.style(f"  {word}", fg="yellow") if word else ""))
    if not marked:
        output.note("it does not run")


def _timing(text: str) -> Timing | None:
    """Read an expression; None for a word that can only be a name."""
    if text.startswith("@") or len(text.split()) == 5:
        try:
            return cron(text)
        except ConfigError as error:
            if text.startswith("@") or set("*/") & set(text):
                raise CliError(str(error)) from None
    try:
        return every(text)
    except ConfigError:
        return None


def _plan_of_row(words: tuple[str, ...], app_spec: str | None, url: str | None) -> SchedulePlan:
    if len(words) == 1 and " " in words[0]:
        every(words[0])  # without an app it cannot be a name: raise what is wrong with the expression
    target, rest = pick(words, app_spec, url, "NAME|EXPR", True)
    app, name = target.load(), _one(rest)

    async def ask() -> SchedulePlan:
        row, _ = await read_row((await app.client()).store, name)
        if row is None:
            raise NotDone(f"there is no schedule {name!r}")
        return decode_plan(row.body)

    return run(app, ask)


def _zone_of(words: tuple[str, ...], app_spec: str | None) -> str:
    """The app's own time zone, if an app is named."""
    spec = words[0] if words else app_spec or click.get_current_context().meta.get("windlass.app")
    return Target(spec).load().tz.key if spec else "UTC"


def _span(year: int, tz: str) -> tuple[int, int]:
    """The ms just before a year's first instant, and those of its last."""
    zone = ZoneInfo(tz)
    begin, end = datetime(year, 1, 1, tzinfo=zone), datetime(year + 1, 1, 1, tzinfo=zone) - timedelta(milliseconds=1)
    return int(begin.timestamp() * 1000) - 1, int(end.timestamp() * 1000)
