"""Annotations like ``Receipt | Failure``: a tagged struct beside an object that bears no tag.

msgspec tells the members of a union apart by their tags, or by what kind of JSON they are, and refuses a union that has
both an untagged object and a tagged one. The tag is enough to tell: what bears it is the one, anything else the other.
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

    msgspec checks that what a hook gave is of the type it was asked for, which is the hook's own business here.
    """

    def __instancecheck__(cls, value: object) -> bool:
        return True


def readable(hint: Any, dec_hook: DecHook) -> Any:
    """The same annotation, with such unions made into types that the decoder's hook can read."""
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
