"""``windlass enqueue``: call a task from the shell, and wait for its result if asked to."""

from __future__ import annotations

from typing import Any

import click

from windlass.app import Windlass
from windlass.cli import option_types, output
from windlass.cli.errors import CliError, NotDone
from windlass.cli.operator import operator
from windlass.cli.target import Target, complete_queues, run, takes_app
from windlass.core.hints import did_you_mean
from windlass.errors import JobError, JobFailed
from windlass.handles.handle import Handle

FOREVER = "forever"


@click.command()
@takes_app("TASK [KEY=VALUE]...")
@click.option("--args", "whole", callback=option_types.json_value, metavar="JSON",
              help="Arguments as a JSON object, or as an array in the task's order.")  # fmt: skip
@click.option("--delay", callback=option_types.duration, metavar="TIME", help="Not before so long: 90, 10m, '1h 30m'.")
@click.option("--at", callback=option_types.instant, metavar="ISO", help="Not before this time, with its zone.")
@click.option("--queue", metavar="NAME", shell_complete=complete_queues, help="Another queue than the task's own.")
@click.option("--priority", type=click.IntRange(0, 9), metavar="N", help="0 to 9, 9 first.")
@click.option("--id", "id", metavar="TEXT", help="The job's id; the same call under the same id is made once.")
@click.option("--wait", is_flag=False, flag_value=FOREVER, metavar="[SECONDS]",
              help="Wait for the result and print it; for so long, or as long as it takes.")  # fmt: skip
def enqueue(target: Target, as_json: bool, words: list[str], whole: Any, wait: str | None, **options: Any) -> None:
    """Call a task of APP.

    A VALUE that is JSON is taken as such, anything else as text. A task may be named by its last
    part where that is unique. With --url, without an app, any name goes: its worker checks the call.

    \b
      windlass enqueue shop:app send_email to=ann@example.org subject=Hello
      windlass enqueue shop:app shop.add --args '[1, 2]' --wait 10
    """
    if not words:
        raise click.UsageError("missing TASK")
    if options["delay"] is not None and options["at"] is not None:
        raise click.UsageError("give --delay or --at, not both")
    seconds = wait_seconds(wait)
    args, kwargs = arguments(words[1:], whole)
    chosen = {name: value for name, value in options.items() if value is not None}
    app = target.load(tasks=True)
    name = words[0] if target.url else task_name(app, words[0], chosen.get("queue", ""), target.spec)
    run(app, lambda: call(app, name, args, kwargs, chosen, (wait is not None, seconds, as_json)))


def wait_seconds(wait: str | None) -> float | None:
    if wait is None or wait == FOREVER:
        return None
    ctx = click.get_current_context()
    param = next(param for param in ctx.command.params if param.name == "wait")
    if "=" in wait:
        raise click.BadParameter(f"{wait!r} is no time; put --wait last, or write --wait=10", ctx, param)
    return option_types.duration(ctx, param, wait)


def arguments(words: list[str], whole: Any) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments, from words and from ``--args``."""
    named: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{word!r} is no argument; write KEY=VALUE, or give all as --args JSON")
        named[key] = option_types.json_or_text(value)
    if isinstance(whole, list):
        return whole, named
    return [], {**(whole or {}), **named}


def task_name(app: Windlass, given: str, queue: str, spec: str) -> str:
    """The declared name meant by ``given``, which may be its last part."""
    if given in app.tasks or queue in app.handlers:
        return given
    short = [name for name in app.tasks if name.rpartition(".")[2] == given]
    if len(short) == 1:
        return short[0]
    if short:
        raise CliError(f"{given!r} may be any of {', '.join(sorted(short))}; say which")
    known = [*app.tasks, *(name.rpartition(".")[2] for name in app.tasks)]
    listed = f"; it declares {', '.join(sorted(app.tasks))}" if app.tasks else "; it declares none"
    raise CliError(f"{spec} has no task {given!r}{did_you_mean(given, known)}{listed}")


async def call(
    app: Windlass, name: str, args: list[Any], kwargs: dict[str, Any], options: dict[str, Any],
    wait: tuple[bool, float | None, bool],
) -> None:  # fmt: skip
    """Make the call, then wait for its result or print its id."""
    waits, seconds, as_json = wait
    if args and name not in app.tasks:
        raise CliError(f"task {name!r} is not declared here, so its arguments need names: give --args an object")
    # Not by the console, which takes arguments by name only, and only declared tasks.
    async with operator(app).acting("enqueue", name, arguments=sorted(kwargs), **options) as deed:
        queue = options.get("queue") or (app.tasks[name].queue if name in app.tasks else "default")
        await deed.begin([queue])
        handle = await _enqueue(app, name, args, kwargs, options)
        deed.record.details["id"], deed.record.count = handle.id, 1
    if not waits:
        output.print_json({"id": handle.id}) if as_json else click.echo(handle.id)
        return
    if not as_json:
        output.note(f"job {handle.id}" + await nobody_listens(app, handle.id))
    await show_result(handle, seconds, as_json)


async def _enqueue(
    app: Windlass, name: str, args: list[Any], kwargs: dict[str, Any], options: dict[str, Any]
) -> Handle[Any]:
    if name in app.tasks:
        return await app.tasks[name].options(**options).enqueue(*args, **kwargs)
    rest = {option: value for option, value in options.items() if option != "queue"}
    return await app.queue(options.get("queue", "default")).add(name, kwargs, **rest)


async def nobody_listens(app: Windlass, id: str) -> str:
    """The warning for a caller that waits although no worker would take the job."""
    store = (await app.client()).store
    (job,) = await store.get([id])
    if job is None or job.state.terminal:
        return ""
    served = any(worker.alive and job.queue in worker.presence.queues for worker in await store.workers())
    return "" if served else f"; no worker serves queue {job.queue} now: start one with `windlass worker`"


async def show_result(handle: Handle[Any], seconds: float | None, as_json: bool) -> None:
    try:
        result = await handle.result(timeout=seconds)
    except JobError as error:
        if as_json:
            output.print_json({"id": handle.id, "state": str(await handle.state() or "unknown"), "error": str(error)})
        raise NotDone(str(error), error.traceback if isinstance(error, JobFailed) else "") from error
    if as_json:
        output.print_json({"id": handle.id, "state": "succeeded", "result": result})
    else:
        click.echo(result if isinstance(result, str) else output.pretty(result))
