"""Values through JSON and back, as Celery's serializer brings them back."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.celery.json_values import pack, unpack

numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.none() | st.booleans() | numbers | st.text()
times = st.datetimes() | st.dates() | st.times() | st.timedeltas(timedelta(0), timedelta(days=999))
keys = st.text() | st.integers(-(2**53), 2**53) | st.uuids() | st.tuples(st.integers(0, 9), st.text())
special = times | st.uuids() | st.binary() | st.decimals(allow_nan=False)
values = st.recursive(
    plain | special,
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner) | st.sets(keys) | st.frozensets(keys),
    max_leaves=10,
)


def through(value: Any) -> Any:
    return unpack(msgspec.json.decode(msgspec.json.encode(pack(value))))


@given(values)
def test_values_come_back_as_themselves(value: Any) -> None:
    assert through(value) == value


class Colour(enum.StrEnum):
    RED = "red"


class Money(Decimal):
    pass


class Said:
    def __json__(self) -> Any:
        return {"said": [date(2026, 1, 2)]}


@pytest.mark.parametrize(
    ("value", "back"),
    [
        ((1, (2, 3)), [1, [2, 3]]),
        ({1, (2, "x")}, {1, (2, "x")}),
        (frozenset({UUID(int=3)}), frozenset({UUID(int=3)})),
        (bytearray(b"\xff"), bytearray(b"\xff")),
        ({1: {2.5: {None: {3}}}}, {1: {2.5: {None: {3}}}}),
        ({(1, 2): "place", "x": b"y", date(2026, 1, 2): True}, {(1, 2): "place", "x": b"y", date(2026, 1, 2): True}),
        ({"__type__": "set", "__value__": "x"}, {"__type__": "set", "__value__": "x"}),
        ({"__type__": "dict", "__value__": [1]}, {"__type__": "dict", "__value__": [1]}),
        ({"__type__": ["set"], "__value__": []}, {"__type__": ["set"], "__value__": []}),
        (Colour.RED, "red"),
        (type("Text", (str,), {})("x"), "x"),
        (Money("1.5"), Decimal("1.5")),
        (Said(), {"said": [date(2026, 1, 2)]}),
        ({"__type__": "datetime", "__value__": "not one"}, {"__type__": "datetime", "__value__": "not one"}),
        ({"__type__": "nothing known", "__value__": "x"}, {"__type__": "nothing known", "__value__": "x"}),
        (datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
        ([time(1, 2), UUID(int=3)], [time(1, 2), UUID(int=3)]),
    ],
)
def test_what_others_come_back_as(value: Any, back: Any) -> None:
    assert through(value) == back
