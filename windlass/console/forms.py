"""A form for a task, made from its signature: one field per argument. A type without a field of its own gets a JSON
field.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect as kinds

from windlass.calls.task import Task
from windlass.console import show
from windlass.console.replies import Field
from windlass.core.codec import encode
from windlass.errors import PayloadError

_PLAIN: tuple[tuple[type, str, str], ...] = (
    (kinds.BoolType, "boolean", "yes or no"),
    (kinds.IntType, "integer", "a whole number"),
    (kinds.FloatType, "number", "a number"),
    (kinds.DecimalType, "text", "a decimal number"),
    (kinds.StrType, "text", "text"),
    (kinds.DateTimeType, "text", "a date and time, such as 2026-11-01T10:00:00Z"),
    (kinds.DateType, "text", "a date, such as 2026-11-01"),
    (kinds.TimeType, "text", "a time, such as 10:00:00"),
    (kinds.TimeDeltaType, "text", "a duration in ISO 8601, such as PT10M"),
    (kinds.UUIDType, "text", "a UUID"),
    (kinds.BytesType, "text", "base64"),
)
_DEFAULT_MOST = 10_000


def fields_of(task: Task[Any, Any]) -> list[Field]:
    """In the order of the signature."""
    codec = task.codec
    found = [_field(name, codec.hints[name], name in codec.required, codec.defaults) for name in codec.names]
    if codec.var_positional:
        found.append(Field(name=f"*{codec.var_positional}", kind="json", required=False, hint="a list of more"))
    return found


def _field(name: str, hint: Any, required: bool, defaults: dict[str, Any]) -> Field:
    kind, choices, words = _kind(hint)
    return Field(
        name=name, kind=kind, required=required, choices=choices, hint=words,
        default="" if required else _default(defaults.get(name), kind),
    )  # fmt: skip


def _kind(hint: Any) -> tuple[str, tuple[str, ...], str]:
    try:
        info = kinds.type_info(hint)
    except (TypeError, NotImplementedError):
        return "json", (), ""
    if isinstance(info, kinds.LiteralType | kinds.EnumType):
        values = [member.value for member in info.cls] if isinstance(info, kinds.EnumType) else list(info.values)
        texts = tuple(value for value in values if isinstance(value, str))
        if len(texts) == len(values):
            return "choice", texts, ""
    for plain, kind, words in _PLAIN:
        if isinstance(info, plain):
            return kind, (), words
    return "json", (), _words(info)


def _words(info: kinds.Type) -> str:
    """The name of the type for people: ``list of int``, or the name of a model."""
    if isinstance(info, kinds.UnionType):
        return " or ".join(dict.fromkeys(_words(one) for one in info.types))
    if isinstance(info, kinds.ListType | kinds.SetType | kinds.FrozenSetType | kinds.VarTupleType):
        return f"list of {_words(info.item_type)}"
    if isinstance(info, kinds.DictType):
        return f"object of {_words(info.value_type)}"
    if isinstance(info, kinds.AnyType):
        return "JSON"
    cls = getattr(info, "cls", None)
    return cls.__name__ if cls is not None else type(info).__name__.removesuffix("Type").lower()


def _default(value: Any, kind: str) -> str:
    """The default as it stands in the field: texts as they are, anything else as JSON."""
    if isinstance(value, str) and kind in ("text", "choice"):
        return show.safe(value[:_DEFAULT_MOST])
    try:
        text = encode(value, "the default", _DEFAULT_MOST).decode()
    except PayloadError:
        return ""
    decoded = msgspec.json.decode(text)
    return decoded if kind in ("text", "choice") and isinstance(decoded, str) else text
