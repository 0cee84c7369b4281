"""Arguments and results go in and come out as themselves, by annotation; what does not fit fails at the call."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest

from windlass.core import codec
from windlass.core.codec import BadArguments, Codec, unusable_type
from windlass.errors import ConfigError, PayloadError

CAP = 1 << 20


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Box(msgspec.Struct):
    points: list[Point]


class Model:
    """Stands for a pydantic model: only the two methods count."""

    def __init__(self, n: int) -> None:
        self.n = n

    def model_dump(self, mode: str) -> dict[str, int]:
        return {"n": self.n}

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        if "n" not in value:
            raise ValueError("n is missing")
        return cls(value["n"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.n == other.n


def make(kind: Any) -> Codec:
    def fn(value): ...

    fn.__annotations__ = {"value": kind, "return": kind}
    return Codec(fn, "t")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, 5), (float, 0.5), (str, "\N{SNOWMAN} \x00 \ud7ff"), (bool, True), (bytes, b"\x00\xff"), (None, None),
        (datetime, datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC)), (date, date(2030, 1, 2)), (time, time(1, 2)),
        (timedelta, timedelta(seconds=90)), (UUID, UUID(int=7)), (Decimal, Decimal("1.10")), (Colour, Colour.RED),
        (Point, Point(1, 2)), (Box, Box([Point(1)])), (list[Point], [Point(1)]), (dict[str, Point], {"a": Point(1)}),
        (tuple[int, str], (1, "a")), (set[int], {1, 2}), (int | None, None), (Literal["a", "b"], "b"),
        (Any, {"a": [1, None]}), (Model, Model(3)), (list[Model], [Model(3)]), (int, 1 << 62), (int, 1 << 70),
    ],
)  # fmt: skip
def test_values_come_back_as_themselves(kind: Any, value: Any) -> None:
    task = make(kind)
    (back,), kwargs = task.decode(task.encode((value,), {}, CAP))
    assert (back, type(back), kwargs) == (value, type(value), {})
    result = task.decode_result(codec.encode(value, "the result", CAP))
    assert (result, type(result)) == (value, type(value))


def plain(a: int, b: str = "x", *, c: float = 0.5) -> None: ...
def positional(a: int, /, b: int) -> None: ...
def stars(a: int, *rest: int, k: str = "d", **others: Point) -> None: ...
def nothing() -> None: ...


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "payload", "called"),
    [
        (plain, (1,), {}, {"a": 1}, ((1, "x"), {"c": 0.5})),
        (plain, (1, "y"), {"c": 1.0}, {"a": 1, "b": "y", "c": 1.0}, ((1, "y"), {"c": 1.0})),
        (plain, (), {"b": "y", "a": 1}, {"a": 1, "b": "y"}, ((1, "y"), {"c": 0.5})),
        (positional, (1, 2), {}, {"a": 1, "b": 2}, ((1, 2), {})),
        (positional, (1,), {"b": 2}, {"a": 1, "b": 2}, ((1, 2), {})),
        (stars, (1,), {}, {"a": 1}, ((1,), {"k": "d"})),
        (stars, (1, 2, 3), {"k": "e"}, {"a": 1, "k": "e", "*rest": [2, 3]}, ((1, 2, 3), {"k": "e"})),
        (stars, (1,), {"z": Point(1)}, {"a": 1, "z": {"x": 1, "y": 0}}, ((1,), {"k": "d", "z": Point(1)})),
        (nothing, (), {}, {}, ((), {})),
    ],
)
def test_a_payload_is_one_object_of_arguments_by_name(fn, args, kwargs, payload, called) -> None:
    task = Codec(fn, "t")
    data = task.encode(args, kwargs, CAP)
    assert msgspec.json.decode(data) == payload
    assert task.decode(data) == called


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "says"),
    [
        (plain, (), {}, "missing a required argument: 'a'"),
        (plain, ("one",), {}, "Expected `int`, got `str`"),
        (plain, (1,), {"d": 1}, "unexpected keyword argument 'd'"),
        (plain, (1,), {"a": 1}, "multiple values for argument 'a'"),
        (plain, (1, "x", 0.5), {}, "too many positional arguments"),
        (plain, (1,), {"b": object()}, "cannot be carried as JSON"),
        (stars, (1, "two"), {}, "Expected `int`"),
        (stars, (1,), {"z": 3}, "Expected `object`"),
    ],
)
def test_arguments_that_do_not_fit_fail_at_the_call(fn, args, kwargs, says: str) -> None:
    with pytest.raises(BadArguments) as caught:
        Codec(fn, "shop.t").encode(args, kwargs, CAP)
    assert "shop.t" in str(caught.value)
    assert says in str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, PayloadError)


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"nul", b'{"a": 1, "d": 2}', b'{"b": "x"}', b'{"a": null}', b'{"a": 1}{}', b"\xff"]
)
def test_payloads_of_others_that_do_not_fit_are_said_to(payload: bytes) -> None:
    with pytest.raises(BadArguments, match="the payload does not fit"):
        Codec(plain, "t").decode(payload)
    with pytest.raises(BadArguments, match="the payload does not fit"):
        Codec(stars, "t").decode(payload.replace(b', "d": 2', b', "d": "no point"'))


def test_a_default_need_not_be_json_and_is_not_copied() -> None:
    marker = object()

    def fn(a: int = 1, b: Any = marker) -> None: ...

    assert Codec(fn, "t").decode(b"{}") == ((1, marker), {})


def test_equal_calls_are_equal_bytes_when_asked() -> None:
    task = make(dict[str, int])
    one, other = (
        task.encode(({"a": 1, "b": 2},), {}, CAP, stable=True),
        task.encode(({"b": 2, "a": 1},), {}, CAP, stable=True),
    )
    assert one == other


@pytest.mark.parametrize(("size", "fits"), [(90, True), (91, False)])
def test_the_cap_counts_bytes(size: int, fits: bool) -> None:
    task, value = make(str), "x" * (size - len(b'{"value":""}'))
    if fits:
        assert len(task.encode((value,), {}, 90)) == 90
    else:
        with pytest.raises(BadArguments, match="91 bytes; at most 90"):
            task.encode((value,), {}, 90)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_nesting_is_bounded() -> None:
    task = make(Any)
    task.encode((nested(codec.MAX_DEPTH - 1),), {}, CAP)
    task.encode(([[1]] * 1_000,), {}, CAP)
    task.encode(("[{" * 1_000,), {}, CAP)
    with pytest.raises(BadArguments, match="nested deeper than 64"):
        task.encode((nested(codec.MAX_DEPTH),), {}, CAP)
    with pytest.raises(BadArguments):
        task.encode((nested(100_000),), {}, CAP)


@pytest.mark.parametrize(
    ("text", "depth"), [(b"1", 0), (b"[]", 1), (b'[{"a":[]}]', 3), (b'["[[["]', 1), (b'["\\"[["]', 1), (b"[][]", 1)]
)
def test_depth_is_read_off_the_text(text: bytes, depth: int) -> None:
    assert codec.depth(text) == depth


def test_a_result_that_does_not_fit_is_said_to() -> None:
    with pytest.raises(PayloadError, match="does not fit its annotation"):
        make(int).decode_result(b'"text"')
    assert make(int).decode_result(None) is None
    with pytest.raises(PayloadError, match="does not fit its annotation"):
        make(Model).decode_result(b"{}")


class Opaque:
    pass


@pytest.mark.parametrize("kind", [Opaque, list[Opaque], dict[str, Opaque], Opaque | None, tuple[int, Opaque]])
def test_a_type_without_json_fails_at_the_declaration(kind: Any) -> None:
    with pytest.raises(ConfigError, match=r"parameter 'value' .*no JSON form"):
        make(kind)


def test_usable_types_are_usable() -> None:
    for kind in (int, Point, Box, Model, list[Any], datetime, Colour):
        assert unusable_type(kind) == ""


def test_a_bad_result_type_is_named_so() -> None:
    def fn() -> Opaque: ...

    with pytest.raises(ConfigError, match=r"its result .*no JSON form"):
        Codec(fn, "t")
