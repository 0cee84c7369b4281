"""The context of every request to the console: which user asks, of which app. It checks rights and knows nothing of
jobs.
"""

from __future__ import annotations

import time

from windlass.app import Windlass
from windlass.console.recent_reads import RecentReads, shared_of
from windlass.core.access import RIGHTS, Access
from windlass.errors import ConfigError, Forbidden
from windlass.store.base import Store

MOST_ROWS = 200
"""No list is longer."""


class Desk:
    """An app, the user who asks, and the way by which they ask (``web``, ``api``, ``cli``, ``top``, ``code``)."""

    def __init__(self, app: Windlass, access: Access, via: str) -> None:
        self.app, self.access, self.via = app, access, via

    async def store(self) -> Store:
        return (await self.app.client()).store

    @property
    def shared(self) -> RecentReads:
        return shared_of(self.app)

    @property
    def scoped(self) -> bool:
        """Whether the user may see only some queues."""
        return bool(self.access.queues)

    def need(self, right: str, queue: str | None = None) -> None:
        """Raise ``Forbidden`` unless the user has the right, for this queue."""
        if right not in self.access.rights:
            who = self.access.user or "this user"
            raise Forbidden(f"{who} lacks the right {right!r}: {RIGHTS[right]}", right=right)
        if queue is not None and not self.access.sees(queue):
            who = self.access.user or "this user"
            raise Forbidden(f"queue {queue!r} is none that {who} may see or change", right=right)

    @property
    def values(self) -> bool:
        return "values" in self.access.rights


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def page_size(limit: int, most: int = MOST_ROWS) -> int:
    """The number of rows asked for, within the cap."""
    if limit < 1:
        raise ConfigError(f"limit is {limit!r}; give a whole number from 1 to {most}")
    return min(limit, most)
