"""The suite itself: every rule is run, and its assertions are explained."""

from __future__ import annotations

from collections import Counter

from windlass.testing.conformance import EXPLAINED, Conformance


def test_no_rule_hides_another_of_the_same_name() -> None:
    """All rules are methods of one class: of two with one name only the first would run."""
    names = Counter(name for rules in Conformance.__mro__ for name in vars(rules) if name.startswith("test_"))
    assert {name for name, times in names.items() if times > 1} == set()


def test_the_assertions_of_every_rule_are_explained() -> None:
    modules = {
        rules.__module__ for rules in Conformance.__mro__ if any(name.startswith("test_") for name in vars(rules))
    }
    assert modules <= set(EXPLAINED)
