"""Batch tasks: the function takes a list, and callers call it item by item. This module makes the signature of one such
call.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any, Union, get_args, get_origin, get_type_hints

from windlass.errors import ConfigError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_LISTS = (list, Sequence, Collection, Iterable)


def the_list(fn: Callable[..., Any], where: str) -> inspect.Parameter:
    """The single list parameter of a batch task's function."""
    parameters = list(inspect.signature(fn).parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in _POSITIONAL:
        raise ConfigError(f"{where}: a batch task has one parameter, the list of what its calls were given")
    return parameters[0]


def one_of(fn: Callable[..., Any], where: str) -> Callable[..., Any]:
    """A function with the signature of one call: ``list[Doc] -> list[Receipt]`` becomes ``Doc -> Receipt``."""
    parameter, hints = the_list(fn, where), get_type_hints(fn, include_extras=True)
    given = _item(hints.get(parameter.name, list))
    if given is None:
        raise ConfigError(f"{where}: {parameter.name!r} of a batch task is a list; annotate it as list[...]")
    result = _result(hints["return"]) if "return" in hints else Any

    def one(item: Any) -> Any:
        raise NotImplementedError

    one.__annotations__ = {parameter.name: given, "return": result}
    plain = parameter.replace(annotation=given, default=inspect.Parameter.empty)
    vars(one)["__signature__"] = inspect.Signature([plain], return_annotation=result)
    return one


def _item(hint: Any) -> Any:
    """The item type of a list annotation; None for any other annotation."""
    if hint in _LISTS or hint is Any:
        return Any
    return get_args(hint)[0] if get_origin(hint) in _LISTS else None


def _result(hint: Any) -> Any:
    """The type one call returns: the item type of a list, without the errors that may be among the items."""
    for member in _members(hint):
        if (item := _item(member)) is not None:
            kept = [kind for kind in _members(item) if not _is_error(kind)]
            return reduce(or_, kept) if kept else Any
    return None


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
