"""News as it goes through NOTIFY."""

from __future__ import annotations

import pytest

from windlass.core.job import Finished, State
from windlass.store.postgres.letters import LETTER_MAX, News, Parts, pack, unpack


def done(id: str, size: int, reason: str = "") -> Finished:
    return Finished(id, State.SUCCEEDED, b"x" * size, reason=reason)


@pytest.mark.parametrize(
    "news",
    [
        [("w", [])],
        [("w", []), ("c", [done("a", 3)])],
        [("c", [done("a", 16_384)])],
        [("c", [done(str(n), 900) for n in range(300)]), ("d", [done("z", 1)])],
        [("c", [done("a", 9_000, reason="ж" * 9_000)])],
    ],
)
def test_what_is_packed_comes_out_again(news: list[News]) -> None:
    parts, found = Parts(), list[tuple[str, str]]()
    for notice in pack(news):
        assert len(notice.encode()) <= LETTER_MAX
        for name, items in unpack(parts.whole(notice)):
            found += [(name, item.id) for item in items] or [(name, "")]
    assert found == [(name, item.id) for name, items in news for item in items or [Finished("", None)]]


def test_what_is_not_ours_is_nothing() -> None:
    assert unpack("hello") == []
    assert unpack("") == []
