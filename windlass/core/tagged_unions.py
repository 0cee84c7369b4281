"""Annotations such as ``Receipt | Failure``: a tagged struct or an object without a tag.

msgspec tells the members of a union apart by tag or by kind of JSON, and refuses a union of a tagged object and an
untagged one. The tag is enough: an object that has it is the struct, any other is the untagged one.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

DecHook = Callable[[type, Any], Any]


class _Either(type):
    """The type of such a union. The codec's hook reads it like a model, by ``model_validate``.

    msgspec checks that a hook's answer is of the type it asked for; for this type every answer is accepted.
    """

    def __instancecheck__(cls, value: object) -> bool:
        return True


def readable(hint: Any, dec_hook: DecHook) -> Any:
    """The annotation with such unions replaced by types that the decoder's hook can read."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Union or origin is types.UnionType:
        return hint if _is_plain(hint) else _either(hint, args, dec_hook)
    if origin is not Annotated and not isinstance(origin, type):
        return hint
    read = tuple(readable(arg, dec_hook) for arg in args)
    generic: Any = origin
    return hint if read == args else generic[read]


def _either(hint: Any, args: tuple[Any, ...], dec_hook: DecHook) -> Any:
    tagged = {tag: arg for arg in args if (tag := _tag(arg)) is not None}
    rest = [readable(arg, dec_hook) for arg in args if _tag(arg) is None]
    other = reduce(or_, rest or list(tagged.values())[:1])
    if not tagged or not _is_plain(other):
        return hint

    def model_validate(value: Any) -> Any:
        kind = other
        if isinstance(value, dict):
            kind = next((arg for (field, tag), arg in tagged.items() if value.get(field) == tag), other)
        return msgspec.convert(value, kind, dec_hook=dec_hook, str_keys=True)

    return _Either(str(hint), (), {"model_validate": staticmethod(model_validate)})


def _tag(kind: Any) -> tuple[str, str | int] | None:
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        return None
    config = kind.__struct_config__
    return None if config.tag_field is None or config.tag is None else (config.tag_field, config.tag)


def _is_plain(hint: Any) -> bool:
    """Whether msgspec can tell the members apart by itself."""
    try:
        msgspec.inspect.type_info(hint)
    except TypeError:
        return False
    return True
