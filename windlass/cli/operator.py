"""The user of the command line, as the console knows them: everything they do is recorded under their name.

There are no rights to check: a user who can reach the store may do everything.
"""

from __future__ import annotations

import getpass
import os

from windlass.app import Windlass
from windlass.console import Console
from windlass.core.access import RIGHTS, make_access


def operator(app: Windlass, via: str = "cli") -> Console:
    """The console for commands; ``via`` names this way in the audit log."""
    return Console(app, make_access(user_name(), RIGHTS), via=via)


def user_name() -> str:
    """The name of the operating system's user. In a container a user may have a number only."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def quoted(value: str) -> str:
    """A value as it is written in the filter language."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


async def change_all(console: Console, action: str, filter: str) -> int:
    """Apply one action to all that a filter finds. Answers how many jobs were changed."""
    done, cursor = 0, ""
    while True:
        step = await console.bulk(action, filter, cursor)
        done, cursor = done + len(step.changed), step.cursor
        if not cursor:
            return done
