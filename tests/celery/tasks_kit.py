"""What the tests of Celery's tasks share."""

from __future__ import annotations

from typing import Any

from tests.celery.kit import WAIT


def get(result: Any) -> Any:
    return result.get(timeout=WAIT)
