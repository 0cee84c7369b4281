"""The arguments given to a task: checked as lists and mappings, and made into pydantic models on request."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def models(
    fn: Callable[..., Any], places: Sequence[str], args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with those annotated as models made into models. ``places``: names of the positional ones."""
    hints = inspect.get_annotations(inspect.unwrap(fn), eval_str=True)
    read = {name: kind.model_validate for name, kind in hints.items() if hasattr(kind, "model_validate")}

    def made(name: str, value: Any) -> Any:
        return read[name](value) if name in read else value

    placed = [made(name, value) for name, value in zip(places, args, strict=False)]
    return placed + args[len(placed) :], {name: made(name, value) for name, value in kwargs.items()}


def several(args: Any) -> list[Any]:
    if isinstance(args, str | bytes | Mapping) or (args is not None and not isinstance(args, Iterable)):
        raise TypeError(f"task args must be a list or tuple, not {args!r}")
    return list(args or ())


def named_ones(kwargs: Any) -> dict[str, Any]:
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"task keyword arguments must be a mapping, not {kwargs!r}")
    return dict(kwargs or {})
