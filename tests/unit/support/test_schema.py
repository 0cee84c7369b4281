"""JSON Schema of tasks: that it says what a worker takes, no more and no less."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest

from windlass import Windlass
from windlass.calls.schema import DIALECT, arguments, result, task_schema


class Address(msgspec.Struct):
    street: str
    zip: Annotated[str, msgspec.Meta(pattern="^[0-9]+$")] = "0"


class First(msgspec.Struct):
    name: str


def from_first(old: First) -> dict[str, Any]:
    return {"to": old.name}


def from_second(old: dict[str, Any]) -> dict[str, Any]:
    return old


@pytest.fixture
def app() -> Windlass:
    return Windlass("schemas", "memory://")


def test_arguments_with_types_defaults_and_definitions(app: Windlass) -> None:
    @app.task(name="send")
    async def send(
        to: Address, at: datetime, how: Literal["mail", "fax"] = "mail", *, copies: int = 1
    ) -> list[Address]:
        """Send something.

        Twice.
        """
        return [to] * copies

    found = arguments(send)
    assert found["$schema"] == DIALECT
    assert found["title"] == "send v1"
    assert found["description"] == "Send something.\n\nTwice."
    assert found["required"] == ["to", "at"]
    assert found["additionalProperties"] is False
    assert found["properties"]["to"] == {"$ref": "#/$defs/Address"}
    assert found["properties"]["at"] == {"type": "string"}, "with a zone or without"
    assert found["properties"]["how"] == {"enum": ["fax", "mail"], "default": "mail"}
    assert found["$defs"]["Address"]["properties"]["zip"]["pattern"] == "^[0-9]+$"
    assert result(send)["items"] == {"$ref": "#/$defs/Address"}
    assert "Address" in result(send)["$defs"]


def test_any_number_of_arguments_and_names(app: Windlass) -> None:
    @app.task(name="many")
    async def many(first: int, *rest: int, **more: str) -> None: ...

    found = arguments(many)
    assert found["properties"]["*rest"] == {"type": "array", "items": {"type": "integer"}}
    assert found["additionalProperties"] == {"type": "string"}
    assert found["required"] == ["first"]
    assert result(many)["type"] == "null"


def test_every_version_that_the_code_knows(app: Windlass) -> None:
    @app.task(name="old", version=3, upcast={1: from_first, 2: from_second})
    async def old(to: str): ...

    found = task_schema(old)
    assert (found["task"], found["version"], found["queue"]) == ("old", 3, "default")
    assert list(found["versions"]) == ["1", "2", "3"]
    assert found["versions"]["1"]["arguments"]["title"] == "old v1"
    assert found["versions"]["1"]["arguments"]["$ref"] == "#/$defs/First"
    assert "not known" in found["versions"]["2"]["arguments"]["description"]
    assert found["versions"]["3"]["result"] == {"$schema": DIALECT}, "nothing is said of it"
    msgspec.json.encode(found)


def test_a_model_of_pydantic(app: Windlass) -> None:
    pydantic = pytest.importorskip("pydantic", reason="missing pydantic")

    class Inner(pydantic.BaseModel):
        n: int

    class Order(pydantic.BaseModel):
        inner: Inner

    async def take(order) -> None: ...

    take.__annotations__["order"] = Order
    found = arguments(app.task(name="take")(take))
    assert found["properties"]["order"]["properties"]["inner"] == {"$ref": "#/$defs/Inner"}
    assert found["$defs"]["Inner"]["properties"]["n"]["type"] == "integer"
