"""What somebody may see and do, and what is hidden from them."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.access import DEEPEST, EVERYTHING, LOOKING, READ_ONLY, REDACTED, RIGHTS, make_access
from windlass.errors import ConfigError


def test_rights_and_queues() -> None:
    ann = make_access("ann", ["read", "retry"], queues=["billing.*", "mail"])
    assert ann.may("retry")
    assert ann.may("retry", "billing.eu")
    assert not ann.may("retry", "payroll")
    assert not ann.may("cancel", "mail")
    assert ann.sees("mail")
    assert not ann.sees("mailing")
    assert make_access("root", ["*"]).rights == frozenset(RIGHTS) == EVERYTHING.rights
    assert READ_ONLY.rights == LOOKING
    with pytest.raises(ConfigError, match=r"unknown right 'retri'.*did you mean 'retry'"):
        make_access("x", ["retri"])


VALUE: dict[str, Any] = {
    "user": "ann", "Password": "p", "cards": [{"card_number": 4, "name": "visa"}, {"card_number": 5}], "n": None,
}  # fmt: skip
HIDDEN = make_access("ann", redact=["*password*", "card_number"])


def test_what_is_to_be_hidden_is_hidden_wherever_it_is() -> None:
    assert HIDDEN.clean(VALUE) == {
        "user": "ann", "Password": REDACTED, "n": None,
        "cards": [{"card_number": REDACTED, "name": "visa"}, {"card_number": REDACTED}],
    }  # fmt: skip
    assert EVERYTHING.clean(VALUE) is VALUE
    assert HIDDEN.clean("password") == "password", "a value is no name"


def test_what_comes_back_is_as_it_was_where_it_was_hidden() -> None:
    assert HIDDEN.restore(HIDDEN.clean(VALUE), VALUE) == VALUE
    changed = HIDDEN.clean(VALUE) | {"user": "bob"}
    assert HIDDEN.restore(changed, VALUE) == VALUE | {"user": "bob"}
    assert HIDDEN.restore({"user": REDACTED}, VALUE) == {"user": REDACTED}, "that was not hidden from anybody"
    assert HIDDEN.restore({"Password": "new"}, VALUE) == {"Password": "new"}
    assert HIDDEN.restore({"cards": [{}, {}, {"card_number": REDACTED}]}, VALUE)["cards"][2] == {
        "card_number": REDACTED
    }


def test_what_is_deeper_than_anybody_looks_is_hidden_whole() -> None:
    deep: Any = {"password": "p"}
    for _ in range(DEEPEST + 5):
        deep = [deep]
    assert "'p'" not in str(HIDDEN.clean(deep))
    assert REDACTED in str(HIDDEN.clean(deep))
