"""``windlass queues`` and ``windlass workers``: how much there is to do, who does it, and how a queue is held back."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import click

from windlass.calls.queue import NOT_STARTED
from windlass.cli import option_types, output
from windlass.cli.errors import NotDone
from windlass.cli.groups import ListGroup
from windlass.cli.limits import in_words, said, told, tuning
from windlass.cli.operator import operator
from windlass.cli.target import Target, run, takes_app
from windlass.console import Console
from windlass.console.replies import Changed, QueueRow, WorkerRow
from windlass.core.job import State
from windlass.core.limits import show_rate
from windlass.handles.gates import LimitInfo
from windlass.operate.orders import find_workers
from windlass.operate.standing import slots_of
from windlass.store.reads import QueueInfo, WorkerInfo

_SHOWN = (
    State.READY, State.RUNNING, State.SCHEDULED, State.WAITING, State.SUCCEEDED, State.FAILED, State.CANCELLED,
    State.SKIPPED,
)  # fmt: skip
_ALWAYS = (State.READY, State.RUNNING, State.SUCCEEDED, State.FAILED)


@click.group(cls=ListGroup)
def queues() -> None:
    """Show queues, and pause, tune, drain, purge and move them. Without a command: list."""


@queues.command("list")
@takes_app()
def list_queues(target: Target, as_json: bool) -> None:
    """Show every queue: its jobs by state, how long the oldest ready one has waited, and its limits."""
    app = target.load()
    found = run(app, app.queues)
    if as_json:
        output.print_json([_queue_json(info) for info in found])
    elif not found:
        output.note("no queue has had a job yet")
    else:
        shown = [state for state in _SHOWN if state in _ALWAYS or any(info.counts.get(state) for info in found)]
        names = [str(state) for state in shown]
        rows = [_queue_row(info, shown) for info in found]
        output.table(("queue", *names, "oldest", "limits"), rows, right=(*names, "oldest"))


def _queue_json(info: QueueInfo) -> dict[str, Any]:
    """Every state with its number; of the limits only those that are set."""
    limits = info.limits
    counted = {"limit": limits.limit, "key_limit": limits.key_limit, "max_ready": limits.max_ready}
    rates = {"rate": limits.rate, "key_rate": limits.key_rate}
    return {
        "name": info.name, "counts": {state.value: info.counts.get(state, 0) for state in State},
        "oldest_ready": info.oldest_ready, "lanes": info.lanes, "paused": bool(limits.paused),
        "draining": bool(limits.draining), "limits": {
            **{name: most for name, most in counted.items() if most},
            **{name: show_rate(rate) for name, rate in rates.items() if rate is not None and rate.every},
        },
    }  # fmt: skip


def _queue_row(info: QueueInfo, shown: list[State]) -> list[Any]:
    from rich.text import Text

    counts: list[Any] = []
    for state in shown:
        count = info.counts.get(state, 0)
        counts.append(Text(f"{count:,}", output.COLOURS[state] if count else "bright_black"))
    oldest = output.about(info.oldest_ready) if info.oldest_ready >= 0 else ""
    return [info.name, *counts, oldest, in_words(info.limits)]


@queues.command("pause")
@takes_app("NAME")
def pause_queue(target: Target, as_json: bool, words: list[str]) -> None:
    """Start no more jobs of a queue. Those that run go on, and new ones are taken in."""
    _act(target, words, Console.pause_queue, "paused", as_json)


@queues.command("resume")
@takes_app("NAME")
def resume_queue(target: Target, as_json: bool, words: list[str]) -> None:
    """Let a paused or drained queue go on."""
    _act(target, words, Console.resume_queue, "resumed", as_json)


@queues.command("tune")
@takes_app("NAME")
@tuning("limit", "rate", "key-limit", "key-rate", "max-ready")
def tune_queue(target: Target, as_json: bool, words: list[str], **limits: Any) -> None:
    """Say other limits of a queue than the code does; the value none takes one away."""
    options = said(limits)
    _act(target, words, lambda console, name: console.tune_queue(name, **options), "tuned", as_json)


@queues.command("untune")
@takes_app("NAME")
def untune_queue(target: Target, as_json: bool, words: list[str]) -> None:
    """Let the limits in the code hold again. A pause stays."""
    _act(target, words, Console.untune_queue, "untuned", as_json)


@queues.command("drain")
@takes_app("NAME")
@click.option("--timeout", callback=option_types.duration, metavar="TIME", help="Give up waiting after so long.")
def drain_queue(target: Target, as_json: bool, words: list[str], timeout: float | None) -> None:
    """Take no new jobs in, and wait until none is ready, scheduled or running.

    `queues resume` lets jobs in again.
    """

    async def drain(console: Console, name: str) -> QueueRow:
        row = await console.drain_queue(name)
        await console.app.queue(name).drain(timeout)
        return row

    try:
        _act(target, words, drain, "drained", as_json)
    except TimeoutError as error:
        raise NotDone(str(error)) from error


_STATES = [str(state) for state in State if state is not State.RUNNING]
_state_option = click.option(
    "--state", "states", type=click.Choice(_STATES), multiple=True,
    help="Only this state; repeatable. By default: ready, scheduled and waiting.",
)  # fmt: skip
_yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@queues.command("purge")
@takes_app("NAME")
@_state_option
@_yes_option
def purge_queue(target: Target, as_json: bool, words: list[str], states: tuple[str, ...], yes: bool) -> None:
    """Delete the jobs of a queue that have not started. Asks for its name first."""
    name, app = one_name(words), target.load()
    ask_name(f"This deletes jobs of queue {name} for good.", name, yes, as_json)
    done = run(app, lambda: _every(lambda: operator(app).purge_queue(name, name, states or NOT_STARTED)))
    _tell("purged", done, as_json)


@queues.command("move")
@takes_app("NAME OTHER")
@_state_option
@_yes_option
def move_queue(target: Target, as_json: bool, words: list[str], states: tuple[str, ...], yes: bool) -> None:
    """Move the jobs of a queue that have not started to another queue. Asks for its name first."""
    if len(words) != 2:
        raise click.UsageError("give the name of the queue, and that of the other queue")
    name, app = words[0], target.load()
    ask_name(f"This moves jobs of queue {name} to queue {words[1]}.", name, yes, as_json)
    done = run(app, lambda: _every(lambda: operator(app).move_queue(name, words[1], states or NOT_STARTED)))
    _tell("moved", done, as_json)


async def _every(step: Callable[[], Awaitable[Changed]]) -> Changed:
    """Repeat a bounded step until all is done. Answers how many jobs were changed, and the first step's note."""
    done = await step()
    count, cursor = done.count, done.cursor
    while cursor:
        reply = await step()
        count, cursor = count + reply.count, reply.cursor
    return Changed(count=count, note=done.note)


