"""What a store's answer to an enqueue means for its caller: taken in, or the error that says why not."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.draft import Draft
from windlass.core.duration import show_ms
from windlass.core.terms import DRAINING
from windlass.errors import EnqueueError, IdConflict, QueueDraining, QueueFull, WindlassError
from windlass.store.answers import Accept, Answer

TAKEN = (Accept.ACCEPTED, Accept.DUPLICATE, Accept.REPLACED)


def refusal(draft: Draft, answer: Answer) -> WindlassError:
    """The error of a call that was not taken in."""
    queue = draft.resolved.queue
    if answer.status is Accept.CONFLICT:
        return IdConflict(answer.reason)
    if answer.status is Accept.FULL:
        waited = draft.resolved.full_wait
        after = f" after {show_ms(waited)}" if waited else ""
        return QueueFull(f"queue {queue} is full{after}: {answer.reason}")
    if DRAINING in answer.reason:
        return QueueDraining(f"queue {queue} takes in no new jobs: {answer.reason}")
    return EnqueueError(f"job {draft.id} of task {draft.task} was refused: {answer.reason}")


def raise_refusal(id: str, answers: Sequence[Answer]) -> None:
    """The error of a workflow that was not accepted, if it was not. All its calls got the same answer."""
    for answer in answers:
        if answer.status is Accept.CONFLICT:
            raise IdConflict(answer.reason)
        if DRAINING in answer.reason:
            raise QueueDraining(f"workflow {id} was refused: {answer.reason}")
        if answer.status is not Accept.ACCEPTED and answer.status is not Accept.DUPLICATE:
            raise EnqueueError(f"workflow {id} was refused: {answer.reason}")
