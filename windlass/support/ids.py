"""Fresh ids, from this process's clock and chance; ``core/ids.py`` says what ids look like."""

from __future__ import annotations

import random
import time

from windlass.core.ids import make_id


def new_id() -> str:
    """A fresh job id."""
    return make_id(time.time_ns() // 1_000_000, random.getrandbits(72))
