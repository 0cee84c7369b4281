"""Notifications, as an app declares them: ``@app.on_dead(...)`` and ``app.notify(...)``.

This module keeps what an app declares, and has the task that delivers. Workers find out what there is to tell
(``worker/notifier.py``). Every delivery is a job: kept, retried and listed like any other. The jobs of notices are
never a reason for a notice.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from windlass.calls.declared import Declared
from windlass.calls.task import Task, task_name
from windlass.core.draft import Draft
from windlass.core.duration import Duration, to_ms
from windlass.core.hints import did_you_mean
from windlass.core.keep import DEFAULT_KEEP
from windlass.core.notice import CAUSED, KINDS, DeadLetter, Kind, Notice, NoticeRule, letter_id, matches
from windlass.core.option_parsers import whole
from windlass.core.options import RunSettings, RunsIn
from windlass.core.retry import Exponential, Matchers
from windlass.errors import ConfigError, PayloadError, WindlassError
from windlass.operate.targets import Email, Webhook
from windlass.workflows.signature import Signature
from windlass.workflows.work import App

F = TypeVar("F", bound=Callable[[DeadLetter], Any])
Target = Callable[[Notice], Awaitable[None] | None] | Webhook | Email

QUEUE = "notices"
TASK = "windlass.notice"
RETRIES = 10
_EVERY_OF_ITS_KIND = {
    "queue": QUEUE, "retries": RETRIES, "backoff": Exponential(base=1, cap="10m"),
    # Whatever the app keeps of its own jobs: by what is on record it is known what has been told.
    "keep": DEFAULT_KEEP,
}  # fmt: skip


class HandlerOptions(RunSettings, total=False):
    """Options of ``@app.on_dead(...)`` besides which dead letters: those of the task it makes."""

    retry_on: Matchers
    give_up_on: Matchers
    name: str
    runs_in: RunsIn


class Handler(msgspec.Struct, frozen=True):
    """A task that gets a job for each dead letter of these queues and tasks."""

    task: str
    queue: str
    of_task: str


class Notices:
    """``app.notices``. True when anything is declared."""

    def __init__(self, app: App, declared: Declared) -> None:
        self._app, self._declared = app, declared
        self.handlers: dict[str, Handler] = {}
        self.rules: dict[str, NoticeRule] = {}
        self._targets: dict[str, Target] = {}

    def __bool__(self) -> bool:
        return bool(self.handlers or self.rules)

    # -- declaring

    def on_dead(self, queue: str, task: str, options: HandlerOptions) -> Callable[[F], Task[[DeadLetter], Any]]:
        def declare(fn: F) -> Task[[DeadLetter], Any]:
            _check_handler(fn)
            made = self._declared.add_task(fn, {**_EVERY_OF_ITS_KIND, **options})
            self.handlers[made.name] = Handler(made.name, queue or "*", task or "*")
            return made

        return declare

    def notify(
        self, target: Target, on: Sequence[Kind], queue: str, every: Duration, burst: int, stuck_after: Duration
    ) -> None:
        where = f"notify({target!r})"
        for kind in on:
            if kind not in KINDS:
                raise ConfigError(f"{where}: on= has {kind!r}{did_you_mean(str(kind), KINDS)}; give some of {KINDS}")
        if not isinstance(target, Webhook | Email) and not callable(target):
            raise ConfigError(f"{where}: give a function of one notice, a Webhook or an Email")
        rule = NoticeRule(
            key="", on=tuple(on), queue=queue, burst=whole(1, 1_000_000)(burst, f"{where}: burst"),
            every=to_ms(every, f"{where}: every"), stuck_after=to_ms(stuck_after, f"{where}: stuck_after"),
        )  # fmt: skip
        key = self._key(target, rule)
        self.rules[key], self._targets[key] = msgspec.structs.replace(rule, key=key), target
        if TASK not in self._declared.tasks:
            self._declared.add_task(
                self._deliver, {**_EVERY_OF_ITS_KIND, "name": TASK, "timeout": "2m", "result": False}
            )

    def _key(self, target: Target, rule: NoticeRule) -> str:
        """A name for the rule that every process and the next deployment find again, and that betrays no secret."""
        if isinstance(target, Webhook | Email):
            name = f"{target.kind}-{short_hash(target.identity)}"
        else:
            name = task_name(target) if hasattr(target, "__qualname__") else type(target).__name__
        key, number = name, 1
        while key in self.rules and msgspec.structs.replace(self.rules[key], key="") != rule:
            number += 1
            key = f"{name}-{number}"
        return key

    # -- delivering

    async def _deliver(self, to: str, notice: Notice) -> None:
        target = self._targets.get(to)
        if target is None:
            raise WindlassError(f"no notify() of this worker's code is for {to!r}{did_you_mean(to, self._targets)}")
        if isinstance(target, Webhook | Email):
            await target.send(notice)
        elif inspect.iscoroutinefunction(target):
            await target(notice)
        elif inspect.isawaitable(later := await asyncio.to_thread(target, notice)):
            await later

    # -- for the worker

    def is_own(self, task: str, correlation_id: str) -> bool:
        """Whether a job is the doing of notices, of which nothing is told."""
        return task == TASK or task in self.handlers or correlation_id.startswith(CAUSED)

    def letter_drafts(self, letter: DeadLetter, headers: dict[str, str], cursor: str = "") -> list[Draft]:
        """A call for each handler of a dead letter. ``cursor``: of its event, which names it where its run does not."""
        return [
            self._letter_draft(one.task, letter, letter_id(letter, one.task, cursor), headers)
            for one in self.handlers.values()
            if matches(one.queue, letter.queue) and matches(one.of_task, letter.task)
        ]

    def _letter_draft(self, task: str, letter: DeadLetter, id: str, headers: dict[str, str]) -> Draft:
        try:
            return self._draft(task, (letter,), id, letter.id, headers)
        except PayloadError:  # larger than this app lets payloads be; what cannot be left out is short
            brief = msgspec.structs.replace(letter, args=None, message=letter.message[:200])
            return self._draft(task, (brief,), id, letter.id, headers)

    def notice_draft(self, key: str, notice: Notice) -> Draft:
        return self._draft(TASK, (key, notice), notice.id, notice.job or notice.id, {})

    def _draft(self, task: str, args: tuple[Any, ...], id: str, cause: str, headers: dict[str, str]) -> Draft:
        options = {"id": id, "correlation_id": f"{CAUSED}{cause}"[:256], "headers": headers}
        call: Signature[Any] = Signature(self._app, task, args, {}, options)
        return self._app.submitting.draft(call)


def short_hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=4).hexdigest()


def _check_handler(fn: Callable[..., Any]) -> None:
    """It takes the letter and nothing else. An annotation left out is filled in: arguments are read by it."""
    parameters = list(inspect.signature(fn).parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise ConfigError(f"on_dead: {fn!r} must take one argument, the dead letter")
    fn.__annotations__.setdefault(parameters[0].name, DeadLetter)
