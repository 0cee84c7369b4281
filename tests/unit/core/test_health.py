"""One word for a queue, from what is known of it."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.health import GRACE, LONG_PATIENCE, PATIENCE, QueueFacts, flow_of, in_words, is_well

BUSY = {"workers": 1, "slots": 4, "busy": 4}
FREE = {"workers": 1, "slots": 4, "busy": 1}


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({}, "idle"),
        ({"paused": True, "ready": 5, "oldest_ready": 10**9}, "paused"),
        ({"draining": True}, "draining"),
        ({"ready": 1, "oldest_ready": 5}, "no_worker"),
        ({"running": 1}, "no_worker"),
        ({"ready": 1, "oldest_ready": 5, **FREE}, "flowing"),
        ({"ready": 1, "oldest_ready": PATIENCE, "quiet": PATIENCE, **FREE}, "stuck"),
        ({"ready": 1, "oldest_ready": PATIENCE, "quiet": PATIENCE - 1, **FREE}, "flowing"),
        ({"ready": 1, "oldest_ready": PATIENCE - 1, "quiet": 10**9, **FREE}, "flowing"),
        ({"ready": 1, "oldest_ready": PATIENCE, **FREE}, "stuck"),
        ({"ready": 1, "oldest_ready": PATIENCE, **BUSY}, "saturated"),
        ({"ready": 1, "oldest_ready": LONG_PATIENCE, **BUSY}, "saturated"),
        ({"ready": 1, "oldest_ready": LONG_PATIENCE, "quiet": LONG_PATIENCE, **BUSY}, "stuck"),
        ({"ready": 1, "oldest_ready": LONG_PATIENCE - 1, "quiet": LONG_PATIENCE, **BUSY}, "saturated"),
        ({"ready": 1, "oldest_ready": PATIENCE, "quiet": PATIENCE, "held": True, **FREE}, "saturated"),
        ({"ready": 1, "oldest_ready": 5, "draining": True, **FREE}, "draining"),
        ({"running": 3, **BUSY}, "flowing"),
    ],
)
def test_the_word(facts: dict[str, Any], word: str) -> None:
    assert flow_of(QueueFacts(**facts)) == word


def test_what_is_well() -> None:
    assert not is_well("stuck", 0)
    assert is_well("no_worker", GRACE - 1)
    assert not is_well("no_worker", GRACE)
    assert all(is_well(flow, 10**9) for flow in ("idle", "flowing", "saturated", "paused", "draining"))


def test_in_words() -> None:
    assert in_words("no_worker", 1, "") == "1 job ready and no live worker"
    assert in_words("no_worker", 0, "") == "jobs are running and no worker is alive"
    assert in_words("stuck", 1_200, "5m") == "1,200 jobs ready, the oldest for 5m, and none is being done"
    assert in_words("paused", 2, "") == "paused with 2 jobs ready"
    assert in_words("paused", 0, "") == in_words("flowing", 9, "") == ""