def one_name(words: list[str]) -> str:
    if len(words) != 1:
        raise click.UsageError("give the name of one queue")
    return words[0]


def ask_name(what: str, name: str, yes: bool, as_json: bool) -> None:
    """Ask for the queue's name to be typed, as many jobs are changed at once."""
    if yes:
        return
    if as_json:
        raise click.UsageError("--json asks no questions; add --yes")
    if click.prompt(f"{what} Type the queue's name to go on", err=True) != name:
        raise NotDone("that is another name; nothing was changed")


def _act(
    target: Target, words: list[str], act: Callable[[Console, str], Awaitable[QueueRow]], done: str, as_json: bool
) -> None:
    name, app = one_name(words), target.load()
    queue = app.queue(name)

    async def both() -> tuple[str, LimitInfo]:
        row = await act(operator(app), name)
        return row.note, (await queue.info()).limits

    note, limits = run(app, both)
    _warn(note)
    told(f"queue {name}", done, limits, as_json)


def _warn(note: str) -> None:
    """Print a note about an action that was done all the same, such as a pause of a queue without jobs."""
    if note:
        output.note(f"warning: {note}")


def _tell(done: str, changed: Changed, as_json: bool) -> None:
    _warn(changed.note)
    count = changed.count
    if as_json:
        output.print_json({done: count})
    else:
        click.echo(f"{done} {count:,} job{'' if count == 1 else 's'}")


