"""What JSON would quietly change is refused where no annotation says what it is, and kept where one does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.codec import BadArguments, Codec
from windlass.core.untyped_values import changed_by_json, is_loose
from windlass.errors import PayloadError

CAP = 1 << 20


@dataclass
class Point:
    raw: bytes


def loose(x, *more, named=None, **rest):  # type: ignore[no-untyped-def]
    return x


def typed(x: bytes, y: set[int], z: dict[int, str], *more: bytes, **rest: set[int]) -> dict[int, bytes]:
    return {1: x}


@pytest.mark.parametrize(
    ("args", "kwargs", "what"),
    [
        ((b"\xff",), {}, "x is bytes, which would come back as text"),
        ((bytearray(b"a"),), {}, "x is bytearray"),
        (({1, 2},), {}, "x is a set, which would come back as a list"),
        (([1, {"a": [frozenset()]}],), {}, r"x\[1\]\['a'\]\[0\] is a frozenset"),
        (({"a": {7: "b"}},), {}, r"x\['a'\] has the key 7, which would come back as text"),
        (({1.5: 2},), {}, "x has the key 1.5"),
        (({b"k": 2},), {}, "x has the key b'k'"),
        ((1, 2, (3, b"4")), {}, r"more\[1\]\[1\] is bytes"),
        ((1,), {"named": {3}}, "named is a set"),
        ((1,), {"other": {3}}, "other is a set"),
    ],
)
def test_arguments_no_annotation_speaks_for(args: tuple[Any, ...], kwargs: dict[str, Any], what: str) -> None:
    with pytest.raises(BadArguments, match=f"task t: {what}.*annotate the parameter"):
        Codec(loose, "t").encode(args, kwargs, CAP)


@pytest.mark.parametrize("value", [b"a", {1}, {1: 2}, [{"a": b""}]])
def test_results_no_annotation_speaks_for(value: Any) -> None:
    with pytest.raises(PayloadError, match=r"the result of task t.*annotate what the function returns"):
        Codec(loose, "t").encode_result(value, CAP)


def test_with_annotations_they_come_back_as_themselves() -> None:
    codec = Codec(typed, "t")
    args, kwargs = (b"\xff", {1, 2}, {3: "c"}, b"more"), {"other": {4}}
    assert codec.decode(codec.encode(args, kwargs, CAP)) == (args, kwargs)
    assert codec.decode_result(codec.encode_result({1: b"\xff"}, CAP)) == {1: b"\xff"}


def test_what_has_types_of_its_own_is_left_alone() -> None:
    codec = Codec(loose, "t")
    assert codec.encode((Point(b"a"),), {}, CAP)
    assert codec.encode(((1, 2), [None, True]), {}, CAP)


@pytest.mark.parametrize(
    ("hint", "is_it"),
    [
        (Any, True), (object, True), (list, True), (dict, True), (dict[str, Any], True), (list[Any] | None, True),
        (Annotated[Any, 1], True), (tuple[Any, ...], True), (list[dict[str, Any]], True), (Any | None, True),
        (dict[int, Any], False), (set, False), (set[Any], False), (list[bytes], False), (bytes | Any, False),
        (bytes, False), (Point, False), (dict[str, int], False),
    ],
)  # fmt: skip
def test_which_annotations_leave_it_open(hint: Any, is_it: bool) -> None:
    assert is_loose(hint) is is_it


keys = st.text() | st.integers() | st.binary()
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner) | st.frozensets(st.integers(0, 9)),
    max_leaves=8,
)


@given(values)
def test_what_passes_comes_back_equal(value: Any) -> None:
    back = msgspec.json.decode(msgspec.json.encode(value))
    assert bool(changed_by_json(value, back)) is (back != value)
    assert changed_by_json(value, back) == changed_by_json(value, None)


def test_what_is_hostile_to_being_compared_is_looked_at_by_part() -> None:
    class Hostile(list[Any]):
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    assert changed_by_json(Hostile([b"x"]), ["eA=="], "x") == "x[0] is bytes, which would come back as text"
