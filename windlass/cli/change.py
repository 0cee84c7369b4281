"""``windlass cancel`` and ``windlass retry``."""

from __future__ import annotations

import click

from windlass.admin import change_jobs, retry_jobs
from windlass.cli import output
from windlass.cli.target import Target, need_words, run, takes_app
from windlass.store.base import Action, Change, ChangeReply


@click.command()
@takes_app("ID...")
@click.option("--reason", default="", help="Kept with the jobs.")
def cancel(target: Target, as_json: bool, words: list[str], reason: str) -> None:
    """Cancel jobs, whatever state they are in.

    One that waits ends at once. One that runs is asked to stop, and stopped by force after its grace time.
    """
    app, ids = target.load(), need_words(words, "job IDs")
    reply = run(app, lambda: change_jobs(app, Change(action=Action.CANCEL, reason=reason), ids))
    report("cancelled", "cancelled", reply, as_json)


@click.command()
@takes_app("ID...")
def retry(target: Target, as_json: bool, words: list[str]) -> None:
    """Run ended jobs again, with fresh counters; jobs that wait for their time start now."""
    app, ids = target.load(), need_words(words, "job IDs")
    report("retried", "retried", run(app, lambda: retry_jobs(app, ids)), as_json)


def report(key: str, done: str, reply: ChangeReply, as_json: bool) -> None:
    """What was changed and what was not; exit code 1 if anything was not."""
    if as_json:
        output.print_json({key: reply.changed, "skipped": reply.skipped})
    else:
        for id in reply.changed:
            click.echo(f"{id}  {click.style(done, fg='green')}")
        for id, why in reply.skipped.items():
            text = why if why == "no such job" else f"it is {why}"
            click.echo(f"{id}  {click.style(f'not {done}', fg='red')}: {text}")
    if reply.skipped:
        click.get_current_context().exit(1)
