"""JSON Schema of tasks: what their arguments and results are, for other languages, forms and checks.

Only what this code knows: the present version by the function's annotations, older ones by those of the ``upcast``
functions that read them.
"""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from windlass.calls.task import Task

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def task_schema(task: Task[Any, Any]) -> dict[str, Any]:
    """All versions of one task: ``{"task", "version", "queue", "versions": {"1": {"arguments", "result"?}}}``."""
    found = {str(old): {"arguments": old_arguments(task, old)} for old in sorted(task.upcast)}
    found[str(task.version)] = {"arguments": arguments(task), "result": result(task)}
    return {"task": task.name, "version": task.version, "queue": task.queue, "versions": found}


def arguments(task: Task[Any, Any]) -> dict[str, Any]:
    """The payload of the present version: one object of arguments by name."""
    codec = task.codec
    parts = {name: codec.hints[name] for name in codec.names}
    if codec.var_positional:
        parts[f"*{codec.var_positional}"] = list[codec.hints[codec.var_positional]]  # type: ignore[name-defined]
    schemas, components = _schemas(list(parts.values()))
    properties = dict(zip(parts, schemas, strict=True))
    for name, value in codec.defaults.items():
        _put_default(properties, name, value)
    more: Any = False
    if codec.var_keyword:
        (more,), others = _schemas([codec.hints[codec.var_keyword]])
        components |= others
    whole = {
        "$schema": DIALECT,
        "title": f"{task.name} v{task.version}",
        "type": "object",
        "properties": properties,
        "required": [name for name in codec.names if name in codec.required],
        "additionalProperties": more,
    }
    doc = inspect.cleandoc(task.__doc__ or "")
    return whole | ({"description": doc} if doc else {}) | ({"$defs": components} if components else {})


def result(task: Task[Any, Any]) -> dict[str, Any]:
    """What it gives back, as far as it is annotated."""
    fn = task.fn
    hint = typing.get_type_hints(fn, include_extras=True).get("return", Any)
    if task.batch and typing.get_origin(hint) is list:
        hint = typing.get_args(hint)[0]
    (schema,), components = _schemas([type(None) if hint is None else hint])
    return {"$schema": DIALECT, **schema} | ({"$defs": components} if components else {})


def old_arguments(task: Task[Any, Any], version: int) -> dict[str, Any]:
    """What an older version's payload was, if the function that reads it says so."""
    hint = _first_hint(task.upcast[version])
    title = {"$schema": DIALECT, "title": f"{task.name} v{version}"}
    if hint is not None:
        (schema,), components = _schemas([hint])
        return title | schema | ({"$defs": components} if components else {})
    return title | {"type": "object", "description": "not known: the upcast function names no type"}


def _first_hint(fn: Callable[..., Any]) -> Any:
    try:
        names = list(inspect.signature(fn).parameters)
        hint = typing.get_type_hints(fn, include_extras=True).get(names[0]) if names else None
    except (NameError, TypeError, ValueError):
        return None
    plain = hint is None or hint is Any or hint is dict or typing.get_origin(hint) is dict
    return None if plain else hint


def _schemas(hints: list[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    schemas, components = msgspec.json.schema_components(
        hints, schema_hook=_hook, ref_template="#/$defs/{name}"
    )  # fmt: skip
    for schema in (*schemas, *list(components.values())):
        _lift(schema, components)
    return list(schemas), components


def _hook(kind: type) -> dict[str, Any]:
    """Models of pydantic, by their own schema."""
    make = getattr(kind, "model_json_schema", None)
    if make is None:
        raise NotImplementedError(f"{kind!r} has no JSON Schema")
    schema: dict[str, Any] = make(ref_template="#/$defs/{model}")
    return schema


def _lift(schema: Any, components: dict[str, Any]) -> None:
    """Definitions inside a schema, which its references look for at the top."""
    if isinstance(schema, dict):
        components.update(schema.pop("$defs", {}))
    for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _lift(value, components)


def _put_default(properties: dict[str, Any], name: str, value: Any) -> None:
    with contextlib.suppress(TypeError):  # one that JSON does not carry as it is
        properties[name] = properties[name] | {"default": msgspec.to_builtins(value)}
