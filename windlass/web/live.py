"""Live pages: each is told by a ``tick`` that something happened in the store; and the event stream for programs."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from windlass.app import Windlass
from windlass.console.recent_reads import shared_of
from windlass.core.access import Access
from windlass.core.event import Event, check_kinds, parse_cursor
from windlass.errors import ConfigError, StoreError
from windlass.operate.admin import fits
from windlass.web.poll import Poll
from windlass.web.request_structs import Maybe, Text
from windlass.web.streams import BEAT, Source, message, retry


class Pulse:
    """The number of the newest event in the store, which changes with everything that happens."""

    def __init__(self, app: Windlass, every: float) -> None:
        self._app = app
        self.newest = 0
        self.poll = Poll(self._look, every)

    async def _look(self) -> bool:
        client = await self._app.client()
        entries = await client.store.events(-1)
        before, self.newest = self.newest, entries[-1].seq if entries else 0
        if self.newest == before:
            return False
        # A page asks again as soon as it is told, and must not be shown a read from before the event.
        shared_of(self._app).forget()
        return True


async def ticks(pulse: Pulse, last: str, once: bool, every: float) -> Source:
    """``hello`` or ``tick`` at once, then a ``tick`` whenever something happened and at intervals anyway, as pages show
    durations. ``away`` while the store cannot be reached. ``once``: only what there is now.
    """
    yield retry(every)
    with pulse.poll.joined():
        await pulse.poll.ready()
        seen = pulse.poll.turns
        yield tick(pulse, "hello" if last in ("", str(pulse.newest)) else "tick")
        while not once:
            await pulse.poll.turn(seen)
            seen = pulse.poll.turns
            yield tick(pulse, "tick")


def tick(pulse: Pulse, event: str) -> bytes:
    return message("away" if pulse.poll.away else event, str(pulse.newest), pulse.newest)


class EventsQuery(msgspec.Struct, kw_only=True):
    """``since``: go on behind this event's cursor; ``0`` is the oldest event kept; empty begins now."""

    since: Maybe = ""
    queue: Maybe = ""
    task: Maybe = ""
    kind: Text = ""

    def __post_init__(self) -> None:
        parse_cursor(self.since)
        _ = self.kinds

    @property
    def kinds(self) -> frozenset[str]:
        return check_kinds([kind for kind in self.kind.split(",") if kind])


async def events(app: Windlass, access: Access, pulse: Pulse, asked: EventsQuery, last: str, once: bool) -> Source:
    """The events this access may see, each with its cursor as its id."""
    yield retry(1.0)
    with pulse.poll.joined():
        await pulse.poll.ready()
        since = known(last) or asked.since or str(pulse.newest)
        while True:
            seen = pulse.poll.turns
            # The store is away: the poll goes on trying, and reports its return.
            with contextlib.suppress(StoreError):
                async for event in app.events(since=since, follow=False):
                    since = event.cursor
                    if visible(access, event) and fits(event, asked.queue, asked.task, asked.kinds):
                        yield message(event.kind, event.cursor, shown(access, event))
            if once:
                return
            if not await pulse.poll.turn(seen):
                yield BEAT


def known(last: str) -> str:
    """The id of the event a reader saw last; an id that is not ours starts from the beginning."""
    try:
        parse_cursor(last)
    except ConfigError:
        return ""
    return last


def visible(access: Access, event: Event) -> bool:
    """Whether the access sees the event. A user with a scope sees only events of their queues."""
    return not access.queues or (bool(event.queue) and access.sees(event.queue))


def shown(access: Access, event: Event) -> Event:
    """The event without values that this access may not see."""
    if event.data is None:
        return event
    data = access.clean(as_value(event.data)) if "values" in access.rights else None
    return msgspec.structs.replace(event, data=data)


def as_value(data: Any) -> Any:
    """The event's data. Some engines keep it as JSON text; names are redacted in both forms."""
    if isinstance(data, str):
        with contextlib.suppress(msgspec.MsgspecError, RecursionError):
            return msgspec.json.decode(data)
    return data
