"""A worker's log lines on standard error: text for people, JSON for machines, both with the running job."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass.core import safe

JOB_LOGGER = "windlass.job"
"""Where workers say what became of jobs."""

LEVELS = ("debug", "info", "warning", "error", "critical")
_GREY, _RED, _YELLOW, _PLAIN = "\x1b[90m", "\x1b[31m", "\x1b[33m", "\x1b[0m"
_COLOURS = {"WARNING": _YELLOW, "ERROR": _RED, "CRITICAL": _RED, "DEBUG": _GREY}
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_JOB = ("job_id", "task", "queue", "attempt")
_TRACE = ("trace_id", "span_id")
_MOST = 100_000
_KNOWN = _STANDARD | {*_JOB, *_TRACE}


class Steady(logging.LoggerAdapter[logging.Logger]):
    """A logger for code on which other jobs depend: what a handler or a filter of the user's raises goes no further."""

    def log(self, level: int, msg: object, *args: object, stacklevel: int = 1, **kwargs: Any) -> None:
        try:
            super().log(level, msg, *args, stacklevel=stacklevel + 1, **kwargs)
        except BaseException as error:
            complain(error)

    def handle(self, record: logging.LogRecord) -> None:
        """A record that was made already."""
        try:
            self.logger.handle(record)
        except BaseException as error:
            complain(error)


def complain(error: BaseException) -> None:
    """Say that logging failed, where that can be said. Never raises."""
    with suppress(BaseException):
        sys.stderr.write(f"windlass: a log handler raised {safe.kind(error)}: {safe.text(error, safe.MAX_REASON)}\n")


class TextFormatter(logging.Formatter):
    """``12:03:44.120 INFO    shop: sent  [shop.send_email 0197… attempt 2]``"""

    def __init__(self, colour: bool = False) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname:<7}"
        if self._colour and record.levelname in _COLOURS:
            level = f"{_COLOURS[record.levelname]}{level}{_PLAIN}"
        at = datetime.fromtimestamp(record.created).astimezone()
        line = f"{at:%H:%M:%S}.{at.microsecond // 1000:03} {level} {record.name}: {record.getMessage()}"
        line += self._job(record)
        if record.exc_info:
            line += "\n" + (record.exc_text or self.formatException(record.exc_info))
        if record.stack_info:
            line += "\n" + self.formatStack(record.stack_info)
        return line

    def _job(self, record: logging.LogRecord) -> str:
        id = getattr(record, "job_id", "")
        if not id or record.name == JOB_LOGGER:  # whose text names the job
            return ""
        attempt = getattr(record, "attempt", 1)
        trace = getattr(record, "trace_id", "")
        text = f"  [{getattr(record, 'task', '')} {id}{f' attempt {attempt}' if attempt > 1 else ''}"
        text += f" trace {trace}]" if trace else "]"
        return f"{_GREY}{text}{_PLAIN}" if self._colour else text


class JsonFormatter(logging.Formatter):
    """One JSON object per line; what was given as ``extra=`` is in it."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        if getattr(record, "job_id", ""):
            fields.update((name, getattr(record, name, "")) for name in _JOB)
        if getattr(record, "trace_id", ""):
            fields.update((name, getattr(record, name, "")) for name in _TRACE)
        fields.update((name, value) for name, value in vars(record).items() if name not in _KNOWN)
        if record.exc_info:
            fields["exception"] = record.exc_text or self.formatException(record.exc_info)
        try:
            return msgspec.json.encode(fields, enc_hook=repr).decode()
        except UnicodeEncodeError:  # half a character, as undecodable file names have them
            plain = {name: safe.text(value, _MOST) for name, value in fields.items()}
            return msgspec.json.encode(plain).decode()
