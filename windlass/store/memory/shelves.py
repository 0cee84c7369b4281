"""Shelves: ordered maps of names to bytes, for what is not a job. Nothing else of the store knows them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from windlass.store.base import MAX_BATCH, Item

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub

SWEEP_EVERY = 60_000
"""While something on a shelf goes by itself, a sweep comes at least so often."""


class Put:
    """What is on a shelf under one key; past ``until`` it is gone (0: it stays).

    ``looked_at``: when a sweep looks whether it is, 0 for never. Writing it again and again does not add another look.
    """

    __slots__ = ("body", "looked_at", "until")

    def __init__(self, body: bytes, until: int, looked_at: int) -> None:
        self.body, self.until, self.looked_at = body, until, looked_at

    def is_gone(self, now: int) -> bool:
        return 0 < self.until <= now


class Shelf:
    """One shelf: what is on it, and its keys in order."""

    __slots__ = ("keys", "puts")

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.puts: dict[str, Put] = {}

    def remove(self, key: str) -> None:
        if self.puts.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]


def shelve(hub: Hub, items: Sequence[Item], now: int) -> None:
    for item in items:
        if item.body is None:
            take_off(hub, item.shelf, item.key)
        else:
            put(hub, item, item.body, now)


def put(hub: Hub, item: Item, body: bytes, now: int) -> None:
    shelf = hub.shelves.setdefault(item.shelf, Shelf())
    before = shelf.puts.get(item.key)
    if before is None:
        insort(shelf.keys, item.key)
    until, looked_at = now + item.ttl if item.ttl else 0, before.looked_at if before is not None else 0
    hub.going += bool(until) - (before is not None and bool(before.until))
    made = shelf.puts[item.key] = Put(body, until, looked_at)
    if until and not (0 < looked_at <= until):
        look_later(hub, item.shelf, item.key, made)


def look_later(hub: Hub, name: str, key: str, put: Put) -> None:
    put.looked_at = put.until
    hub.fade(put.until, partial(look, hub, name, key))


def look(hub: Hub, name: str, key: str, now: int) -> None:
    """Forget what is gone. What was written again meanwhile is looked at again."""
    shelf = hub.shelves.get(name)
    put = shelf.puts.get(key) if shelf is not None else None
    if put is None or not 0 < put.looked_at <= now:
        return
    put.looked_at = 0
    if put.is_gone(now):
        take_off(hub, name, key)
    elif put.until:
        look_later(hub, name, key, put)


def take_off(hub: Hub, name: str, key: str) -> None:
    shelf = hub.shelves.get(name)
    if shelf is None or key not in shelf.puts:
        return
    hub.going -= bool(shelf.puts[key].until)
    shelf.remove(key)
    if not shelf.puts:
        del hub.shelves[name]


def read(hub: Hub, name: str, after: str, until: str, limit: int, newest_first: bool, now: int) -> list[Item]:
    """A page of a shelf. Of those gone only the ones in the way are passed over."""
    shelf, found = hub.shelves.get(name), list[Item]()
    if shelf is None:
        return found
    first = bisect_right(shelf.keys, after) if after else 0
    last = bisect_left(shelf.keys, until) if until else len(shelf.keys)
    places = range(last - 1, first - 1, -1) if newest_first else range(first, last)
    for place in places:
        if len(found) >= min(limit, MAX_BATCH):
            break
        key = shelf.keys[place]
        put = shelf.puts[key]
        if not put.is_gone(now):
            found.append(Item(shelf=name, key=key, body=put.body, ttl=put.until - now if put.until else 0))
    return found


def next_check(hub: Hub, now: int) -> list[int]:
    """When a sweep is needed for the sake of shelves."""
    return [now + SWEEP_EVERY] if hub.going else []
