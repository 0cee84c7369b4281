"""``windlass doctor``: what is installed, reachable and safe, and what is not."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click

from windlass.app import Windlass
from windlass.cli import output
from windlass.cli.errors import CliError
from windlass.cli.installed import Check, Level, about_installation
from windlass.cli.target import Target, run, takes_app
from windlass.core.duration import show_ms
from windlass.core.store_url import redact_url
from windlass.errors import ConfigError, WindlassError
from windlass.store.base import Store
from windlass.store.reads import QueueInfo, WorkerInfo

_MARKS = {"ok": ("✓", "green"), "note": ("·", "bright_black"), "warning": ("!", "yellow"), "wrong": ("✗", "red")}
_CLOCK_SLACK_MS = 2_000


@click.command()
@click.option("--strict", is_flag=True, help="Exit code 1 at warnings too.")
@takes_app(optional=True)
def doctor(target: Target | None, strict: bool, as_json: bool) -> None:
    """Say what is installed, reachable and safe.

    Without an app it looks at this Python only; with one also at its store, workers and queues.

    \b
    Exit codes:
      0  nothing is wrong (✗); with --strict also no warning (!)
      1  something is wrong: the app cannot be loaded, the store not be reached, an installation is
         broken. With --strict also at a warning: jobs that no live worker serves, workers that died,
         a store that may lose jobs, a clock that is off
      2  a mistake in the call
    """
    checks = [*about_installation()]
    if target is not None:
        checks += about_target(target)
    wrong = any(check.level == "wrong" or (strict and check.level == "warning") for check in checks)
    if as_json:
        output.print_json({"ok": not wrong, "checks": checks})
    else:
        show(checks)
    if wrong:
        click.get_current_context().exit(1)


def show(checks: list[Check]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark, colour = _MARKS[check.level]
        text = check.text.replace("\n", "\n" + " " * (width + 4))
        click.echo(f"{click.style(mark, fg=colour)} {check.name:<{width}}  {text}")


# -- the app and its store


def about_target(target: Target) -> list[Check]:
    try:
        app = target.load(tasks=True)
    except CliError as error:
        text = "\n".join(filter(None, [error.message, error.detail.rstrip()]))
        return [Check("app" if target.spec else "store", "wrong", text)]
    except ConfigError as error:
        return [Check("store", "wrong", str(error))]
    checks = []
    if target.spec:
        level: Level = "ok" if app.tasks or app.handlers else "warning"
        checks.append(Check("app", level, f"{app.name}, {len(app.tasks)} tasks"))
    try:
        return checks + run(app, lambda: about_store(app))
    except WindlassError as error:
        return [*checks, Check("store", "wrong", f"{redact_url(app.url)} cannot be used:\n{error}")]


async def about_store(app: Windlass) -> list[Check]:
    start = time.perf_counter()
    store = (await app.client()).store
    info = await store.info()
    opened = time.perf_counter()
    workers, queues = await store.workers(), await store.queues()
    trip = (time.perf_counter() - opened) * 1000 / 2
    reached = f"opened in {(opened - start) * 1000:.0f} ms, {trip:.1f} ms per question"
    details = ", ".join(f"{name} {value}" for name, value in info.details.items())
    return [
        Check("store", "ok", f"{redact_url(app.url)}: {info.engine} {info.version}, {reached}"),
        Check("details", "note", details or "none"),
        Check("durability", "warning" if info.durability.startswith("none") else "ok", info.durability),
        *(Check("warning", "warning", text) for text in info.warnings),
        await about_clock(store),
        about_workers(workers),
        *about_queues(queues, workers),
    ]


async def about_clock(store: Store) -> Check:
    """Compare clocks. The store stamps events with its own, so its newest event cannot be later than now."""
    newest = await store.events(-1)
    ahead = newest[-1].at - int(time.time() * 1000) if newest else 0
    if ahead > _CLOCK_SLACK_MS:
        return Check("store clock", "warning", f"{show_ms(ahead)} ahead of this machine's; check both against NTP")
    return Check("store clock", "ok", "not ahead of this machine's")


def about_workers(workers: list[WorkerInfo]) -> Check:
    alive = [worker for worker in workers if worker.alive]
    dead = len(workers) - len(alive)
    text = f"{len(alive)} alive, {sum(worker.running for worker in alive)} jobs running"
    if dead:
        return Check("workers", "warning", f"{text}; {dead} died and their jobs are not recovered yet")
    return Check("workers", "ok" if alive else "note", text if alive else "none is running")


def about_queues(queues: list[QueueInfo], workers: list[WorkerInfo]) -> Iterator[Check]:
    served = {queue for worker in workers if worker.alive for queue in worker.presence.queues}
    for queue in queues:
        ready, later, failed = (queue.counts.get(state, 0) for state in ("ready", "scheduled", "failed"))
        if (ready or later) and queue.name not in served:
            oldest = f" (the oldest for {show_ms(queue.oldest_ready)})" if ready else ""
            what = f"{ready:,} jobs are ready" if ready else f"{later:,} jobs are scheduled"
            yield Check(f"queue {queue.name}", "warning", f"{what} and no live worker serves it{oldest}")
        if failed:
            yield Check(f"queue {queue.name}", "note", f"{failed:,} dead letters: windlass dead list")
