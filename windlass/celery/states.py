"""Celery's words for the states of a task."""

from __future__ import annotations

PENDING = "PENDING"
RECEIVED = "RECEIVED"
STARTED = "STARTED"
SUCCESS = "SUCCESS"
FAILURE = "FAILURE"
REVOKED = "REVOKED"
REJECTED = "REJECTED"
RETRY = "RETRY"
IGNORED = "IGNORED"

READY_STATES = frozenset({SUCCESS, FAILURE, REVOKED})
UNREADY_STATES = frozenset({PENDING, RECEIVED, STARTED, REJECTED, RETRY})
EXCEPTION_STATES = frozenset({RETRY, FAILURE, REVOKED})
PROPAGATE_STATES = frozenset({FAILURE, REVOKED})
ALL_STATES = frozenset({PENDING, RECEIVED, STARTED, SUCCESS, FAILURE, RETRY, REVOKED})

_ORDER = (PENDING, RETRY, REJECTED, RECEIVED, STARTED, REVOKED, None, FAILURE, SUCCESS)


def precedence(state: str) -> int:
    """The rank of a state; a lower number says more. States of the user's own are above STARTED and below FAILURE."""
    return len(_ORDER) - 1 - _ORDER.index(state if state in _ORDER else None)


class state(str):
    """A state that compares by precedence: ``state("PROGRESS") > state("STARTED")``."""

    __slots__ = ()

    def __gt__(self, other: str) -> bool:
        return precedence(self) < precedence(other)

    def __ge__(self, other: str) -> bool:
        return precedence(self) <= precedence(other)

    def __lt__(self, other: str) -> bool:
        return precedence(self) > precedence(other)

    def __le__(self, other: str) -> bool:
        return precedence(self) >= precedence(other)
