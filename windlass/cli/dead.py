"""``windlass dead``: jobs that failed for good, to look at, mend, run again or throw away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from windlass.app import Windlass
from windlass.cli import change, option_types, output
from windlass.cli.errors import CliError, NotDone
from windlass.cli.jobs import one_id, read, short_error, show
from windlass.cli.operator import change_all, operator, quoted
from windlass.cli.target import Target, complete_queues, complete_tasks, run, takes_app
from windlass.console import Console
from windlass.core.job import State
from windlass.errors import WindlassError
from windlass.handles.handle import JobInfo
from windlass.operate.admin import dead_groups


@click.group()
def dead() -> None:
    """Look at dead letters, mend them, run them again or throw them away."""


def filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that narrow dead letters."""
    for option in (
        click.option("--fingerprint", default="", help="Only this fault, as `dead list --group` names it."),
        click.option("--task", default="", shell_complete=complete_tasks, help="Only this task."),
        click.option("--queue", default="", shell_complete=complete_queues, help="Only this queue."),
    ):
        command = option(command)
    return command


@dead.command("list")
@takes_app()
@filters
@click.option("--group", is_flag=True, help="One line per fault, the most frequent first.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, metavar="N", help="So many.")
@click.option("--after", default="", metavar="CURSOR", help="Go on behind an earlier page.")
def list_dead(target: Target, as_json: bool, group: bool, limit: int, after: str, **narrow: str) -> None:
    """List dead letters, the newest first, or count them by fault."""
    app = target.load()
    if group:
        list_groups(app, as_json, **narrow)
        return
    page = run(app, lambda: app.dead.list(limit=limit, after=after, **narrow))
    if as_json:
        output.print_json(page)
        return
    if page.jobs:
        columns = ("id", "failed", "task", "queue", "tries", "error")
        output.table(columns, [_row(job) for job in page.jobs], right=("tries", "failed"), spare=("tries", "queue"))
    else:
        output.note("no dead letters" + (" on this page" if page.partial else ""))
    if page.cursor:
        output.note(f"more with --after {page.cursor}")


def _row(job: JobInfo) -> tuple[Any, ...]:
    tries = job.attempts + job.crashes
    return job.id, output.ago(job.finished_at), job.task, job.queue, tries, short_error(job)


def list_groups(app: Windlass, as_json: bool, queue: str, task: str, fingerprint: str) -> None:
    groups = run(app, lambda: dead_groups(app.dead, queue, task))
    groups = [group for group in groups if not fingerprint or group.fingerprint == fingerprint]
    if as_json:
        output.print_json(groups)
    elif not groups:
        output.note("no dead letters")
    else:
        rows = [
            (group.count, group.fingerprint, ", ".join(group.tasks), output.ago(group.last_at),
             f"{group.error.rpartition('.')[2]}: {group.message}".partition("\n")[0])
            for group in groups
        ]  # fmt: skip
        output.table(("count", "fingerprint", "tasks", "last", "error"), rows, right=("count", "last"))


@dead.command("show")
@takes_app("ID")
def show_dead(target: Target, as_json: bool, words: list[str]) -> None:
    """Show a dead letter with its arguments, its error and the traceback."""
    show(target, one_id(words), as_json)


@dead.command("edit")
@takes_app("ID [KEY=VALUE]...")
@click.option(
    "--args", "whole", callback=option_types.json_value, metavar="JSON", help="All arguments anew, as an object."
)
def edit_dead(target: Target, as_json: bool, words: list[str], whole: Any) -> None:
    """Give a dead letter other arguments, before it is replayed.

    KEY=VALUE changes single ones. Without any, and without --args, your $EDITOR opens. They are
    checked against the task where the app declares it.
    """
    from windlass.cli.enqueue import arguments

    if not words:
        raise click.UsageError("missing job ID")
    if isinstance(whole, list):
        raise click.BadParameter("give an object of arguments by name", param_hint="'--args'")
    id, (_, changes) = words[0], arguments(words[1:], None)
    app = target.load(tasks=True)
    before, _ = run(app, lambda: read(app, id))
    if before.state is not State.FAILED:
        raise NotDone(f"job {id} is {before.state}, not a dead letter; nothing was changed")
    if whole is None and not changes:
        whole = in_editor(before.args)
    new = {**(before.args if whole is None else whole), **changes}

    async def edit() -> JobInfo:
        reply = await operator(app).edit(id, new, requeue=False)
        if id in reply.skipped:
            raise NotDone(f"job {id} is {reply.skipped[id]} by now; nothing was changed")
        return (await read(app, id))[0]

    info = run(app, edit)
    if as_json:
        output.print_json(info)
    else:
        click.echo(f"{id}  {click.style('edited', fg='green')}: {output.compact(info.args)}")
        output.note("run it with `windlass dead replay`")


def in_editor(args: Any) -> dict[str, Any]:
    """The arguments after the user has edited them."""
    text = click.edit(output.pretty(args), extension=".json")
    if text is None:
        raise NotDone("nothing was changed")
    edited = option_types.json_or_text(text)
    if not isinstance(edited, dict):
        raise CliError("that is no JSON object; nothing was changed")
    return edited


@dead.command("replay")
@takes_app("[ID]...")
@filters
@click.option("--all", "every", is_flag=True, help="Every dead letter there is.")
def replay_dead(target: Target, as_json: bool, words: list[str], every: bool, **narrow: str) -> None:
    """Run dead letters again: those named, or all that the options match."""
    check_choice(words, every, narrow)
    app = target.load()
    count = run(app, lambda: change_dead(app, "retry", words, narrow))
    tell("replayed", count, as_json)


@dead.command("purge")
@takes_app("[ID]...")
@filters
@click.option("--all", "every", is_flag=True, help="Every dead letter there is.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def purge_dead(target: Target, as_json: bool, words: list[str], every: bool, yes: bool, **narrow: str) -> None:
    """Delete dead letters for good: those named, or all that the options match. Asks first."""
    check_choice(words, every, narrow)
    app = target.load()
    if not yes:
        if as_json:
            raise click.UsageError("--json asks no questions; add --yes")
        which = f"{len(words)} dead letters" if words else _which(narrow)
        click.confirm(f"Delete {which} for good?", abort=True, err=True)
    count = run(app, lambda: change_dead(app, "delete", words, narrow))
    tell("purged", count, as_json)


async def change_dead(app: Windlass, action: str, ids: list[str], narrow: dict[str, str]) -> int:
    """Change some dead letters, or all that match; answers how many. If an id is not a dead letter's, nothing is
    changed.
    """
    console = operator(app)
    if not ids:
        chosen = [f"{name}:{quoted(value)}" for name, value in narrow.items() if value]
        return await change_all(console, action, " ".join(["state:failed", *chosen]))
    for id in ids:
        state = await app.job(id).state()
        if state is not State.FAILED:
            what = f"is {state}" if state is not None else "is unknown"
            raise WindlassError(f"job {id} {what}, not a dead letter; nothing was changed")
    return (await change.in_batches(console, Console.retry if action == "retry" else Console.delete, ids)).count


def check_choice(words: list[str], every: bool, narrow: dict[str, str]) -> None:
    narrowed = any(narrow.values())
    if not words and not every and not narrowed:
        raise click.UsageError("say which: IDs, --queue, --task, --fingerprint, or --all")
    if words and (every or narrowed):
        raise click.UsageError("give IDs or options that match many, not both")


def _which(narrow: dict[str, str]) -> str:
    given = [f"{name} {value}" for name, value in narrow.items() if value]
    return "all dead letters" + (f" of {' and '.join(given)}" if given else "")


def tell(done: str, count: int, as_json: bool) -> None:
    if as_json:
        output.print_json({done: count})
    else:
        click.echo(f"{done} {count:,} dead letter{'' if count == 1 else 's'}")
