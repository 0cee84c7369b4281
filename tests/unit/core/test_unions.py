"""Annotations in which a Failure stands beside an object that bears no tag, which msgspec alone cannot read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest

from windlass.core.codec import BadArguments, Codec
from windlass.errors import ConfigError
from windlass.handles.results import Failure

FAILURE = Failure("j", "t", "failed", "ValueError", "no")


@dataclass
class Receipt:
    at: datetime
    sum: Decimal


class Item(msgspec.Struct):
    sku: str
    counts: dict[int, int] = {}


class Cat(msgspec.Struct, tag=True):
    name: str


RECEIPT = Receipt(datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.50"))


def read(value: Any, hint: Any) -> Any:
    def task(value: Any) -> Any: ...

    task.__annotations__ = {"value": hint, "return": hint}
    codec = Codec(task, "task")
    (args, _) = codec.decode(codec.encode((value,), {}, 1 << 20))
    assert codec.decode_result(msgspec.json.encode(value)) == args[0]
    return args[0]


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ([RECEIPT, FAILURE], list[Receipt | Failure]),
        ([Item("a", {1: 2}), FAILURE], list[Item | Failure]),
        ([Item("a"), None, FAILURE], list[Item | Failure | None]),
        ([{"x": 1}, FAILURE], list[dict[str, int] | Failure]),
        ([Cat("tom"), FAILURE], list[Cat | Failure]),
        ([1, "two", FAILURE], list[int | str | Failure]),
        (FAILURE, Receipt | Failure),
        ({"a": [RECEIPT, FAILURE]}, dict[str, list[Receipt | Failure]]),
        ([[RECEIPT], FAILURE], list[list[Receipt] | Failure]),
        ([RECEIPT, FAILURE], Annotated[list[Receipt | Failure], msgspec.Meta(min_length=1)]),
    ],
)
def test_each_comes_out_as_what_it_is(value: Any, hint: Any) -> None:
    assert read(value, hint) == value


@pytest.mark.parametrize("value", [{"sku": 1}, {"windlass": "failure"}, 1])
def test_what_fits_neither_is_refused(value: Any) -> None:
    with pytest.raises(BadArguments):
        read([value], list[Item | Failure])


def test_a_union_that_no_tag_tells_apart_stays_an_error() -> None:
    with pytest.raises(ConfigError, match="no JSON form"):
        read(RECEIPT, Receipt | Item)
    with pytest.raises(ConfigError, match="no JSON form"):
        read(RECEIPT, Receipt | Item | Failure)
