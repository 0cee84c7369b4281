"""Values on their way through JSON: what Celery's serializer restores is restored here too.

``datetime``, ``date``, ``time``, ``timedelta``, ``Decimal``, ``UUID`` and ``bytes`` travel as small tagged objects, so
that they need no annotation at the other end. So do sets, and mappings with keys that are not texts, which Celery's
serializer refuses or changes. Everything else is plain JSON; a tuple comes back as a list.
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
    bytearray: ("bytearray", lambda value: base64.b64encode(value).decode()),
}
_UNPACK: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda text: timedelta(seconds=float(text)),
    "decimal": Decimal,
    "uuid": UUID,
    "bytes": base64.b64decode,
    "bytearray": lambda text: bytearray(base64.b64decode(text)),
    "set": lambda items: set(map(_hashable, items)),
    "frozenset": lambda items: frozenset(map(_hashable, items)),
    "dict": lambda pairs: {_hashable(key): unpack(item) for key, item in pairs},
}
_OF_LISTS = frozenset({"set", "frozenset", "dict"})
_PLAIN = (str, int, float, bool, type(None))


def pack(value: Any) -> Any:
    """A value in a form JSON can carry. What JSON has no form for is left as it is, and refused by the encoder."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in _PACK:
        tag, text = _PACK[kind]
        return {_TYPE: tag, _VALUE: text(value)}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: pack(item) for key, item in value.items()}
        return {_TYPE: "dict", _VALUE: [[pack(key), pack(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [pack(item) for item in value]
    if isinstance(value, set | frozenset):
        # In a fixed order, so that equal sets give equal payloads.
        items = sorted(map(pack, value), key=repr)
        return {_TYPE: "set" if isinstance(value, set) else "frozenset", _VALUE: items}
    return _pack_other(value)


def _pack_other(value: Any) -> Any:
    for kind, (tag, text) in _PACK.items():  # subclasses, such as pandas' Timestamp
        if isinstance(value, kind):
            return {_TYPE: tag, _VALUE: text(value)}
    if isinstance(value, str):
        return str.__str__(value)
    if hasattr(value, "as_tuple") and hasattr(value, "ready"):
        return pack(value.as_tuple())  # a result of another task travels as its ids
    if hasattr(value, "model_dump"):
        return pack(value.model_dump(mode="json"))
    return pack(value.__json__()) if hasattr(value, "__json__") else value


def unpack(value: Any) -> Any:
    """The inverse of ``pack``, on values read from JSON."""
    if isinstance(value, list):
        return [unpack(item) for place in value for item in _several(place)]
    if not isinstance(value, dict):
        return value
    if value.keys() == _KEYS and (read := _reader(value)):
        try:
            return read(value[_VALUE])
        except (TypeError, ValueError):
            return value  # an object of the user's that only looks like a tag
    if value.keys() == _KEYS and value[_TYPE] == _TOGETHER and isinstance(value[_VALUE], list) and value[_VALUE]:
        return unpack(value[_VALUE][0])
    return {key: unpack(item) for key, item in value.items()}


_TOGETHER = "together"


def together(own: Any, added: list[Any]) -> dict[str, Any]:
    """The value of a task that added others to its chord: its own and, in a list of values, theirs."""
    return {_TYPE: _TOGETHER, _VALUE: [own, *added]}


def _several(value: Any) -> list[Any]:
    if isinstance(value, dict) and value.keys() == _KEYS and value[_TYPE] == _TOGETHER:
        return value[_VALUE] if isinstance(value[_VALUE], list) else [value]
    return [value]


def _reader(value: dict[str, Any]) -> Callable[[Any], Any] | None:
    tag = value[_TYPE]
    if not isinstance(tag, str) or not isinstance(value[_VALUE], list if tag in _OF_LISTS else str):
        return None
    return _UNPACK.get(tag)


def _hashable(value: Any) -> Any:
    """An item of a set or a key: a list there can only have been a tuple."""
    found = unpack(value)
    return tuple(map(_hashable, found)) if isinstance(found, list) else found


def pack_all(values: Iterable[Any]) -> list[Any]:
    return [pack(value) for value in values]
