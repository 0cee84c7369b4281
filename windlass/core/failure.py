"""An exception as data: text to read, and a fingerprint under which the same fault is found again."""

from __future__ import annotations

import hashlib
import traceback
from types import TracebackType

from windlass.core.job import ErrorInfo

MAX_MESSAGE = 4_000
MAX_TRACEBACK = 16_000
_OWN = ("/windlass/worker/", "/windlass/celery/")


def describe(exc: BaseException) -> ErrorInfo:
    """What to keep of an exception. Local variables are not kept: they hold secrets."""
    trace = _users_part(exc.__traceback__)
    kind = type_name(exc)
    try:
        message = str(exc)
    except Exception as error:
        message = f"<no message: str() raised {type(error).__name__}>"
    text = "".join(traceback.format_exception(type(exc), exc, trace))
    return ErrorInfo(kind, _cut(message, MAX_MESSAGE), _cut(text, MAX_TRACEBACK), fingerprint(kind, trace))


def type_name(exc: BaseException) -> str:
    kind = type(exc)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def fingerprint(kind: str, trace: TracebackType | None) -> str:
    """The type and the functions it came through, without line numbers, which change with every release."""
    frames = [f"{frame.name}" for frame in traceback.extract_tb(trace, limit=-5)]
    return hashlib.blake2s("|".join([kind, *frames]).encode(), digest_size=6).hexdigest()


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of the worker, and of the Celery layer on it, at its start."""
    part = trace
    while part is not None and any(own in part.tb_frame.f_code.co_filename for own in _OWN):
        part = part.tb_next
    return part or trace


def _cut(text: str, limit: int) -> str:
    """The end of a long text: the last frames matter most."""
    return text if len(text) <= limit else "[…]\n" + text[-limit:]
