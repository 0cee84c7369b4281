"""What the thread of a database is handed: an operation, how much of a transaction that needs, and who waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from enum import IntEnum
from typing import Any


class Kind(IntEnum):
    """What an operation needs. RELAXED writes without waiting for the disk: what it writes may be undone by a power cut
    without harm, since whom it concerns is gone then as well."""

    READ = 0
    RELAXED = 1
    DURABLE = 2


class Op:
    """A function to be run in a transaction, and who waits for it."""

    __slots__ = ("answer", "done", "error", "future", "kind", "loop", "work")

    def __init__(self, kind: Kind, work: Callable[[Any], Any], loop: asyncio.AbstractEventLoop | None) -> None:
        self.kind, self.work, self.loop = kind, work, loop
        self.future: asyncio.Future[Any] | None = loop.create_future() if loop else None
        self.done: threading.Event | None = None
        self.answer: Any = None
        self.error: Exception | None = None


def resolve(batch: list[Op]) -> None:
    """Answer everyone, with one call per event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Op]] = {}
    for op in batch:
        if op.loop is not None:
            loops.setdefault(op.loop, []).append(op)
        elif op.done is not None:
            op.done.set()
    for loop, ops in loops.items():
        try:
            loop.call_soon_threadsafe(_answer, ops)
        except RuntimeError:  # the loop was closed with calls under way: nobody is left to be told
            continue


def _answer(ops: list[Op]) -> None:
    for op in ops:
        future = op.future
        if future is None or future.done():
            continue
        if op.error is not None:
            future.set_exception(op.error)
        else:
            future.set_result(op.answer)
