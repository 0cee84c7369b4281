"""Rebuilds exceptions from what the store keeps of them: a class's name, a text, and the arguments if they differ from
the text.

Nothing is ever imported for it. A class is used only if its module is loaded already and it is an ``Exception``; for
any other name a class of that name is made up.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any

from windlass.celery.exceptions import ChordError, NotRegistered, TaskRevokedError, WorkerLostError
from windlass.errors import JobExpired, UnknownTask

_TRANSLATED = {
    "windlass.errors.JobExpired": TaskRevokedError,
    "windlass.errors.JobCancelled": TaskRevokedError,
    "windlass.errors.UnknownTask": NotRegistered,
    "windlass.worker.process.ChildDied": WorkerLostError,
}
assert {JobExpired.__name__, UnknownTask.__name__} <= {name.rpartition(".")[2] for name in _TRANSLATED}


class RemoteError(Exception):
    """A failure whose class is not loaded here; each has a subclass with the name of that class."""


def rebuild(kind: str, message: str, args: Sequence[Any] | None = None) -> Exception:
    """The exception nearest to what ``kind`` and ``message`` describe."""
    cls = _TRANSLATED.get(kind) or find(kind) or _made_up(kind)
    for attempt in ([tuple(args)] if args is not None else []) + [(message,)]:
        try:
            error = cls(*attempt)
        except Exception:
            continue
        return error
    # Its constructor takes other arguments: the class is right, which is what `except` looks at.
    error = cls.__new__(cls)
    error.args = tuple(args) if args is not None else (message,)
    return error


def find(kind: str) -> type[Exception] | None:
    """A class that is loaded already, by its dotted name."""
    if "." not in kind:
        return _checked(getattr(builtins, kind, None))
    parts = kind.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:cut]))
        if module is not None:
            try:
                # Only attributes that exist: a module's __getattr__ may import.
                first = vars(module)[parts[cut]]
                return _checked(reduce(getattr, parts[cut + 1 :], first))
            except (KeyError, AttributeError):
                return None
    return None


def _checked(found: object) -> type[Exception] | None:
    return found if isinstance(found, type) and issubclass(found, Exception) else None


@lru_cache(maxsize=1024)
def _made_up(kind: str) -> type[Exception]:
    module, _, name = kind.rpartition(".")
    return type(name or "Error", (RemoteError,), {"__module__": module or RemoteError.__module__})


def chord_error(who: str, cause: Any) -> ChordError:
    """The error of a chord whose header failed.

    It is also of the cause's class: Celery raises sometimes the one and sometimes the other, so that users catch
    either.
    """
    text = f"Dependency {who} raised {cause!r}"
    kind = _both(type(cause)) if isinstance(cause, Exception) else ChordError
    error = kind.__new__(kind)
    error.args = (text,)
    vars(error).update(vars(cause) if isinstance(cause, Exception) else {})
    error.__cause__ = cause if isinstance(cause, Exception) else None
    return error


def _both(cause: type[Exception]) -> type[ChordError]:
    if issubclass(cause, ChordError):
        return cause
    try:
        return type("ChordError", (ChordError, cause), {"__str__": lambda self: self.args[0]})
    except TypeError:
        return ChordError  # the two classes cannot be combined


def arguments_worth_keeping(error: BaseException) -> list[Any] | None:
    """An exception's arguments, if its text alone would not restore them."""
    plain = all(isinstance(arg, str | int | float | bool | type(None)) for arg in error.args)
    same = len(error.args) == 1 and isinstance(error.args[0], str) and error.args[0] == str(error)
    return list(error.args) if plain and error.args and not same else None
