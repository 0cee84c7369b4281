"""Weighted queues: shares by weight, spread evenly, with nothing saved up by an empty queue."""

from __future__ import annotations

from collections import Counter

import pytest

from windlass.errors import ConfigError
from windlass.worker.queue_shares import Shares, parse_queues


@pytest.mark.parametrize(
    ("given", "names", "weights"),
    [
        ("emails", ("emails",), ()),
        (["a", "b"], ("a", "b"), ()),
        (["critical*5", "default*2", "low"], ("critical", "default", "low"), (5, 2, 1)),
        ({"critical": 5, "low": 1}, ("critical", "low"), (5, 1)),
        (["a", "b", "a"], ("a", "b"), ()),
        (["a * 3", "b"], ("a", "b"), (3, 1)),
    ],
)
def test_queues_with_and_without_weights(given, names, weights) -> None:
    assert parse_queues(given) == (names, weights)


@pytest.mark.parametrize("given", [["a*0"], ["a*x"], ["a*"], ["a*1001"], {"a": 1.5}, ["a*2", "a*3"], ["a b"], 5, [3]])
def test_a_wrong_weight_is_refused(given) -> None:
    with pytest.raises(ConfigError):
        parse_queues(given)


def grant(shares: Shares, room: int, ready: dict[str, int]) -> Counter[str]:
    """What a store gives for such a wish."""
    got: Counter[str] = Counter()
    for queue, most in shares.ask(room):
        count = min(most, ready.get(queue, 0), room - got.total())
        got[queue] += count
        ready[queue] = ready.get(queue, 0) - count
    shares.took(room, got)
    return got


def test_without_weights_the_order_is_strict() -> None:
    assert Shares(["a", "b"]).ask(7) == [("a", 7), ("b", 7)]


@pytest.mark.parametrize("room", [1, 3, 8, 100])
def test_shares_follow_the_weights_whatever_the_room(room: int) -> None:
    shares, ready, total = Shares(["c", "d", "l"], (5, 2, 1)), {"c": 10_000, "d": 10_000, "l": 10_000}, Counter()
    while total.total() < 8 * 300:
        total += grant(shares, room, ready)
    assert abs(total["c"] / total.total() - 5 / 8) < 0.01
    assert abs(total["l"] / total.total() - 1 / 8) < 0.01


def test_turns_are_spread_evenly() -> None:
    shares, ready = Shares(["c", "d", "l"], (5, 2, 1)), {"c": 99, "d": 99, "l": 99}
    turns = "".join(next(iter(+grant(shares, 1, ready))) for _ in range(16))
    assert Counter(turns) == {"c": 10, "d": 4, "l": 2}
    assert "cccc" not in turns
    assert "l" in turns[:8]


def test_what_an_empty_queue_leaves_goes_to_the_others_by_weight() -> None:
    shares, ready, total = Shares(["c", "d", "l"], (5, 2, 1)), {"d": 10_000, "l": 10_000}, Counter()
    for _ in range(300):
        total += grant(shares, 1, ready)
    assert abs(total["d"] / 300 - 2 / 3) < 0.02


def test_an_empty_queue_saves_nothing_up() -> None:
    shares, ready = Shares(["c", "l"], (1, 1)), {"l": 10_000}
    for _ in range(100):
        grant(shares, 4, ready)
    ready["c"] = 1_000
    got = sum((grant(shares, 4, ready) for _ in range(10)), Counter())
    assert abs(got["c"] - got["l"]) <= 4


def test_all_room_is_used_when_there_are_jobs() -> None:
    shares = Shares(["c", "l"], (5, 1))
    assert +grant(shares, 12, {"l": 50}) == {"l": 12}
    assert grant(shares, 12, {"c": 4, "l": 50}) == {"c": 4, "l": 8}
