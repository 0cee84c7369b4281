"""The JSON API described by itself: OpenAPI 3.1, made from the table of operations and the structs they name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from windlass import __version__
from windlass.core.access import RIGHTS
from windlass.web.api import TABLE
from windlass.web.operation import EVENTS, Operation, need
from windlass.web.problems import Problem
from windlass.web.site import site_of

REF = "#/components/schemas/{name}"
ERRORS = {
    "401": "nobody is signed in",
    "403": "the right is missing, or the request came from another site",
    "429": "too many wrong passwords or tokens came from this address; Retry-After says when to try again",
    "404": "there is no such thing, or not for these eyes",
    "409": "it cannot be done in the state things are in",
    "422": "the request makes no sense; ``detail`` says why",
    "503": "the store cannot be reached now",
}


def document(table: Sequence[Operation], title: str, base: str) -> dict[str, Any]:
    """The whole description. ``base``: where the dashboard is mounted."""
    kinds = [kind for each in table for kind in (each.asked, each.answers) if kind is not None]
    schemas, components = msgspec.json.schema_components([*kinds, Problem], ref_template=REF)
    found = dict(zip(map(key_of, kinds), schemas, strict=False))
    paths: dict[str, Any] = {}
    for operation in table:
        paths.setdefault(f"/api{operation.path}", {})[operation.method.lower()] = describe(operation, found, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": f"{title}: Windlass API", "version": __version__},
        "servers": [{"url": base or "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {code: problem(text) for code, text in ERRORS.items()},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"bearer": []}, {"basic": []}],
    }


def describe(operation: Operation, found: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    said = operation.says.partition("\n\n")
    entry: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.path.split("/")[1]],
        "summary": " ".join(said[0].split()),
        "description": " ".join([*said[2].split(), f"Needs the right `{operation.right}`: {RIGHTS[operation.right]}."]),
        "x-windlass-right": operation.right,
        "parameters": [parameter(name, "path", {"type": "string"}, True) for name in operation.places],
        "responses": {
            str(operation.status): answer(operation, found),
            **{code: {"$ref": f"#/components/responses/{code}"} for code in ERRORS},
        },
    }
    if operation.asked is not None:
        schema = found[key_of(operation.asked)]
        if operation.method == "GET":
            entry["parameters"] += query(schema, components)
        else:
            entry["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return entry


def answer(operation: Operation, found: dict[str, Any]) -> dict[str, Any]:
    kind = operation.sends or "application/json"
    schema = {"type": "string"} if operation.answers is None else found[key_of(operation.answers)]
    text = "a stream of events, the data of each as described" if kind == EVENTS else "done"
    return {"description": text, "content": {kind: {"schema": schema}}}


def problem(text: str) -> dict[str, Any]:
    schema = {"$ref": REF.format(name=Problem.__name__)}
    return {"description": text, "content": {"application/problem+json": {"schema": schema}}}


def parameter(name: str, place: str, schema: dict[str, Any], required: bool) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": schema}


def query(schema: dict[str, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    """A struct of the query as its parameters."""
    struct = components[schema["$ref"].rpartition("/")[2]]
    needed = struct.get("required", ())
    return [parameter(name, "query", each, name in needed) for name, each in struct["properties"].items()]


def key_of(kind: Any) -> str:
    return str(kind)


async def openapi(request: Request) -> Response:
    """``/api/openapi.json``"""
    need(request, "read")
    base = request.scope.get("root_path", "").rstrip("/")
    return Response(msgspec.json.encode(document(TABLE, site_of(request).title, base)), media_type="application/json")
