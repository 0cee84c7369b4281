"""What more than one engine needs and the contract does not say: codes of states, bounds, the host's clock."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from windlass.core.job import TERMINAL, State
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH
from windlass.store.items import Commit
from windlass.store.jobs import Action, Change

STATES = (
    State.WAITING, State.SCHEDULED, State.READY, State.RUNNING,
    State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED,
)  # fmt: skip
"""A state's code is its place here. The numbers are part of what engines keep: never renumber them."""

CODE: dict[State, int] = {state: code for code, state in enumerate(STATES)}

CALM = 7_500
"""A jump of time this large is taken for one even when no worker is there to say how long half a lease is."""

REMEMBERED = 7 * 86_400_000
"""So long an empty lane knows which number it expects, in milliseconds."""

_PENDING = (State.WAITING, State.SCHEDULED, State.READY)

ALLOWED: dict[Action, frozenset[State]] = {
    Action.CANCEL: frozenset((*_PENDING, State.RUNNING)),
    Action.RETRY: frozenset((State.FAILED, State.CANCELLED, State.SUCCEEDED, State.SKIPPED)),
    Action.PROMOTE: frozenset((State.SCHEDULED,)),
    Action.MOVE: frozenset((*_PENDING, State.FAILED)),
    Action.REPRIORITISE: frozenset(_PENDING),
    Action.RESCHEDULE: frozenset((State.SCHEDULED, State.READY)),
    Action.EDIT: frozenset((*_PENDING, State.FAILED, State.CANCELLED, State.SKIPPED)),
    Action.DELETE: frozenset(State) - {State.RUNNING},
}
"""To which states an action applies; jobs in others are skipped."""

ALLOWED_ON_GRAPHS: dict[Action, frozenset[State]] = {
    Action.CANCEL: frozenset((State.WAITING,)),
    Action.RETRY: frozenset((State.FAILED, State.CANCELLED)),
    Action.DELETE: frozenset(State) - {State.WAITING},
}
"""The same for actions on a workflow's id. Other actions apply to no workflow."""


def allowed(change: Change) -> frozenset[State]:
    """To which states this change applies."""
    states = ALLOWED[change.action]
    return states if change.terms is msgspec.UNSET else states & TERMINAL


def check_batch(size: int) -> None:
    if size > MAX_BATCH:
        raise StoreError(f"{size} jobs in one call; at most {MAX_BATCH} are allowed")


def check_commits(commits: Sequence[Commit]) -> None:
    """StoreError for more than one call takes."""
    sizes = {
        "commits": len(commits),
        "items": sum(len(step.items) for step in commits),
        "records": sum(len(new.bodies) for step in commits for new in step.appends),
        "jobs": sum(len(step.jobs) + len(step.nodes) for step in commits),
    }
    for what, size in sizes.items():
        if size > MAX_BATCH:
            raise StoreError(f"{size} {what} in one call; at most {MAX_BATCH} are allowed")


def host_clock() -> int:
    return time.time_ns() // 1_000_000
