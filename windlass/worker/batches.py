"""Batch tasks: claims of one task are gathered and run as one call, which settles each job for itself.

To the executor a batch is a ``Run`` like any other: one slot, one place, one timeout. This module works out what the
batch's end means for each member, and the executor settles the members one by one. Jobs of other tasks never come here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.calls.context import Current, Notes
from windlass.core.lifecycle import HandedBack, Outcome, Succeeded
from windlass.core.links import Inject
from windlass.errors import ConfigError
from windlass.worker.arguments import Ready, arguments
from windlass.worker.runner import LOST, TIMED_OUT, Run, bad_payload, judge, succeeded, timed_out, when_stopped
from windlass.worker.timers import Timers

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.calls.task import Task

BATCH = "batch"
"""The place of a job whose task takes batches: it runs where its batch does."""

MODEST_SECONDS = 1.0

Kind = tuple[str, int, str]
"""Task, version and queue: what gathers together."""


class Batch(Run):
    """Claims that run as one call. ``members`` are all of them; ``called`` are those whose arguments went into the
    call.
    """

    __slots__ = ("called", "members", "outcomes")

    def __init__(self, app: Windlass, first: Run, notes: Notes, state: SimpleNamespace) -> None:
        # The batch runs under its first job's id. Options of that job's own call must not hold for the others.
        claim = msgspec.structs.replace(first.claim, meta=b"{}", source="", inject=Inject.NONE, given=None, awaits="")
        super().__init__(app, claim, notes, state)
        self.each = BATCH
        self.rules = msgspec.structs.replace(self.rules, result=False)  # each member keeps a result of its own
        self.members: list[Run] = []
        self.called: list[Run] = []
        self.outcomes: dict[str, Outcome] = {}
        self.current = BatchCurrent(self, notes, state, app)

    @property
    def held(self) -> int:
        """How many of its members this worker still has to settle."""
        return sum(not run.settled and run.stop != LOST for run in self.members)

    def many(self, task: Task[Any, Any]) -> Ready:
        """The one call, for all members whose arguments can be read; the others fail alone."""
        items = []
        for run in self.members:
            try:
                _, args, _ = arguments(run)
            except Exception as error:
                self.outcomes[run.claim.id] = bad_payload(run, error)
                continue
            self.called.append(run)
            items.append(args[0])
        call = partial(self._awaited if task.is_async else self._called, task.fn, items)
        return call, (), {}

    async def _awaited(self, fn: Callable[..., Any], items: list[Any]) -> Any:
        return self._read(await fn(items)) if items else None

    def _called(self, fn: Callable[..., Any], items: list[Any]) -> Any:
        return self._read(fn(items)) if items else None

    def _read(self, results: Any) -> Any:
        """The function's answer as an outcome for each member."""
        count = len(self.called)
        if results is None:
            found: Iterable[Any] = [None] * count
        elif isinstance(results, (list, tuple)) and len(results) == count:
            found = results
        else:
            what = f"{len(results)} results" if isinstance(results, (list, tuple)) else type(results).__name__
            raise TypeError(f"task {self.claim.task} got a batch of {count} and gave {what}; return a list, or None")
        for run, result in zip(self.called, found, strict=True):
            failed = issubclass(type(result), Exception)  # isinstance would ask the value, which may lie or raise
            self.outcomes[run.claim.id] = judge(run, result) if failed else succeeded(run, result)
        return results

    def judge(self, exc: BaseException) -> Outcome:
        """Turn an exception of the call into an outcome for each member. The executor only learns that the batch is
        over.
        """
        if isinstance(exc, asyncio.CancelledError) and self.stop == TIMED_OUT:
            exc = timed_out(self)
        for run in self.called or self.members:
            self.outcomes[run.claim.id] = when_stopped(self.stop, exc) or judge(run, exc)
        return HandedBack()

    def outcome_of(self, run: Run, otherwise: Outcome) -> Outcome:
        """The member's own outcome; if it has none, what became of the batch."""
        known = self.outcomes.get(run.claim.id)
        return known or (HandedBack() if isinstance(otherwise, Succeeded) else otherwise)


