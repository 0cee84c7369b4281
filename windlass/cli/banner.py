"""What a worker prints about itself when it starts."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

import click
import msgspec

from windlass.app import Windlass
from windlass.core.keep import Keep, read_bucket
from windlass.core.store_url import redact_url
from windlass.store.base import StoreSettings
from windlass.store.reads import StoreInfo

if TYPE_CHECKING:
    from windlass.worker.worker_options import CheckedOptions

log = logging.getLogger("windlass.cli")

_KINDS = {"loop": "async", "thread": "thread", "process": "process"}


class StoreRules(msgspec.Struct):
    """``StoreSettings`` in plain numbers; ``keep`` as the names of its buckets."""

    name: str
    keep: tuple[str, str]
    unknown_after: int
    events_kept: int
    logs_kept: int

    def settings(self) -> StoreSettings:
        done, failed = (_read_keep(name) for name in self.keep)
        keep = Keep(done.count, done.age, failed)
        return StoreSettings(
            name=self.name, keep=keep, unknown_after=self.unknown_after, events_kept=self.events_kept,
            logs_kept=self.logs_kept,
        )  # fmt: skip


def _read_keep(name: str) -> Keep:
    limits = read_bucket(name)
    return Keep(limits.limit if limits.limit >= 0 else None, limits.age / 1000 if limits.age >= 0 else None)


class Description(msgspec.Struct, kw_only=True):
    """A worker before it runs: what the banner shows, and what its supervisor needs to reach the store itself."""

    app: str
    url: str
    rules: StoreRules
    engine: str
    durability: str
    warnings: list[str]
    queues: list[str]
    tasks: dict[str, int]
    handlers: list[str]
    concurrency: int
    children: int
    grace: float


def describe(app: Windlass, options: CheckedOptions, info: StoreInfo) -> Description:
    stored = app.settings.for_store(app.name)
    rules = StoreRules(stored.name, stored.keep.buckets(""), stored.unknown_after, stored.events_kept, stored.logs_kept)
    kinds = Counter(_KINDS[task.runs_in] for task in app.tasks.values())
    return Description(
        app=app.name, url=app.url, rules=rules, engine=f"{info.engine} {info.version}",
        durability=info.durability, warnings=info.warnings, queues=_queues(options), tasks=dict(kinds),
        handlers=sorted(app.handlers), concurrency=options.concurrency, children=options.children, grace=options.grace,
    )  # fmt: skip


def _queues(options: CheckedOptions) -> list[str]:
    """The queues as the user writes them, with their weights where they have some."""
    return [f"{name}*{weight}" for name, weight in zip(options.queues, options.weights, strict=False)] or list(
        options.queues
    )


def show(found: Description, pid: int, processes: str, style: str) -> None:
    """Print the banner to standard error: lines for people, or one JSON log line."""
    if style == "json":
        fields = msgspec.to_builtins(found)
        del fields["rules"], fields["warnings"]
        fields.update(url=redact_url(found.url), processes=processes)
        log.info("starting", extra={"worker": fields})
    else:
        from windlass import __version__

        click.secho(f"windlass {__version__}  {found.app}", err=True, bold=True)
        for name, text in _lines(found, pid, processes):
            click.echo(f"  {click.style(f'{name:<12}', fg='bright_black')}{text}", err=True)
    for warning in found.warnings:
        log.warning("store: %s", warning)


def _lines(found: Description, pid: int, processes: str) -> list[tuple[str, str]]:
    slots = f"{found.concurrency} jobs at once" + (f" in each of {processes} processes" if processes != "1" else "")
    children = f", {found.children} child processes" if found.children and "process" in found.tasks else ""
    return [
        ("store", f"{redact_url(found.url)} ({found.engine})"),
        ("durability", found.durability),
        ("queues", ", ".join(found.queues)),
        ("tasks", _tasks(found)),
        ("concurrency", slots + children),
        ("pid", f"{pid}; Ctrl-C drains for up to {found.grace:g} s, again stops at once"),
    ]


def _tasks(found: Description) -> str:
    total = sum(found.tasks.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.tasks.items()))
    handlers = f"; handlers for {', '.join(found.handlers)}" if found.handlers else ""
    return (f"{total} ({kinds})" if total else "none") + handlers
