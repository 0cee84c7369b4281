"""What the tests of canvases share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.celery.kit import WAIT

Tasks = SimpleNamespace


def get(result: Any) -> Any:
    return result.get(timeout=WAIT)
