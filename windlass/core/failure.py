"""An exception as data: text to read, and a fingerprint under which the same fault is found again."""

from __future__ import annotations

import hashlib
import traceback
from types import TracebackType

from windlass.core import safe
from windlass.core.job import ErrorInfo

MAX_MESSAGE = 4_000
MAX_TRACEBACK = 16_000
_OWN = ("/windlass/worker/", "/windlass/celery/")


def describe(exc: BaseException) -> ErrorInfo:
    """What to keep of an exception, whatever it does when it is looked at. Never raises.

    Local variables are not kept: they hold secrets.
    """
    kind = safe.kind(exc)
    message = safe.text(exc, MAX_MESSAGE, keep_end=True)
    try:
        trace = users_part(exc.__traceback__)
        written = "".join(traceback.format_exception(type(exc), exc, trace))
        print_ = fingerprint(kind, trace)
    except BaseException as error:
        written, print_ = f"<no traceback: it cannot be written, {safe.kind(error)}>", fingerprint(kind, None)
    return ErrorInfo(kind, message, safe.text(written, MAX_TRACEBACK, keep_end=True), print_)


def fingerprint(kind: str, trace: TracebackType | None) -> str:
    """The type and the functions it came through, without line numbers, which change with every release."""
    frames = [f"{frame.name}" for frame in traceback.extract_tb(trace, limit=-5)]
    said = "|".join([kind, *frames]).encode("utf-8", "backslashreplace")
    return hashlib.blake2s(said, digest_size=6).hexdigest()


def users_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of the worker, and of the Celery layer on it, at its start."""
    part = trace
    while part is not None and any(own in part.tb_frame.f_code.co_filename for own in _OWN):
        part = part.tb_next
    return part or trace
