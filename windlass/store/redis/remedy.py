"""What to do about an error reply to a call: both kinds of connection follow the steps given here.

A call is sent again only where the server's words prove that it has not run. All else is for the caller, who knows
whether the call may be repeated.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from windlass.store.redis import errors
from windlass.store.redis.commands import Reply, Request
from windlass.store.redis.location import Location
from windlass.store.redis.route import Route

TRIES = 3
"""A call that moved, and whose library is missing where it moved to, takes three."""


class Drop(NamedTuple):
    """Give the connection up; what comes next is sent on a new one."""

    reason: str


Cure = Generator[Request | Drop, Any, Reply]
"""Yields requests to be sent, and is sent the list of their replies; returns the reply to the call."""


class Remedy:
    """Knows the location and how to load the library (``load``, packed)."""

    def __init__(self, location: Location, route: Route, load: bytes) -> None:
        self._location, self._route, self._load = location, route, load

    def steps(self, request: Request, replies: list[Reply]) -> Cure:
        """From the replies to a call to its result; raises what cannot be helped."""
        for _ in range(TRIES):
            error = replies[0]
            if not isinstance(error, Exception):
                return self._result(replies)
            if errors.is_missing_function(error):
                loaded, *replies = yield Request(self._load + request.packed, 1 + request.replies)
                if isinstance(loaded, Exception) and not errors.is_loaded_already(loaded):
                    raise errors.explain(loaded, self._location)
                continue
            if errors.drops(error):
                self._route.moved(error)
                yield Drop(f"the server answered {error}")
            if errors.code_of(error) != "MOVED" or self._location.kind != "cluster":
                break
            replies = yield request
        if isinstance(replies[0], Exception):
            raise errors.explain(replies[0], self._location)
        return self._result(replies)

    def _result(self, replies: list[Reply]) -> Reply:
        if len(replies) > 1 and (problem := errors.too_few_copies(self._location, replies[1])) is not None:
            raise problem
        return replies[0]
