"""What to do about an error reply to a call: both kinds of connection follow the steps given here.

A call is sent again only where the server's words prove that it has not run. All else is for the caller, who knows
whether the call may be repeated.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from windlass.store.redis import faults
from windlass.store.redis.commands import Reply, Request
from windlass.store.redis.place import Place
from windlass.store.redis.route import Route

TRIES = 3
"""A call that moved, and whose library is missing where it moved to, takes three."""


class Drop(NamedTuple):
    """Give the connection up; what comes next is sent on a new one."""

    reason: str


Cure = Generator[Request | Drop, Any, Reply]
"""Yields requests to be sent, and is sent the list of their replies; returns the reply to the call."""


class Remedy:
    """Knows the place and how to load the library (``load``, packed)."""

    def __init__(self, place: Place, route: Route, load: bytes) -> None:
        self._place, self._route, self._load = place, route, load

    def steps(self, request: Request, replies: list[Reply]) -> Cure:
        """From the replies to a call to its result; raises what cannot be helped."""
        for _ in range(TRIES):
            error = replies[0]
            if not isinstance(error, Exception):
                return self._result(replies)
            if faults.is_missing_function(error):
                loaded, *replies = yield Request(self._load + request.packed, 1 + request.replies)
                if isinstance(loaded, Exception) and not faults.is_loaded_already(loaded):
                    raise faults.explain(loaded, self._place)
                continue
            if faults.drops(error):
                self._route.moved(error)
                yield Drop(f"the server answered {error}")
            if faults.code_of(error) != "MOVED" or self._place.kind != "cluster":
                break
            replies = yield request
        if isinstance(replies[0], Exception):
            raise faults.explain(replies[0], self._place)
        return self._result(replies)

    def _result(self, replies: list[Reply]) -> Reply:
        if len(replies) > 1 and (problem := faults.too_few_copies(self._place, replies[1])) is not None:
            raise problem
        return replies[0]
