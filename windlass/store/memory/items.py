"""Items: values under keys of a shelf, in the order of their keys. The rest of the store never looks into them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from windlass.store.answers import MAX_BATCH
from windlass.store.items import Item, Put
from windlass.store.memory.item_rows import Kept, Shelf

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub

SWEEP_EVERY = 60_000
"""While something on a shelf goes by itself, a sweep comes at least so often."""


def find(hub: Hub, name: str, key: str, now: int) -> Kept | None:
    shelf = hub.shelves.get(name)
    kept = shelf.kept.get(key) if shelf is not None else None
    return kept if kept is not None and not kept.is_gone(now) else None


def version(hub: Hub, name: str, key: str, now: int) -> int:
    kept = find(hub, name, key, now)
    return kept.version if kept is not None else 0


def read(hub: Hub, name: str, key: str, now: int) -> Item:
    kept = find(hub, name, key, now)
    return shown(name, key, kept, now) if kept is not None else Item(shelf=name, key=key)


def shown(name: str, key: str, kept: Kept, now: int) -> Item:
    left = kept.until - now if kept.until else 0
    return Item(shelf=name, key=key, body=kept.body, ttl=left, version=kept.version)


def write(hub: Hub, put: Put, now: int) -> None:
    """Write an item. The caller has checked its version."""
    if put.body is None:
        take_off(hub, put.shelf, put.key)
    elif put.body is not msgspec.UNSET:
        place(hub, put, put.body, now)


def place(hub: Hub, put: Put, body: bytes, now: int) -> None:
    same = find(hub, put.shelf, put.key, now)
    number = same.version if same is not None and same.body == body else hub.next_version()
    shelf = hub.shelves.setdefault(put.shelf, Shelf())
    before = shelf.kept.get(put.key)
    if before is None:
        insort(shelf.keys, put.key)
    until, looked_at = now + put.ttl if put.ttl else 0, before.looked_at if before is not None else 0
    hub.going += bool(until) - (before is not None and bool(before.until))
    made = shelf.kept[put.key] = Kept(body, number, until, looked_at)
    if until and not (0 < looked_at <= until):
        look_later(hub, put.shelf, put.key, made)


def look_later(hub: Hub, name: str, key: str, kept: Kept) -> None:
    kept.looked_at = kept.until
    hub.fade(kept.until, partial(look, hub, name, key))


def look(hub: Hub, name: str, key: str, now: int) -> None:
    """Forget the item if it is gone. One that was written again meanwhile gets another look later."""
    shelf = hub.shelves.get(name)
    kept = shelf.kept.get(key) if shelf is not None else None
    if kept is None or not 0 < kept.looked_at <= now:
        return
    kept.looked_at = 0
    if kept.is_gone(now):
        take_off(hub, name, key)
    elif kept.until:
        look_later(hub, name, key, kept)


def take_off(hub: Hub, name: str, key: str) -> None:
    shelf = hub.shelves.get(name)
    if shelf is None or key not in shelf.kept:
        return
    hub.going -= bool(shelf.kept[key].until)
    shelf.remove(key)
    if not shelf.kept:
        del hub.shelves[name]


def page(hub: Hub, name: str, after: str, until: str, limit: int, newest_first: bool, now: int) -> list[Item]:
    """A page of a shelf, without the items that are gone."""
    shelf, found = hub.shelves.get(name), list[Item]()
    if shelf is None:
        return found
    first = bisect_right(shelf.keys, after) if after else 0
    last = bisect_left(shelf.keys, until) if until else len(shelf.keys)
    places = range(last - 1, first - 1, -1) if newest_first else range(first, last)
    for spot in places:
        if len(found) >= min(limit, MAX_BATCH):
            break
        key = shelf.keys[spot]
        kept = shelf.kept[key]
        if not kept.is_gone(now):
            found.append(shown(name, key, kept, now))
    return found


def next_check(hub: Hub, now: int) -> list[int]:
    """When shelves need a sweep: in a while, as long as an item has an end."""
    return [now + SWEEP_EVERY] if hub.going else []
