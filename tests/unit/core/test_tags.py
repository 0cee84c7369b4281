"""Tags: what is written, and what is made of arguments."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from uuid import UUID

import pytest

from windlass.core.tags import LONGEST, MOST, make_tags, parse_search, parse_tags
from windlass.errors import ConfigError


class Colour(Enum):
    RED = "red"


def test_one_text_or_a_list_of_them() -> None:
    assert parse_tags("vip", "tags") == ("vip",)
    assert parse_tags(["a", "b", "a"], "tags") == ("a", "b")
    assert parse_tags(None, "tags") == ()
    assert parse_search(("user_id",), "search") == ("user_id",)


@pytest.mark.parametrize(
    "value", [5, [""], ["a", 5], {"a": 1}, ["x" * (LONGEST + 1)], ["a\nb"], [str(n) for n in range(MOST + 1)]]
)
def test_what_is_no_tag(value: object) -> None:
    with pytest.raises(ConfigError, match="tags"):
        parse_tags(value, "tags")


def test_arguments_that_can_be_said_in_a_word_become_tags() -> None:
    arguments = {
        "user": 42, "paid": True, "sum": Decimal("1.50"), "colour": Colour.RED, "id": UUID(int=1), "name": "a\nb",
        "list": [1], "none": None, "long": "x" * 500,
    }  # fmt: skip
    made = make_tags(["vip"], [*arguments, "missing"], arguments)
    assert made[:6] == ("vip", "user:42", "paid:true", "sum:1.50", "colour:red", f"id:{UUID(int=1)}")
    assert made[6:] == ("name:a b", f"long:{'x' * LONGEST}")
    assert make_tags(["user:42"], ["user"], arguments) == ("user:42",)
    assert len(make_tags([f"t{n}" for n in range(MOST)], ["user"], arguments)) == MOST
