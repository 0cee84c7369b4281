"""Cells: named values that expire, written by compare and swap. Nothing else of the store knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.store.base import Cell

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub


class CellRow:
    """One cell; past ``until`` it is none."""

    __slots__ = ("until", "value", "version")

    def __init__(self, version: int, value: bytes, until: int) -> None:
        self.version, self.value, self.until = version, value, until


def swap(hub: Hub, name: str, expect: int, value: bytes | None, ttl: int, now: int) -> Cell:
    row = find(hub, name, now)
    version = row.version if row is not None else 0
    if expect not in (-1, version):
        return read(hub, name, now)
    if value is None:
        hub.cells.pop(name, None)
    elif row is not None and row.value == value:
        row.until = now + ttl
        hub.fade(row.until, lambda then: forget(hub, name, then))
    else:
        hub.cells[name] = CellRow(hub.next_version(), value, now + ttl)
        hub.fade(now + ttl, lambda then: forget(hub, name, then))
    cell = read(hub, name, now)
    cell.done = True
    return cell


def read(hub: Hub, name: str, now: int) -> Cell:
    row = find(hub, name, now)
    if row is None:
        return Cell(name=name)
    return Cell(name=name, version=row.version, value=row.value, expires_in=row.until - now)


def find(hub: Hub, name: str, now: int) -> CellRow | None:
    row = hub.cells.get(name)
    return row if row is not None and row.until > now else None


def forget(hub: Hub, name: str, now: int) -> None:
    if find(hub, name, now) is None:
        hub.cells.pop(name, None)
