"""Says in the log that the server was lost and when it is back: two lines, however many tries lie between them."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("windlass.redis")


class Outage:
    """One connection's record of whether it is cut off. ``where`` must be fit to be shown."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._since: float | None = None

    def began(self, reason: str) -> None:
        if self._since is None:
            self._since = time.monotonic()
            log.warning("lost the connection to %s: %s", self._where, reason)

    def ended(self) -> None:
        if self._since is not None:
            log.warning("connected to %s again after %.1f seconds", self._where, time.monotonic() - self._since)
            self._since = None
