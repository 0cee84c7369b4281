"""An exception as data: text to read, and a fingerprint by which repeated failures of the same kind are grouped."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

import msgspec

from windlass.core import safe
from windlass.core.job import ErrorInfo

MAX_MESSAGE = 4_000
MAX_TRACEBACK = 16_000
_OWN = ("/windlass/worker/", "/windlass/celery/")
_decode = msgspec.json.Decoder(ErrorInfo).decode


def describe(exc: BaseException) -> ErrorInfo:
    """What is kept of an exception. Never raises, whatever the exception's own code does.

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
    """A digest of the error's type and the functions it passed through. Line numbers are left out: every release
    changes them.
    """
    frames = [f"{frame.name}" for frame in traceback.extract_tb(trace, limit=-5)]
    said = "|".join([kind, *frames]).encode("utf-8", "backslashreplace")
    return hashlib.blake2s(said, digest_size=6).hexdigest()


def users_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the leading frames of the worker and of the Celery layer."""
    part = trace
    while part is not None and any(own in part.tb_frame.f_code.co_filename for own in _OWN):
        part = part.tb_next
    return part or trace


def read_error(data: bytes | None) -> ErrorInfo | None:
    """The error of a record; if it is damaged, an error that quotes what is left."""
    if not data:
        return None
    try:
        return _decode(data)
    except (ValueError, RecursionError):
        return ErrorInfo("windlass.errors.StoreError", f"the error of this job is damaged: {data[:200]!r}")


def shown(decode: Callable[[Any], Any], data: bytes | None, instead: Any = None) -> Any:
    """Decode a part of a record for people. If it is damaged or no longer fits the code, ``instead`` is shown."""
    try:
        return decode(data)
    except Exception as error:
        return instead or f"<cannot be read: {safe.text(error, 200)}: {data[:200] if data else data!r}>"
