"""``windlass queues`` and ``windlass workers``: how much there is to do, and who does it."""

from __future__ import annotations

import time
from typing import Any

import click

from windlass.cli import output
from windlass.cli.target import Target, run, takes_app
from windlass.core.job import State
from windlass.store.base import QueueInfo, WorkerInfo

_SHOWN = (
    State.READY, State.RUNNING, State.SCHEDULED, State.WAITING, State.SUCCEEDED, State.FAILED, State.CANCELLED,
    State.SKIPPED,
)  # fmt: skip
_ALWAYS = (State.READY, State.RUNNING, State.SUCCEEDED, State.FAILED)


@click.command()
@takes_app()
def queues(target: Target, as_json: bool) -> None:
    """Show every queue: its jobs by state, and how long the oldest ready one has waited."""
    app = target.load()

    async def ask() -> list[QueueInfo]:
        return await (await app.client()).store.queues()

    found = run(app, ask)
    if as_json:
        output.print_json(found)
    elif not found:
        output.note("no queue has had a job yet")
    else:
        shown = [state for state in _SHOWN if state in _ALWAYS or any(info.counts.get(state) for info in found)]
        names = [str(state) for state in shown]
        rows = [_queue_row(info, shown) for info in found]
        output.table(("queue", *names, "oldest"), rows, right=(*names, "oldest"))


def _queue_row(info: QueueInfo, shown: list[State]) -> list[Any]:
    from rich.text import Text

    counts: list[Any] = []
    for state in shown:
        count = info.counts.get(state, 0)
        counts.append(Text(f"{count:,}", output.COLOURS[state] if count else "bright_black"))
    return [info.name, *counts, output.about(info.oldest_ready) if info.oldest_ready >= 0 else ""]


@click.command()
@takes_app()
def workers(target: Target, as_json: bool) -> None:
    """Show every worker: where it runs, what it serves and how busy it is."""
    app = target.load()

    async def ask() -> list[WorkerInfo]:
        return await (await app.client()).store.workers()

    found = run(app, ask)
    if as_json:
        output.print_json(found)
    elif not found:
        output.note("no worker is running")
    else:
        columns = ("worker", "state", "running", "done", "tasks", "up", "beat", "queues")
        output.table(columns, [_worker_row(info) for info in found], right=columns[2:7])


def _worker_row(info: WorkerInfo) -> list[Any]:
    from rich.text import Text

    who = info.presence
    state = Text("dead", "red") if not info.alive else Text("idle", "green") if info.idle else Text("busy", "blue")
    up = output.about(int(time.time() * 1000) - who.started_at) if who.started_at else ""
    return [
        f"{who.host}:{who.pid}", state, f"{info.running}/{who.concurrency}", who.load.get("done", ""),
        len(who.declares), up, f"{output.about(info.beat_age)} ago", ", ".join(who.queues),
    ]  # fmt: skip
