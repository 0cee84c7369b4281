"""Saved filters, shared by all users of an app, on a shelf of the store."""

from __future__ import annotations

import msgspec

from windlass.console.audit import act
from windlass.console.desk import MOST_ROWS, Desk, now_ms
from windlass.console.replies import View
from windlass.core.filters import LONGEST, parse_filter
from windlass.errors import ConfigError, NotFound
from windlass.store.items import Item, Put, put_all

SHELF = "views"
NAME_MOST = 80

_decoder = msgspec.json.Decoder(View)


async def view_list(desk: Desk) -> list[View]:
    """The saved filters by name."""
    desk.need("read")
    items = await (await desk.store()).shelf(SHELF, limit=MOST_ROWS)
    return [view for item in items if (view := _read(item)) is not None]


def _read(item: Item) -> View | None:
    """A saved filter; None for an item that cannot be read or is larger than any saved here."""
    try:
        view = _decoder.decode(item.body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return view if len(view.name) <= NAME_MOST and len(view.filter) <= LONGEST else None


async def save_view(desk: Desk, name: str, filter: str) -> View:
    async with act(desk, "save_view", name, {"filter": filter}) as deed:
        deed.need("views")
        given = name.strip()
        if not given or len(given) > NAME_MOST or not given.isprintable():
            raise ConfigError(
                f"view name {name[:NAME_MOST]!r} is not usable: give 1 to {NAME_MOST} printable characters"
            )
        parse_filter(filter, now_ms())
        known = await view_list(desk)
        if len(known) >= MOST_ROWS and given not in [view.name for view in known]:
            raise ConfigError(f"there are {MOST_ROWS} views already; drop one first")
        await deed.begin()
        view = View(name=given, filter=filter.strip(), user=desk.access.user)
        await put_all(await desk.store(), [Put(shelf=SHELF, key=given, body=msgspec.json.encode(view))])
        deed.record.count = 1
    return view


async def drop_view(desk: Desk, name: str) -> None:
    async with act(desk, "drop_view", name) as deed:
        deed.need("views")
        if name not in [view.name for view in await view_list(desk)]:
            raise NotFound(f"there is no view {name!r}")
        await deed.begin()
        await put_all(await desk.store(), [Put(shelf=SHELF, key=name, body=None)])
        deed.record.count = 1
