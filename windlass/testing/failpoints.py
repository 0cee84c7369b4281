"""Failpoints for tests: orders to this process for a while, and the environment of a process to be started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.support.failpoints import ACTIONS, POINTS, VARIABLE, activate

__all__ = ["ACTIONS", "POINTS", "failing_at", "failpoint_env"]


@contextmanager
def failing_at(**orders: str) -> Iterator[None]:
    """``with failing_at(after_settle="raise@1"): ...``, in this process."""
    activate(_text(orders))
    try:
        yield
    finally:
        activate("")


def failpoint_env(**orders: str) -> dict[str, str]:
    """The environment for a worker process: ``failpoint_env(after_claim="kill")``."""
    return {**os.environ, VARIABLE: _text(orders)}


def _text(orders: dict[str, str]) -> str:
    return ",".join(f"{point}:{action}" for point, action in orders.items())