class BatchCurrent(Current):
    """The running jobs as a batch's code sees them: the first one, and ``batch`` for all."""

    __slots__ = ("_of",)

    def __init__(self, batch: Batch, notes: Notes, state: SimpleNamespace, app: Windlass) -> None:
        super().__init__(batch.claim, notes, state, app)
        self._of = batch

    @property
    def batch(self) -> list[str]:
        return [run.claim.id for run in self._of.called]

    @property
    def members(self) -> list[Current]:
        return [run.current for run in self._of.members]

    def progress(self, percent: float, message: str = "", **data: Any) -> None:
        for run in self._of.called:
            run.current.progress(percent, message, **data)

    def log(self, text: object, level: str = "info") -> None:
        for run in self._of.called:
            run.current.log(text, level)

    def _hand_over(self, work: Any, *, replaced: bool) -> Any:
        raise ConfigError(f"task {self.task} takes batches: it cannot go on as a workflow")


class Batches:
    """The batches of one worker: those that gather, those that are full and wait for a slot, and those that run."""

    def __init__(self, app: Windlass, notes: Notes, state: SimpleNamespace, timers: Timers) -> None:
        self._app, self._notes, self._state, self._timers = app, notes, state, timers
        self.tasks = frozenset(task.name for task in app.tasks.values() if task.batch)
        self._gathering: dict[Kind, Batch] = {}
        self._of: dict[str, Batch] = {}
        self._live: set[Batch] = set()
        self._is_modest = self.closed = False

    @property
    def extra(self) -> int:
        """How many claims beyond its free slots the worker has room for: a batch takes one slot, and one that gathers
        takes more claims.
        """
        if not self._live:
            return 0
        gathering = set() if self._is_modest else set(self._gathering.values())
        return sum((self._size(batch) if batch in gathering else batch.held) - 1 for batch in self._live)

    def be_modest(self, then: Callable[[], None]) -> None:
        """Ask for no more claims than there are slots for a while: the extra ones fitted no batch and were
        handed back.
        """
        if not self._is_modest:
            self._is_modest = True
            self._timers.after(MODEST_SECONDS, lambda: self._ask_again(then), lambda: True)

    def _ask_again(self, then: Callable[[], None]) -> None:
        self._is_modest = False
        then()

    def _size(self, batch: Batch) -> int:
        return self._app.tasks[batch.claim.task].batch

    def join(self, run: Run, ready: Callable[[Batch], None]) -> None:
        """Add a claim. ``ready`` is called when its batch is full or has gathered for long enough."""
        claim = run.claim
        kind = (claim.task, claim.version, claim.queue)
        batch = self._gathering.get(kind)
        if batch is None:
            batch = self._gathering[kind] = Batch(self._app, run, self._notes, self._state)
            self._live.add(batch)
            self._await(kind, batch, ready)
        batch.members.append(run)
        self._of[claim.id] = batch
        if len(batch.members) >= self._size(batch):
            ready(self._gathering.pop(kind))

    def _await(self, kind: Kind, batch: Batch, ready: Callable[[Batch], None]) -> None:
        wait = self._app.tasks[batch.claim.task].batch_wait
        self._timers.after(
            wait / 1000, lambda: ready(self._gathering.pop(kind)), lambda: self._gathering.get(kind) is batch
        )

    @property
    def gathering(self) -> int:
        """How many claims wait for others of their task."""
        return sum(len(batch.members) for batch in self._gathering.values())

    def gathered(self) -> list[Batch]:
        """End the gathering of all batches, and answer them as they are."""
        batches = list(self._gathering.values())
        self._gathering.clear()
        return batches

    def unit(self, run: Run) -> Run:
        """What the executor runs for this claim: its batch, or the run itself."""
        return self._of.get(run.claim.id, run) if run.place == BATCH else run

    def leave(self, run: Run, waiting: deque[Run]) -> Batch | None:
        """Tell a member to stop. Before the start it leaves its batch; after it, the batch stops once no member is
        wanted.
        """
        batch = self._of.get(run.claim.id)
        if batch is None:
            return None
        if batch not in self._gathering.values() and batch not in waiting:
            return batch if all(member.settled or member.stop for member in batch.members) else None
        batch.members.remove(run)
        del self._of[run.claim.id]
        if not batch.members:
            self._live.discard(batch)
            self._gathering = {kind: other for kind, other in self._gathering.items() if other is not batch}
            if batch in waiting:
                waiting.remove(batch)
        return None

    def over(self, batch: Batch) -> None:
        self._live.discard(batch)
        for run in batch.members:
            self._of.pop(run.claim.id, None)
