"""How much of a random run is played: some of it in `make test`, all of it in `make test-all`."""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("WINDLASS_THOROUGH"))


def played(some: int, whole: int) -> int:
    return whole if THOROUGH else some
