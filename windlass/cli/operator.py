"""Whoever sits at the command line, as the console knows them: everything they do leaves a record under their name.

Not a question of rights: who can reach the store may do everything.
"""

from __future__ import annotations

import getpass
import os

from windlass.app import Windlass
from windlass.console import Console
from windlass.core.access import RIGHTS, make_access


def operator(app: Windlass, via: str = "cli") -> Console:
    """The console for commands; ``via`` says by which way in the audit log."""
    return Console(app, make_access(user_name(), RIGHTS), via=via)


def user_name() -> str:
    """The user of the operating system. In a container nobody may have a name for the number."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def quoted(value: str) -> str:
    """A value as the filter language takes it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


async def change_all(console: Console, action: str, filter: str) -> int:
    """One action on all that a filter finds; how many were changed."""
    done, cursor = 0, ""
    while True:
        step = await console.bulk(action, filter, cursor)
        done, cursor = done + len(step.changed), step.cursor
        if not cursor:
            return done
