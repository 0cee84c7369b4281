"""What becomes of calls whose unique key is held: nothing, or they replace what has not started yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.core.job import NewJob
from windlass.core.terms import Policy, Terms
from windlass.store.answers import Accept, Answer
from windlass.store.machine.codes import BAND, FIRST_TERMINAL, READY, RUNNING, SCHEDULED, WAITING, to_text
from windlass.store.machine.flow.uniques import Key, Replaceable, wake_for_due
from windlass.store.machine.jobs.moves import shift
from windlass.store.machine.jobs.rows import DUE, META, PAYLOAD, PLACE, PRIORITY, STATE, VERSION
from windlass.store.machine.tx import Tx, encode


class Call(NamedTuple):
    """What becomes of a call whose key is held: an answer; or none, if it is accepted as a successor."""

    answer: Answer | None
    event: str = ""
    row: Sequence[Any] = ()


class Replacing:
    """The jobs that calls of one batch replace. What was called last runs last."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.ready: Counter[str] = Counter()
        """By queue, how many more jobs are ready since calls put them off."""
        self.changed = False
        self._contents: dict[int, list[Any]] = {}
        self._due: dict[int, tuple[Replaceable, int]] = {}

    def meet(self, job: NewJob, terms: Terms, hold: Key) -> Call:
        target = hold.target
        if not 0 <= hold.state < FIRST_TERMINAL or terms.policy is Policy.KEEP:
            event = [job.id, job.task, job.queue, {"holder": hold.holder}]
            return Call(Answer(Accept.DUPLICATE, "", hold.holder), "duplicate", event)
        if target is None or (hold.state == RUNNING and not hold.successor):
            return Call(None)
        if target.task != job.task:
            reason = f"the unique key is held by {target.id!r}, a job of task {target.task!r}"
            return Call(Answer(Accept.REFUSED, reason))
        self._replace(target, job)
        if terms.policy is Policy.DEBOUNCE:
            due = max(job.at, self.tx.now + job.delay)
            self._put_off(target, min(due, target.enqueued_at + terms.most) if terms.most else due)
        return Call(Answer(Accept.REPLACED, "", target.id), "replaced", [target.id, target.task, target.queue])

    def _replace(self, target: Replaceable, job: NewJob) -> None:
        self.changed = True
        payload, meta = to_text(job.payload), to_text(job.meta)
        if target.row:
            row = target.row
            row[PAYLOAD], row[META], row[VERSION], row[PRIORITY] = payload, meta, job.version, job.priority
        else:
            self._contents[target.n] = [target.n, payload, meta, job.version, job.priority]

    def _put_off(self, target: Replaceable, due: int) -> None:
        """A holder or successor is due at another time."""
        if target.state != WAITING:
            state = SCHEDULED if due > self.tx.now else READY
            self.ready[target.queue] += (state == READY) - (target.state == READY)
            target.state, target.stays = state, target.stays and state == READY
        if target.row:
            self._put_off_new(target, due)
        else:
            self._due.pop(target.n, None)  # they become ready in the order of their last calls
            self._due[target.n] = target, due

    def _put_off_new(self, target: Replaceable, due: int) -> None:
        row = target.row
        if target.state == READY:
            if row[STATE] != READY:
                row[PLACE] = (9 - row[PRIORITY]) * BAND + self.tx.take_ranks(1)
            row[STATE], row[DUE] = READY, 0
        else:
            row[STATE], row[DUE] = target.state, due
            row[PLACE] = 0

    def write(self) -> None:
        contents, moved = list(self._contents.values()), list(self._due.values())
        self._contents, self._due = {}, {}
        self.ready.clear()
        self.changed = False
        if contents:
            self.tx.run(self.tx.sql.replacing.REPLACE, (encode(contents).decode(),))
        waiting = [(target.n, due) for target, due in moved if target.state == WAITING]
        if waiting:
            self.tx.run(self.tx.sql.replacing.PUT_OFF, (encode(waiting).decode(),))
        self._move([(target, due) for target, due in moved if target.state != WAITING])

    def _move(self, moved: list[tuple[Replaceable, int]]) -> None:
        later = [(due, target.queue) for target, due in moved if target.state == SCHEDULED]
        if later:
            wake_for_due(self.tx, *min(later))
        ready = Counter(target.queue for target, _ in moved if target.state == READY)
        in_lanes = shift(self.tx, [_row(target, due) for target, due in moved])
        self.tx.wake_queues(ready - in_lanes)


def _row(target: Replaceable, due: int) -> list[Any]:
    goes = [SCHEDULED, due, 0] if target.state == SCHEDULED else [READY, 0, int(target.stays)]
    return [target.n, *goes, None, None, None, target.crashes, target.max_crashes]
