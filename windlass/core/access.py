"""Access: what one user may see and do. Pure: whoever serves requests makes an access, and the console asks it.

A right is one kind of action, so that "may look and retry" can be said. Rights hold only for the queues in scope.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from windlass.core.hints import did_you_mean
from windlass.errors import ConfigError

RIGHTS = {
    "read": "see pages and lists",
    "values": "see arguments, results, errors and logs",
    "enqueue": "make new jobs",
    "retry": "run ended jobs and workflows again",
    "edit": "give jobs other arguments",
    "cancel": "cancel jobs and workflows",
    "delete": "delete jobs",
    "promote": "start scheduled jobs now, and change their time or priority",
    "move": "move jobs to another queue",
    "pause": "pause and resume queues and tasks",
    "tune": "change limits",
    "workers": "quiet, resume and stop workers",
    "purge": "delete many jobs at once",
    "schedules": "change, pause and run schedules",
    "mute": "mute warnings for a time",
    "views": "save filters for everybody",
    "audit": "see who did what",
}
"""Every right and what it lets one do."""

LOOKING = frozenset({"read", "values"})
REDACTED = "[redacted]"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """``queues``: patterns such as ``billing.*``; none means all. ``redact``: patterns of names whose values are hidden
    wherever they occur in arguments, results, headers and progress (``*password*``); case does not matter.
    """

    user: str = ""
    rights: frozenset[str] = LOOKING
    queues: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()

    def may(self, right: str, queue: str | None = None) -> bool:
        """Whether the user has a right: for this queue, or with None for any queue at all."""
        return right in self.rights and (queue is None or self.sees(queue))

    def sees(self, queue: str) -> bool:
        return not self.queues or any(fnmatchcase(queue, pattern) for pattern in self.queues)

    def hides(self, name: str) -> bool:
        return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in self.redact)

    def clean(self, value: Any) -> Any:
        """A value of plain JSON kinds with the hidden parts replaced. Values that are too deep are cut; no value
        raises.
        """
        return _clean(self, value, 0) if self.redact else value

    def restore(self, value: Any, before: Any) -> Any:
        """Put back what was hidden into a value that came from a user who saw it cleaned; ``before`` is the whole."""
        return _restore(self, value, before, 0) if self.redact else value


DEEPEST = 200
"""Levels of a value that are looked at; what is below is hidden whole."""


def _clean(access: Access, value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        return REDACTED
    if isinstance(value, dict):
        return {
            name: REDACTED if access.hides(str(name)) else _clean(access, each, depth + 1)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_clean(access, each, depth + 1) for each in value]
    return value


def _restore(access: Access, value: Any, before: Any, depth: int) -> Any:
    if depth > DEEPEST:
        return before if value == REDACTED else value
    if isinstance(value, dict) and isinstance(before, dict):
        return {
            name: before[name]
            if name in before and each == REDACTED and access.hides(str(name))
            else _restore(access, each, before.get(name), depth + 1)
            for name, each in value.items()
        }
    if isinstance(value, list) and isinstance(before, list):
        pairs = zip(value, [*before, *[None] * len(value)], strict=False)
        return [_restore(access, each, old, depth + 1) for each, old in pairs]
    return value


def make_access(
    user: str = "", rights: Iterable[str] = LOOKING, queues: Iterable[str] = (), redact: Iterable[str] = ()
) -> Access:
    """An access with its rights checked. ``rights=["*"]`` gives all of them."""
    given = frozenset(rights)
    if "*" in given:
        given = frozenset(RIGHTS)
    for right in given:
        if right not in RIGHTS:
            known = ", ".join(RIGHTS)
            raise ConfigError(f"unknown right {right!r}{did_you_mean(right, RIGHTS)}; there are {known}, or '*'")
    return Access(user=user, rights=given, queues=tuple(queues), redact=tuple(redact))


READ_ONLY = Access(user="anonymous")
EVERYTHING = Access(rights=frozenset(RIGHTS))
