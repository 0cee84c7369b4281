"""``windlass jobs``: listings, and one job with everything that is known of it; see ``change`` for the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import msgspec

from windlass.app import Windlass
from windlass.cli import change, output
from windlass.cli.errors import CliError, NotDone
from windlass.cli.operator import operator, quoted
from windlass.cli.target import Target, complete_queues, complete_tasks, need_words, run, takes_app
from windlass.core.duration import from_ms, show_ms
from windlass.core.filters import NAMES
from windlass.core.job import LogLine, State
from windlass.handles.handle import JobInfo
from windlass.handles.why import Why

STATES = [str(state) for state in State]


@click.group()
def jobs() -> None:
    """List and show jobs, and the rarer things to do with them."""


for _command in (change.promote, change.move, change.reprioritise, change.reschedule, change.delete):
    jobs.add_command(_command)


def is_filter(word: str) -> bool:
    """Whether a word such as ``queue:emails`` is a filter and not an APP. If a file of that name exists, it
    is an APP.
    """
    name = re.match(r"[-(]*([a-z]+)[:.]", word)
    return name is not None and name[1] in NAMES and not Path(f"{name[1]}.py").is_file()


@jobs.command("list")
@takes_app("[FILTER]...", mine=is_filter)
@click.option("--queue", default="", shell_complete=complete_queues, help="Only this queue.")
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only this state; repeatable.")
@click.option("--task", default="", shell_complete=complete_tasks, help="Only this task.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, metavar="N", help="At most so many."
)
@click.option("--after", default="", metavar="CURSOR", help="Go on behind an earlier page.")
def list_jobs(
    target: Target, as_json: bool, words: list[str], queue: str, states: tuple[str, ...], task: str, limit: int,
    after: str,
) -> None:  # fmt: skip
    """List jobs, the newest first.

    FILTER is what the dashboard's box takes, best in quotes. One that begins with a dash stands behind --.

    \b
      windlass jobs list shop:app 'state:failed args.amount:>10 -tag:vip'
      windlass jobs list shop:app 'task:mail.* (attempts:>=3 OR age:>1h)'
      windlass jobs list shop:app 0Q7iAqXjjRPfw4shswgO
    """
    app, named = target.load(), " ".join(words).strip()
    asked = {"state": ",".join(states), "queue": queue and quoted(queue), "task": task and quoted(task)}
    filter = " ".join([f"({named})"] * bool(named) + [f"{name}:{value}" for name, value in asked.items() if value])
    page = run(app, lambda: operator(app).records(filter if any(asked.values()) else named, after, limit))
    if as_json:
        output.print_json(page)
        return
    if page.jobs:
        output.table(
            ("id", "state", "age", "task", "queue", "attempts", "about"), [_row(job) for job in page.jobs],
            right=("attempts", "age"), spare=("attempts", "queue"),
        )  # fmt: skip
    else:
        output.note("no jobs" + (" on this page" if page.partial else ""))
    if page.cursor:
        part = "looked at enough records for one page; " if page.partial else ""
        output.note(f"{part}more with --after {page.cursor}")


def _row(job: JobInfo) -> tuple[Any, ...]:
    age = output.ago(job.enqueued_at).removesuffix(" ago")
    return job.id, output.state(job.state), age, job.task, job.queue, job.attempts + job.crashes or "", about(job)


def about(job: JobInfo) -> str:
    """The single most useful remark about a job in its state."""
    if job.state is State.FAILED and job.error:
        return short_error(job)
    if job.state is State.SCHEDULED:
        return f"{'retry ' if job.attempts else ''}{output.ago(job.due_at)}"
    if job.state is State.RUNNING:
        return _running(job)
    if job.state is State.SUCCEEDED:
        return "" if job.result is None else output.compact(job.result, 50)
    return _cut(job.reason)


def short_error(job: JobInfo) -> str:
    """The error on one line, its type without the module."""
    if job.error is None:
        return job.reason
    return _cut(f"{job.error.type.rpartition('.')[2]}: {job.error.message}", 200)


def _running(job: JobInfo) -> str:
    done = f"{job.progress.percent:g}% {job.progress.message}".strip() if job.progress else ""
    since = f"for {output.ago(job.started_at).removesuffix(' ago')}" if job.started_at else ""
    return ", ".join(filter(None, [since, done, "cancel requested" if job.cancel_requested else ""]))


def _cut(text: str, most: int = 70) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= most else line[: most - 1] + "…"


@jobs.command("show")
@takes_app("ID")
def show_job(target: Target, as_json: bool, words: list[str]) -> None:
    """Show one job: its record, arguments, result, error, progress and logs."""
    show(target, one_id(words), as_json)


@jobs.command("why")
@takes_app("ID...")
def why_jobs(target: Target, as_json: bool, words: list[str]) -> None:
    """Say why jobs do not run: paused, limited until when, behind which other job, no worker, and so on."""
    app, ids = target.load(), need_words(words, "job IDs")

    async def ask() -> dict[str, Why]:
        return {id: await app.job(id).why() for id in ids}

    answers = run(app, ask)
    if as_json:
        output.print_json({id: answer.reasons for id, answer in answers.items()})
    else:
        for id, answer in answers.items():
            for place, reason in enumerate(answer.reasons):
                click.echo(f"{id if place == 0 else ' ' * len(id)}  {reason}")
    if any(answer.main.code == "missing" for answer in answers.values()):
        click.get_current_context().exit(1)


def one_id(words: list[str]) -> str:
    if len(words) != 1:
        raise click.UsageError("give one job ID" if not words else f"give one job ID, not {len(words)}")
    return words[0]


def show(target: Target, id: str, as_json: bool) -> None:
    app = target.load()
    info, logs = run(app, lambda: read(app, id))
    if as_json:
        output.print_json({**msgspec.to_builtins(info, enc_hook=str), "logs": [_log(line) for line in logs]})
    else:
        print_job(info, logs)


async def read(app: Windlass, id: str) -> tuple[JobInfo, list[LogLine]]:
    info = await app.job(id).info()
    if info is None:
        raise unknown(id)
    return info, await app.job(id).logs()


def unknown(id: str) -> CliError:
    return NotDone(f"there is no job {id!r}: it was never accepted, was deleted, or its retention has passed")


def _log(line: LogLine) -> dict[str, Any]:
    return {"n": line.n, "at": from_ms(line.at), "level": line.level, "text": line.text}


def print_job(job: JobInfo, logs: list[LogLine]) -> None:
    """Everything known of a job, the short things first."""
    output.fields(
        [
            ("id", job.id),
            ("task", job.task + (f" (version {job.version})" if job.version > 1 else "")),
            ("state", output.state(job.state)),
            ("reason", job.reason),
            ("workflow", job.workflow),
            ("queue", f"{job.queue}, priority {job.priority}"),
            ("tries", _tries(job)),
            ("progress", f"{job.progress.percent:g}% {job.progress.message}" if job.progress else ""),
            ("enqueued", output.clock(job.enqueued_at)),
            ("due", output.clock(job.due_at) if not job.state.terminal else ""),
            ("expires", output.clock(job.expires_at)),
            ("started", output.clock(job.started_at)),
            ("finished", output.clock(job.finished_at)),
            ("took", _took(job)),
            ("worker", job.worker),
            ("source", job.source),
            ("correlation", job.correlation_id if job.correlation_id != job.id else ""),
            ("headers", output.compact(job.headers) if job.headers else ""),
            ("cancel", "requested" if job.cancel_requested else ""),
        ]
    )
    output.section("arguments", output.pretty(job.args))
    if job.state is State.SUCCEEDED:
        output.section("result", output.pretty(job.result))
    if job.progress and job.progress.data:
        output.section("progress data", output.pretty(job.progress.data))
    _print_error(job)
    if logs:
        output.section("logs", "\n".join(f"{output.hour(line.at)} {line.level:<7} {line.text}" for line in logs))


def _print_error(job: JobInfo) -> None:
    if job.error is None:
        return
    if job.error.attempts:
        run = "run {}, " if job.run > 1 else ""
        earlier = [f"{run.format(one.run)}{one.attempt}  {one.type}: {one.message}" for one in job.error.attempts]
        output.section("earlier attempts", "\n".join(earlier))
    title = f"error  {job.error.fingerprint}" if job.error.fingerprint else "error"
    output.section(title, job.error.traceback or f"{job.error.type}: {job.error.message}")


def _tries(job: JobInfo) -> str:
    parts = [f"run {job.run}"] if job.run > 1 else []
    counts = ((job.attempts, "failed attempt"), (job.crashes, "crash"), (job.snoozes, "snooze"))
    parts += [f"{n} {word}{'' if n == 1 else 'es' if word == 'crash' else 's'}" for n, word in counts if n]
    return ", ".join(parts)


def _took(job: JobInfo) -> str:
    if not job.started_at or not job.finished_at:
        return ""
    return show_ms(int((job.finished_at - job.started_at).total_seconds() * 1000))