@click.group(cls=ListGroup)
def workers() -> None:
    """Show workers, and quiet, resume and stop them. Without a command: list."""


@workers.command("list")
@takes_app()
def list_workers(target: Target, as_json: bool) -> None:
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
        columns = ("worker", "state", "slots", "done", "tasks", "up", "beat", "queues")
        output.table(columns, [_worker_row(info) for info in found], right=columns[2:7])


_reason_option = click.option("--reason", default="", metavar="TEXT", help="Why; the worker logs it.")
_all_option = click.option("--all", "every", is_flag=True, help="All that live.")


@workers.command("quiet")
@takes_app("[WORKER]...")
@_all_option
@_reason_option
def quiet_workers(target: Target, as_json: bool, words: list[str], every: bool, reason: str) -> None:
    """Let workers claim nothing more. They finish what they have, and stay.

    Name each by its id, the beginning of one, or HOST:PID.
    """
    _order(target, words, every, Console.quiet_worker, "quieted", reason, as_json)


@workers.command("resume")
@takes_app("[WORKER]...")
@_all_option
@_reason_option
def resume_workers(target: Target, as_json: bool, words: list[str], every: bool, reason: str) -> None:
    """Let quiet workers claim again."""
    _order(target, words, every, Console.resume_worker, "resumed", reason, as_json)


@workers.command("stop")
@takes_app("[WORKER]...")
@_all_option
@_reason_option
def stop_workers(target: Target, as_json: bool, words: list[str], every: bool, reason: str) -> None:
    """Let workers drain and end, as by SIGTERM. A supervisor puts none in their place, but keeps to its --autoscale."""
    _order(target, words, every, Console.stop_worker, "told to stop", reason, as_json)


@workers.command("serve")
@takes_app("QUEUE [WORKER]...")
@_all_option
def serve_queue(target: Target, as_json: bool, words: list[str], every: bool) -> None:
    """Let workers serve a queue beside their others, until they end."""
    queue, *names = words or [""]
    _order(target, names, every, lambda console, id, _: console.serve_queue(id, queue), f"serves {queue}", "", as_json)


@workers.command("leave")
@takes_app("QUEUE [WORKER]...")
@_all_option
def leave_queue(target: Target, as_json: bool, words: list[str], every: bool) -> None:
    """Let workers claim nothing more from a queue. What they run of it goes on."""
    queue, *names = words or [""]
    _order(target, names, every, lambda console, id, _: console.leave_queue(id, queue), f"leaves {queue}", "", as_json)


def _order(
    target: Target, words: list[str], every: bool, order: Callable[[Console, str, str], Awaitable[WorkerRow]],
    done: str, reason: str, as_json: bool,
) -> None:  # fmt: skip
    if bool(words) == every:
        raise click.UsageError("name workers, or give --all")
    app = target.load()

    async def tell() -> list[WorkerRow]:
        alive = await (await app.client()).store.workers()
        ids = [info.presence.id for info in alive if info.alive] if every else find_workers(words, alive)
        return [await order(operator(app), id, reason) for id in dict.fromkeys(ids)]

    rows = run(app, tell)
    if as_json:
        output.print_json(rows)
    for row in () if as_json else rows:
        click.echo(f"worker {row.host}:{row.pid} {done}")
    if not rows:
        output.note("no worker is running")


def _worker_row(info: WorkerInfo) -> list[Any]:
    from rich.text import Text

    who, (busy, ahead) = info.presence, slots_of(info)
    mode = str(who.load.get("mode", "running"))
    state = Text("dead", "red") if not info.alive else Text("idle", "green") if info.idle else Text("busy", "blue")
    if info.alive and mode != "running":
        state = Text(mode, "yellow")
    up = output.about(int(time.time() * 1000) - who.started_at) if who.started_at else ""
    return [
        f"{who.host}:{who.pid}", state, output.slots(busy, who.concurrency, ahead), who.load.get("done", ""),
        len(who.declares), up, f"{output.about(info.beat_age)} ago", ", ".join(who.queues),
    ]  # fmt: skip
