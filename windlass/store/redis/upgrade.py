"""Brings the keys that the version before wrote to where this one has them, before anything else is done with them.

Many processes may do it at once, and go on with what another left half done: every step is one call, and moves what it
finds. See ``lua/upgrade.lua`` for what moves where.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from windlass.store.redis.commands import Word
from windlass.store.redis.link import Link
from windlass.store.redis.location import Location

log = logging.getLogger("windlass.redis")

FORMER = 4

Call = Callable[..., Awaitable[Any]]
"""Calls a function of the library by its name."""


async def upgrade(link: Link, location: Location, call: Call) -> None:
    """Costs one short question where there is nothing to do."""
    numbers, moving = await link.command("HMGET", f"{location.tag}meta", "numbers", "moving")
    if not moving and (numbers or b"\0")[0] != FORMER:
        return
    log.warning("bringing the data of an earlier version on %s into the format of this one", location.shown)
    for what in ("cells", "schedules"):
        while await call("upgrade", what, ""):
            pass
    first = f"{location.tag}items:"
    cursor: Word = 0
    while True:
        cursor, keys = await link.command("SCAN", cursor, "MATCH", f"{literal(first)}*", "COUNT", 1000)
        for key in keys:
            while await call("upgrade", "shelf", key[len(first.encode()) :]):
                pass
        if cursor == b"0":
            break
    await call("upgrade", "done", "")
    log.warning("the data on %s is in the format of this version now", location.shown)


def literal(text: str) -> str:
    """A pattern for this very text."""
    return re.sub(r"([*?\[\]\\^-])", r"\\\1", text)
