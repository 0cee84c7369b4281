"""``windlass celery -A module inspect|control|status|purge|call|result``: Celery's questions and orders as commands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from windlass.celery.control import Control, Inspect
from windlass.celery.json_values import pack
from windlass.cli.errors import CliError, NotDone
from windlass.core.hints import did_you_mean

if TYPE_CHECKING:
    from windlass.celery import Celery

_QUESTIONS = [name for name in vars(Inspect) if not name.startswith("_") and name != "registered_tasks"]
_ORDERS = ["add_consumer", "cancel_consumer", "ping", "rate_limit", "revoke", "shutdown", "terminate"]
_destination = click.option("-d", "--destination", multiple=True, metavar="A,B", help="Only these workers.")
_timeout = click.option("-t", "--timeout", hidden=True, help="Taken: nobody need be waited for.")
_json = click.option("-j", "--json", "as_json", is_flag=True, help="As JSON.")


def add_commands(group: click.Group, find: Callable[[Any], Celery]) -> None:
    """Add the commands. Each works on the app named before it."""
    for command in (inspect, control, status, purge, call, result):
        group.add_command(command)
    _find[:] = [find]


_find: list[Callable[[Any], Celery]] = []


def _app(given: Any) -> Celery:
    app = _find[0](given)
    app.windlass.load()
    return app


def _split(destination: tuple[str, ...]) -> list[str] | None:
    return [name for part in destination for name in part.split(",") if name] or None


def _known(name: str, names: list[str], what: str, of: type) -> str:
    if name not in names:
        try:
            getattr(of(None), name)
        except AttributeError as error:
            raise click.UsageError(str(error)) from None
        raise click.UsageError(f"there is no {what} {name!r}{did_you_mean(name, names)}")
    return name


def _show(answer: dict[str, Any] | None, as_json: bool) -> None:
    if as_json:
        click.echo(_text(answer or {}))
    elif answer is None:
        raise NotDone("no worker is running")
    else:
        for node, said in answer.items():
            click.echo(f"->  {node}: {said if isinstance(said, str) else _text(said)}")


def _text(value: Any) -> str:
    return msgspec.json.encode(pack(value)).decode()


@click.command()
@click.argument("question", metavar="|".join(_QUESTIONS))
@click.argument("args", nargs=-1)
@_destination
@_timeout
@_json
@click.pass_obj
def inspect(
    given: Any, question: str, args: tuple[str, ...], destination: tuple[str, ...], timeout: Any, as_json: bool
) -> None:
    """Ask the store what workers do."""
    _known(question, _QUESTIONS, "question", Inspect)
    asked = _app(given).control.inspect(_split(destination))
    _show(getattr(asked, question)(*args), as_json)


@click.command()
@click.argument("order", metavar="|".join(_ORDERS))
@click.argument("args", nargs=-1)
@_destination
@_timeout
@click.pass_obj
def control(given: Any, order: str, args: tuple[str, ...], destination: tuple[str, ...], timeout: Any) -> None:
    """Tell workers what to do."""
    _known(order, _ORDERS, "order", Control)
    try:
        told = getattr(_app(given).control, order)(*args, destination=_split(destination))
    except TypeError as error:
        raise click.UsageError(f"{order}: {error}") from None
    for answer in told or ():
        for node, said in answer.items():
            click.echo(f"->  {node}: {said['ok']}")
    if told == []:
        raise NotDone("no such worker is running")


@click.command()
@_destination
@_timeout
@_json
@click.pass_obj
def status(given: Any, destination: tuple[str, ...], timeout: Any, as_json: bool) -> None:
    """Say which workers live."""
    answer = _app(given).control.inspect(_split(destination)).ping()
    _show(answer if as_json or answer is None else dict.fromkeys(answer, "OK"), as_json)
    if not as_json:
        click.echo(f"{len(answer or ())} node{'' if len(answer or ()) == 1 else 's'} online.")


@click.command()
@click.option("-f", "--force", is_flag=True, help="Do not ask.")
@click.option(
    "-Q", "--queues", multiple=True, metavar="A,B", help="These queues [those of a worker that is told none]."
)
@click.pass_obj
def purge(given: Any, force: bool, queues: tuple[str, ...]) -> None:
    """Delete what waits in queues."""
    app = _app(given)
    names = _split(queues) or app.worker_queues()
    if not force:
        click.confirm(f"Delete everything that waits in {', '.join(names)}?", abort=True, err=True)
    count = sum(app.windlass.sync.queue(name).purge() for name in names)
    click.echo(f"Purged {count} task{'' if count == 1 else 's'} from {', '.join(names)}.")


@click.command()
@click.argument("name")
@click.option("-a", "--args", "args", default="[]", metavar="JSON", help="Arguments by place.")
@click.option("-k", "--kwargs", default="{}", metavar="JSON", help="Arguments by name.")
@click.option("--countdown", type=float, metavar="SECONDS", help="Not before.")
@click.option("--eta", metavar="INSTANT", help="Not before, in ISO form.")
@click.option("--queue", help="The queue.")
@click.option("--priority", type=click.IntRange(0, 9), help="9 is first.")
@click.pass_obj
def call(given: Any, /, name: str, args: str, kwargs: str, **options: Any) -> None:
    """Call a task and print its id."""
    chosen = {key: value for key, value in options.items() if value is not None}
    places, names = _read(args, list, "--args"), _read(kwargs, dict, "--kwargs")
    try:
        click.echo(_app(given).send_task(name, places, names, **chosen).id)
    except TypeError as error:
        raise click.UsageError(str(error)) from None


def _read(text: str, kind: type, option: str) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise click.UsageError(f"{option} {text!r}: {error}") from None


@click.command()
@click.argument("task_id")
@click.option("--traceback", is_flag=True, help="Its traceback instead.")
@click.option("-t", "--task", hidden=True, help="Taken: a result is read by its id.")
@click.pass_obj
def result(given: Any, task_id: str, traceback: bool, task: str | None) -> None:
    """Print the result of a task."""
    found = _app(given).AsyncResult(task_id)
    if found.handle.info() is None:
        raise CliError(f"there is no task {task_id!r}")
    value = found.traceback if traceback else found.result
    click.echo(value if isinstance(value, str) else repr(value) if isinstance(value, Exception) else _text(value))
    if found.failed():
        sys.exit(1)
