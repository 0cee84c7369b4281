"""Helpers for testing jobs, and the suite that every store engine passes.

Names are loaded when they are first used: pytest imports this package in every run of every project that has Windlass
installed, and most of them want none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.testing.asserts import (
        assert_cancelled,
        assert_dead_lettered,
        assert_enqueued,
        assert_not_enqueued,
        assert_succeeded,
    )
    from windlass.testing.clock import VirtualClock
    from windlass.testing.failing import FailingStore, Faults
    from windlass.testing.harness import Drained, Harness

_HOMES = {
    "Drained": "harness",
    "FailingStore": "failing",
    "Faults": "failing",
    "Harness": "harness",
    "VirtualClock": "clock",
    "assert_cancelled": "asserts",
    "assert_dead_lettered": "asserts",
    "assert_enqueued": "asserts",
    "assert_not_enqueued": "asserts",
    "assert_succeeded": "asserts",
}

__all__ = [
    "Drained",
    "FailingStore",
    "Faults",
    "Harness",
    "VirtualClock",
    "assert_cancelled",
    "assert_dead_lettered",
    "assert_enqueued",
    "assert_not_enqueued",
    "assert_succeeded",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
