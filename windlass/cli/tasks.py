"""``windlass tasks``: pause, resume and tune a task, wherever its jobs are."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli import output
from windlass.cli.limits import said, told, tuning
from windlass.cli.operator import operator
from windlass.cli.target import Target, run, takes_app
from windlass.core.hints import did_you_mean
from windlass.handles.gates import LimitInfo


@click.group()
def tasks() -> None:
    """Pause, resume and tune tasks, on all workers at once."""


@tasks.command("pause")
@takes_app("NAME")
def pause_task(target: Target, as_json: bool, words: list[str]) -> None:
    """Start no more jobs of a task. Those that run go on."""
    _act(target, words, "pause", "paused", as_json)


@tasks.command("resume")
@takes_app("NAME")
def resume_task(target: Target, as_json: bool, words: list[str]) -> None:
    """Let a paused task's jobs start again."""
    _act(target, words, "resume", "resumed", as_json)


@tasks.command("tune")
@takes_app("NAME")
@tuning("limit", "rate")
def tune_task(target: Target, as_json: bool, words: list[str], **limits: Any) -> None:
    """Say other limits of a task than the code does; the value none takes one away."""
    _act(target, words, "tune", "tuned", as_json, said(limits))


@tasks.command("untune")
@takes_app("NAME")
def untune_task(target: Target, as_json: bool, words: list[str]) -> None:
    """Let the limits in the code hold again. A pause stays."""
    _act(target, words, "untune", "untuned", as_json)


def _act(
    target: Target, words: list[str], method: str, done: str, as_json: bool, options: dict[str, Any] | None = None
) -> None:
    if len(words) != 1:
        raise click.UsageError("give the name of one task")
    app = target.load()
    gate = app.task_gate(words[0])

    async def act() -> LimitInfo:
        # Not by the console, which knows only tasks that the app or a live worker declares.
        console = operator(app)
        known = [row.name for row in await console.tasks()]
        if words[0] not in known:
            hint = did_you_mean(words[0], known)
            output.note(
                f"warning: nobody knows task {words[0]!r}{hint}: neither this app nor a live worker declares it"
            )
        async with console.acting(f"{method}_task", words[0], **options or {}) as deed:
            await deed.begin()
            await getattr(gate, method)(**options or {})
            deed.record.count = 1
        return await gate.info()

    told(f"task {words[0]}", done, run(app, act), as_json)
