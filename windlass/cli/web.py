"""``windlass web``: the dashboard and its JSON API, served by uvicorn."""

from __future__ import annotations

import logging
import socket
import threading
import webbrowser
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.errors import CliError
from windlass.cli.target import Target, takes_app
from windlass.core.access import Access, make_access
from windlass.core.network_addresses import is_loopback
from windlass.core.packages import pip_install
from windlass.errors import ConfigError

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.web.auth import Authorize

GRACE_SECONDS = 2
"""How long open pages may finish at the end: their event streams never do by themselves."""


@click.command()
@takes_app(json=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at; others need auth.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes a free one.")
@click.option("--user", "users", multiple=True, envvar="WINDLASS_WEB_USER", metavar="NAME:PASSWORD",
              help="Let this user in; repeatable. Other users of the machine can see it here: better in "
                   "$WINDLASS_WEB_USER, several separated by spaces.")  # fmt: skip
@click.option("--token", "tokens", multiple=True, envvar="WINDLASS_WEB_TOKEN", metavar="NAME:TOKEN",
              help="Let scripts with this Bearer token in; repeatable [$WINDLASS_WEB_TOKEN].")  # fmt: skip
@click.option("--rights", default="*", metavar="RIGHT,…", show_default=True,
              help="What they may do: read, values, retry, cancel …")  # fmt: skip
@click.option("--queues", default="", metavar="PATTERN,…", help="The queues they see, such as billing.* [all].")
@click.option("--redact", multiple=True, metavar="PATTERN", help="Names whose values are hidden, such as '*password*'.")
@click.option("--title", default="", help="The name at the top [the app's].")
@click.option("--environment", default="", metavar="NAME", help="A badge at the top, such as production.")
@click.option("--trace-url", default="", metavar="URL", help="A link to traces, with {trace_id} in it.")
@click.option("--refresh", type=float, default=2.0, show_default=True, metavar="SECONDS",
              help="How often open pages look for news.")  # fmt: skip
@click.option("--root-path", default="", metavar="PATH", help="The path a proxy in front takes off, such as /jobs.")
@click.option("--open-probes", is_flag=True, help="/health and /ready answer anybody, without details.")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser.")
def web(target: Target, host: str, port: int, root_path: str, opens: bool, **given: Any) -> None:
    """Serve the dashboard.

    Without --user and --token it changes nothing, and answers this machine only, by the link that is printed: a key is
    in it, new at each start unless $WINDLASS_WEB_KEY says one.
    """
    auth = auth_of(given.pop("users"), given.pop("tokens"), given.pop("rights"), given.pop("queues"))
    check_host(host, auth)
    serve(target.load(tasks=True), auth, host, port, root_path.rstrip("/"), opens, given)


def auth_of(users: Iterable[str], tokens: Iterable[str], rights: str, queues: str) -> list[Authorize]:
    """The ways to sign in; none if neither a user nor a token is given."""
    basic, token = need_web().Basic, need_web().Token
    patterns = [each.strip() for each in queues.split(",") if each.strip()]

    def access(name: str) -> Access:
        return make_access(name, [right.strip() for right in rights.split(",") if right.strip()], patterns)

    logins = {name: (secret, access(name)) for name, secret in map(_split, users)}
    bearers = {secret: (name, access(name)) for name, secret in map(_split, tokens)}
    return [*([basic(logins)] if logins else []), *([token(bearers)] if bearers else [])]


def _split(text: str) -> tuple[str, str]:
    name, colon, secret = text.partition(":")
    if not colon or not name or not secret:
        raise click.UsageError("give NAME:PASSWORD for --user and NAME:TOKEN for --token")
    return name, secret


def need_web() -> Any:
    """The module, or what to install."""
    try:
        import uvicorn  # noqa: F401

        import windlass.web as module
    except ImportError as error:
        raise CliError(f"the dashboard needs more packages: {pip_install('web')}") from error
    return module


def check_host(host: str, auth: list[Authorize]) -> None:
    if not auth and not is_loopback(host):
        raise CliError(
            f"--host {host} would show this app's jobs to everybody who can reach this machine; add "
            "--user NAME:PASSWORD (or $WINDLASS_WEB_USER), --token NAME:TOKEN, or leave --host out"
        )


def serve(
    app: Windlass, auth: list[Authorize], host: str, port: int, root_path: str, opens: bool, settings: dict[str, Any]
) -> None:
    """Serve until told to stop."""
    import uvicorn

    if app.url.startswith("memory:"):
        raise CliError(
            "a memory:// store lives in one process, so this one would never see a job; give the app another URL, or "
            "mount windlass_dashboard(app) in the program"
        )
    try:
        dashboard = need_web().windlass_dashboard(app, auth=auth or None, **settings)
    except ConfigError as error:
        raise CliError(str(error)) from error
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(message)s", level=logging.INFO)
    if not auth:
        click.echo(
            "No --user and no --token: read-only, and for this machine only, by the link with its key.", err=True
        )
    config = uvicorn.Config(
        dashboard, root_path=root_path, log_level="warning", server_header=False, access_log=False,
        proxy_headers=bool(auth),  # without auth no proxy may speak for other clients
        timeout_graceful_shutdown=GRACE_SECONDS,
    )  # fmt: skip
    with listen(host, port) as door:
        shown = host if ":" not in host else f"[{host}]"
        key = f"?key={dashboard.state.key}" if dashboard.state.key else ""
        link = f"http://{shown}:{door.getsockname()[1]}{root_path}/{key}"
        click.echo(f"Dashboard of {app.name}: {link}", err=True)
        if opens:  # it waits until the server answers, and some browsers return late
            threading.Thread(target=webbrowser.open, args=[link], daemon=True).start()
        uvicorn.Server(config).run(sockets=[door])


def listen(host: str, port: int) -> socket.socket:
    """Open the port here and not in the server, so that a free port's number is known before it is printed."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise CliError(f"cannot listen at {host}, port {port}: {error.strerror or error}") from error
