"""What all commands share: how a command is given the app or the store, ``--json`` and ``--debug``, and how it runs."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

from windlass.app import Windlass
from windlass.cli.errors import DEBUG, CliError
from windlass.cli.find_app import load_app, load_tasks, looks_like_app
from windlass.cli.key_prefix import need_prefix

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])


class Target(NamedTuple):
    """The app a command works on: the one the user named, or a nameless one made for a store's URL."""

    spec: str = ""
    url: str = ""

    def load(self, *, tasks: bool = False) -> Windlass:
        """Import the app; ``tasks`` also imports the modules that declare its tasks."""
        if self.url:
            need_prefix(self.url)
            return Windlass("windlass", self.url)
        app = load_app(self.spec)
        if tasks:
            load_tasks(app)
        return app


def run(app: Windlass, make: Callable[[], Awaitable[T]]) -> T:
    """Run a command's coroutine and close the app's connection after it."""

    async def body() -> T:
        try:
            return await make()
        finally:
            await app.close()

    return asyncio.run(body())


def pick(
    words: tuple[str, ...], app: str | None, url: str | None, own: str, by_url: bool,
    mine: Callable[[str], bool] | None = None,
) -> tuple[Target, list[str]]:  # fmt: skip
    """Tell the app or store from the command's own words. An explicit APP wins over the environment.

    ``mine``: whether a word that looks like an APP belongs to the command.
    """
    app = app or click.get_current_context().meta.get("windlass.app")
    if app and url:
        raise click.UsageError("give an app or --url, not both")
    if app or url:
        return _named(Target(app or "", url or ""), words, own)
    env_app, env_url = os.environ.get("WINDLASS_APP", ""), os.environ.get("WINDLASS_URL", "") if by_url else ""
    if words and (not own or not (env_app or env_url) or (looks_like_app(words[0]) and not (mine and mine(words[0])))):
        return _named(Target(words[0]), words[1:], own)
    if env_app:
        return _named(Target(env_app), words, own)
    if env_url:
        return _named(Target(url=env_url), words, own)
    other = ", --url or $WINDLASS_URL" if by_url else ""
    raise click.UsageError(
        f"which app? Give it as the first argument, such as shop:app, or by -A/--app, $WINDLASS_APP{other}"
    )


def _named(target: Target, words: tuple[str, ...], own: str) -> tuple[Target, list[str]]:
    if words and not own:
        what = f"the app is {target.spec or target.url} already"
        raise click.UsageError(f"unexpected argument {words[0]!r}: {what}")
    return target, list(words)


def takes_app(
    own: str = "",
    *,
    by_url: bool = True,
    json: bool = True,
    optional: bool = False,
    mine: Callable[[str], bool] | None = None,
) -> Callable[[Command], Command]:
    """Give a command its APP argument in all its forms, with ``--json`` and ``--debug``.

    ``own`` names the command's own arguments behind APP, for the help text; the command gets them as ``words``. If the
    app is ``optional`` and not given in any form, ``target`` is None.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def called(words: tuple[str, ...], app_spec: str | None, url: str | None = None, **options: Any) -> Any:
            given = words or app_spec or url or click.get_current_context().meta.get("windlass.app")
            named = os.environ.get("WINDLASS_APP") or (by_url and os.environ.get("WINDLASS_URL"))
            if optional and not given and not named:
                return command(target=None, **options)
            target, rest = pick(words, app_spec, url, own, by_url, mine)
            if own:
                options["words"] = rest
            return command(target=target, **options)

        wrapped: Any = called
        shared = [json_option(), debug_option()] if json else [debug_option()]
        for option in reversed([*_app_options(own, by_url), *shared]):
            wrapped = option(wrapped)
        result: Command = wrapped
        return result

    return decorate


def _app_options(own: str, by_url: bool) -> list[Callable[[Any], Any]]:
    options = [
        click.argument("words", nargs=-1, metavar=f"[APP] {own}".strip(), shell_complete=_complete_words),
        click.option("-A", "--app", "app_spec", metavar="APP", help="The app, instead of APP [$WINDLASS_APP]."),
    ]
    if by_url:
        options.append(click.option("--url", metavar="URL", help="The store, instead of an app [$WINDLASS_URL]."))
    return options


def json_option() -> Callable[[Any], Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


def debug_option() -> Callable[[Any], Any]:
    return click.option(
        "--debug", is_flag=True, expose_value=False, callback=_set_debug, help="Show Python tracebacks of errors."
    )


def _set_debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[DEBUG] = True


def need_words(words: list[str], what: str) -> list[str]:
    """The command's own arguments, of which there must be at least one."""
    if not words:
        raise click.UsageError(f"missing {what}")
    return words


# -- completion


def _complete_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Task names for ``enqueue``, once the app is known; files for APP."""
    typed = ctx.params.get("words") or ()
    spec = ctx.params.get("app_spec") or os.environ.get("WINDLASS_APP") or (typed[0] if typed else "")
    if ctx.info_name == "enqueue" and spec and len(typed) <= 1:
        return [CompletionItem(name) for name in app_names(spec, "tasks") if name.startswith(incomplete)]
    return [] if typed else [CompletionItem(incomplete, type="file")]


def complete_tasks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in app_names(_spec(ctx), "tasks") if name.startswith(incomplete)]


def complete_queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    done, comma, last = incomplete.rpartition(",")
    names = app_names(_spec(ctx), "queues")
    return [CompletionItem(f"{done}{comma}{name}") for name in names if name.startswith(last)]


def _spec(ctx: click.Context) -> str:
    # A line that ends in an option without its value is not parsed further; its other words are left over.
    typed = ctx.params.get("words") or ctx.args
    return str(ctx.params.get("app_spec") or (typed[0] if typed else "") or os.environ.get("WINDLASS_APP", ""))


def app_names(spec: str, what: str) -> list[str]:
    """The declared tasks or queues of an app; none if it cannot be loaded, as this runs while a key is pressed."""
    try:
        app = Target(spec).load(tasks=True)
    except CliError:
        return []
    if what == "tasks":
        return sorted(app.tasks)
    return sorted({task.queue for task in app.tasks.values()} | app.declared.queue_layers.keys() | app.handlers.keys())
