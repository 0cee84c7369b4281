"""What the tests of batches share."""

from __future__ import annotations

from typing import Any

Calls = list[list[Any]]
