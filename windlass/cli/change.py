"""Commands that change jobs by id: ``windlass cancel`` and ``retry``, and the rarer ones under ``windlass jobs``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

import click

from windlass.cli import option_types, output
from windlass.cli.operator import operator
from windlass.cli.target import Target, need_words, run, takes_app
from windlass.console import Console
from windlass.console.replies import Changed
from windlass.store.answers import MAX_BATCH

Act = Callable[[Console, list[str]], Awaitable[Changed]]


@click.command()
@takes_app("ID...")
@click.option("--reason", default="", help="Kept with the jobs.")
def cancel(target: Target, as_json: bool, words: list[str], reason: str) -> None:
    """Cancel jobs, whatever state they are in.

    One that waits ends at once. One that runs is asked to stop, and stopped by force after its grace time.
    """
    act(target, words, lambda console, ids: console.cancel(ids, reason), "cancelled", as_json)


@click.command()
@takes_app("ID...")
def retry(target: Target, as_json: bool, words: list[str]) -> None:
    """Run ended jobs again, with fresh counters; jobs that wait for their time start now."""
    act(target, words, Console.retry, "retried", as_json)


@click.command()
@takes_app("ID...")
def promote(target: Target, as_json: bool, words: list[str]) -> None:
    """Start scheduled jobs now."""
    act(target, words, Console.promote, "promoted", as_json)


@click.command()
@takes_app("ID...")
@click.option("--to", "queue", required=True, metavar="QUEUE", callback=option_types.queue, help="The other queue.")
def move(target: Target, as_json: bool, words: list[str], queue: str) -> None:
    """Move jobs that do not run to another queue."""
    act(target, words, lambda console, ids: console.move(ids, queue), "moved", as_json)


@click.command()
@takes_app("ID...")
@click.option("--to", "level", required=True, type=click.IntRange(0, 9), metavar="N", help="0 to 9, 9 first.")
def reprioritise(target: Target, as_json: bool, words: list[str], level: int) -> None:
    """Give jobs that have not started another priority."""
    act(target, words, lambda console, ids: console.reprioritise(ids, level), "reprioritised", as_json)


@click.command()
@takes_app("ID...")
@click.option("--delay", callback=option_types.duration, metavar="TIME", help="So long from now.")
@click.option("--at", callback=option_types.instant, metavar="ISO", help="At this time, with its zone.")
def reschedule(target: Target, as_json: bool, words: list[str], delay: float | None, at: datetime | None) -> None:
    """Give jobs that have not started another time."""
    if (delay is None) == (at is None):
        raise click.UsageError("give --delay or --at")

    def change(console: Console, ids: list[str]) -> Awaitable[Changed]:
        return console.reschedule(ids, delay=delay or 0) if at is None else console.reschedule(ids, at=at.isoformat())

    act(target, words, change, "rescheduled", as_json)


@click.command()
@takes_app("ID...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def delete(target: Target, as_json: bool, words: list[str], yes: bool) -> None:
    """Delete jobs that do not run, with all that is known of them. Asks first."""
    count = len(need_words(words, "job IDs"))
    if not yes:
        if as_json:
            raise click.UsageError("--json asks no questions; add --yes")
        click.confirm(f"Delete {count} job{'' if count == 1 else 's'} for good?", abort=True, err=True)
    act(target, words, Console.delete, "deleted", as_json)


def act(target: Target, words: list[str], change: Act, done: str, as_json: bool, what: str = "job IDs") -> None:
    """Make one change to the jobs named, and report what became of it."""
    app, ids = target.load(), need_words(words, what)
    report(done, run(app, lambda: in_batches(operator(app), change, ids)), as_json)


async def in_batches(console: Console, change: Act, ids: list[str]) -> Changed:
    """Change any number of ids, in as many calls as that takes."""
    changed: list[str] = []
    skipped: dict[str, str] = {}
    for start in range(0, len(ids), MAX_BATCH):
        reply = await change(console, ids[start : start + MAX_BATCH])
        changed += reply.changed
        skipped |= reply.skipped
    return Changed(changed=changed, skipped=skipped, count=len(changed))


def report(done: str, reply: Changed, as_json: bool) -> None:
    """Print what was changed and what was not; exit with code 1 if anything was not."""
    if as_json:
        output.print_json({done: reply.changed, "skipped": reply.skipped})
    else:
        for id in reply.changed:
            click.echo(f"{id}  {click.style(done, fg='green')}")
        for id, why in reply.skipped.items():
            text = why if why.startswith("no such") else f"it is {why}"
            click.echo(f"{id}  {click.style(f'not {done}', fg='red')}: {text}")
    if reply.skipped:
        click.get_current_context().exit(1)
