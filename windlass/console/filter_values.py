"""Suggestions for the filter box: names of the language, and values this store has."""

from __future__ import annotations

from windlass.console.desk import Desk
from windlass.console.queues import queue_names
from windlass.console.schedules import known
from windlass.console.store_state import store_state
from windlass.console.tasks import task_rows
from windlass.core.filter_suggest import Suggestion, pen_of, suggestions


async def suggest(desk: Desk, text: str, at: int) -> list[Suggestion]:
    """What fits at the cursor, limited to what the user may see."""
    desk.need("read")
    at = min(max(at, 0), len(text))
    name = pen_of(text, at).name
    return suggestions(text, at, {name: await _values(desk, name)})


async def _values(desk: Desk, name: str) -> list[str]:
    if name == "queue":
        return queue_names(desk, await store_state(desk))
    if name == "task":
        return [row.name for row in await task_rows(desk)]
    if name == "schedule":
        return sorted(row.name for row in (await known(desk)).rows)
    if name == "worker":
        found = [info.presence for info in (await store_state(desk)).workers]
        return sorted({f"{who.host}:{who.pid}" for who in found})
    return []
