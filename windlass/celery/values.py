"""Values on their way through JSON: what Celery's serializer brings back as itself comes back as itself here too.

``datetime``, ``date``, ``time``, ``timedelta``, ``Decimal``, ``UUID`` and ``bytes`` travel as small tagged objects, so
that they need no annotation at the other end. All else is plain JSON; a tuple comes back as a list.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

_TYPE, _VALUE = "__type__", "__value__"
_KEYS = {_TYPE, _VALUE}

_PACK: dict[type, tuple[str, Callable[[Any], str]]] = {
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    time: ("time", time.isoformat),
    timedelta: ("timedelta", lambda value: repr(value.total_seconds())),
    Decimal: ("decimal", str),
    UUID: ("uuid", lambda value: value.hex),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
}
_UNPACK: dict[str, Callable[[str], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda text: timedelta(seconds=float(text)),
    "decimal": Decimal,
    "uuid": UUID,
    "bytes": base64.b64decode,
}
_PLAIN = (str, int, float, bool, type(None))


def pack(value: Any) -> Any:
    """A value as JSON can carry it; what JSON has no form for is left, and refused where it is encoded."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in _PACK:
        tag, text = _PACK[kind]
        return {_TYPE: tag, _VALUE: text(value)}
    if isinstance(value, Mapping):
        return {key: pack(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [pack(item) for item in value]
    return _pack_other(value)


def _pack_other(value: Any) -> Any:
    for kind, (tag, text) in _PACK.items():  # subclasses, such as pandas' Timestamp
        if isinstance(value, kind):
            return {_TYPE: tag, _VALUE: text(value)}
    if isinstance(value, str):
        return str.__str__(value)
    if hasattr(value, "as_tuple") and hasattr(value, "ready"):
        return pack(value.as_tuple())  # the result of another task
    if hasattr(value, "model_dump"):
        return pack(value.model_dump(mode="json"))
    return pack(value.__json__()) if hasattr(value, "__json__") else value


def unpack(value: Any) -> Any:
    """The inverse of ``pack``, on values read from JSON."""
    if isinstance(value, list):
        return [unpack(item) for place in value for item in _several(place)]
    if not isinstance(value, dict):
        return value
    if value.keys() == _KEYS and (read := _UNPACK.get(value[_TYPE])) and isinstance(value[_VALUE], str):
        try:
            return read(value[_VALUE])
        except ValueError:
            return value  # somebody's own object that only looks alike
    if value.keys() == _KEYS and value[_TYPE] == _TOGETHER and isinstance(value[_VALUE], list) and value[_VALUE]:
        return unpack(value[_VALUE][0])
    return {key: unpack(item) for key, item in value.items()}


_TOGETHER = "together"


def together(own: Any, added: list[Any]) -> dict[str, Any]:
    """The value of a task that added others to its chord: its own, and in a list of values theirs as well."""
    return {_TYPE: _TOGETHER, _VALUE: [own, *added]}


def _several(value: Any) -> list[Any]:
    if isinstance(value, dict) and value.keys() == _KEYS and value[_TYPE] == _TOGETHER:
        return value[_VALUE] if isinstance(value[_VALUE], list) else [value]
    return [value]


def pack_all(values: Iterable[Any]) -> list[Any]:
    return [pack(value) for value in values]
