"""What goes to one process in one piece, and who begins with what."""

from __future__ import annotations

import pytest

from tests.spread import PARCELS, WAITING, rank, unit_of


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/unit/core/test_retry.py::test_it[1]", "tests/unit/core/test_retry.py"),
        ("tests/worker/test_life.py::test_it[sqlite]", "tests/worker/test_life.py::test_it[sqlite]"),
        ("tests/browser/test_list.py::test_it[sqlite]", "browser on sqlite"),
        ("tests/browser/test_jobs.py::test_it[redis-wide]", "browser on redis"),
        ("tests/browser/test_jobs.py::test_it[wide-redis]", "browser on redis"),
        ("tests/test_layers.py::test_it", "tests/test_layers.py"),
    ],
)
def test_what_shares_its_fixtures_goes_together_and_what_waits_goes_alone(nodeid: str, unit: str) -> None:
    assert unit_of(nodeid) == unit


def test_the_rules_of_an_engine_go_in_parcels() -> None:
    units = {unit_of(f"tests/conformance/test_engines.py::{of}::test_{n}") for of in ("A", "B") for n in range(1_000)}
    assert len(units) == 2 * PARCELS


def test_some_begin_with_what_computes_and_the_others_with_what_takes_longest() -> None:
    units = [
        "tests/unit/test_x.py",
        "browser on redis",
        "tests/worker/test_x.py::test_it",
        "tests/faults/test_x.py::test",
    ]
    assert min(units, key=lambda unit: rank(unit, computes=True)) == "tests/unit/test_x.py"
    longest_first = sorted(units, key=lambda unit: rank(unit, computes=False))
    assert longest_first == [units[1], units[3], units[2], units[0]]
    assert [rank(f"tests/{folder}/test_x.py", computes=False) for folder in WAITING] == list(range(len(WAITING)))
