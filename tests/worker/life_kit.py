"""What the tests of a job's life, its timeouts and its order share."""

from __future__ import annotations

from typing import Any

from windlass import (
    Handle,
    State,
)


async def is_state(handle: Handle[Any], state: State) -> bool:
    return await handle.state() is state
