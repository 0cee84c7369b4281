"""Retention: what the limits are, and which bucket a finished job goes to."""

from __future__ import annotations

from datetime import timedelta

import pytest

from windlass.core.keep import DEFAULT_KEEP, UNLIMITED, Bucket, Keep, parse_keep, read_bucket
from windlass.errors import ConfigError


@pytest.mark.parametrize(
    ("keep", "done", "failed"),
    [
        (Keep(), Bucket(UNLIMITED, UNLIMITED, "q"), Bucket(UNLIMITED, UNLIMITED, "q")),
        (Keep(100), Bucket(100, UNLIMITED, "q"), Bucket(100, UNLIMITED, "q")),
        (Keep(0), Bucket(0, UNLIMITED, "q"), Bucket(0, UNLIMITED, "q")),
        (Keep(age="1h"), Bucket(UNLIMITED, 3_600_000, "q"), Bucket(UNLIMITED, 3_600_000, "q")),
        (Keep(5, timedelta(days=1)), Bucket(5, 86_400_000, "q"), Bucket(5, 86_400_000, "q")),
        (Keep(5, failed=Keep(age=60)), Bucket(5, UNLIMITED, "q"), Bucket(UNLIMITED, 60_000, "q")),
        (DEFAULT_KEEP, Bucket(100_000, 3_600_000, "q"), Bucket(100_000, 30 * 86_400_000, "q")),
    ],
)
def test_buckets_are_named_by_their_limits(keep: Keep, done: Bucket, failed: Bucket) -> None:
    assert tuple(map(read_bucket, keep.buckets("q"))) == (done, failed)


def test_a_scope_may_hold_anything() -> None:
    assert read_bucket(Keep(1).buckets("a|b/c.d")[0]) == Bucket(1, UNLIMITED, "a|b/c.d")


def test_a_number_is_a_count() -> None:
    assert parse_keep(7) == Keep(count=7)
    assert parse_keep(Keep(7)) == Keep(7)


@pytest.mark.parametrize("wrong", [True, "7", None, 1.5, {"count": 1}])
def test_nothing_else_is(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"^keep is .*; give Keep"):
        parse_keep(wrong)


@pytest.mark.parametrize(
    ("given", "says"), [({"count": -1}, "Keep.count is -1"), ({"age": "soon"}, "Keep.age is 'soon'")]
)
def test_wrong_limits_fail_where_they_are_written(given: dict, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Keep(**given)


def test_workflows_weigh_their_nodes_where_the_scope_says_so() -> None:
    assert read_bucket("5|-1|#workflows").weight(7) == 7
    assert read_bucket("5|-1|mine").weight(7) == 1


def test_a_bucket_is_over_its_count_and_past_its_age() -> None:
    assert [Bucket(2, UNLIMITED, "q").is_over(weight, 3) for weight in (1, 2, 3)] == [False, False, True]
    assert not Bucket(UNLIMITED, UNLIMITED, "q").is_over(1_000, 1_000)
    assert [Bucket(2, 60, "q").is_past(at, 1_060) for at in (999, 1_000, 1_001)] == [True, True, False]
    assert not Bucket(2, UNLIMITED, "q").is_past(0, 1_000_000)


def test_the_last_workflow_stays_however_large_it_is() -> None:
    assert not Bucket(2, UNLIMITED, "#workflows").is_over(100, 1)
    assert Bucket(2, UNLIMITED, "#workflows").is_over(100, 2)
    assert Bucket(0, UNLIMITED, "#workflows").is_over(100, 1)
    assert Bucket(2, UNLIMITED, "q").is_over(100, 1)
