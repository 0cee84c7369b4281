"""Jobs that met a full queue, and when to offer them again. Does no I/O: the same for loops and for threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from windlass.core.draft import Draft
from windlass.store.answers import Accept, Answer

FULL_PAUSES = (0.02, 1.0)
"""The first and the longest pause, in seconds, before a job is offered again to a queue that was full."""


class Offer:
    """Drafts of one call, to be offered again while their callers wait. Only those that met a full queue are.

    How long a caller waits is an option of each draft: ``full_timeout``.
    """

    def __init__(self, drafts: Sequence[Draft], answers: list[Answer], now: float) -> None:
        self.answers = answers
        self._drafts, self._start = drafts, now
        self._pause, self._longest = FULL_PAUSES
        self._full = self._still_full(range(len(drafts)), now)

    def _still_full(self, places: Iterable[int], now: float) -> list[int]:
        waited = (now - self._start) * 1000
        return [n for n in places if self.answers[n].status is Accept.FULL and self._patience(n) > waited]

    def _patience(self, place: int) -> int:
        return self._drafts[place].resolved.full_wait

    @property
    def drafts(self) -> list[Draft]:
        """What to send again; empty at the end."""
        return [self._drafts[n] for n in self._full]

    def pause(self, now: float) -> float:
        """How long to wait before that, not beyond the time of the most patient."""
        most = max(map(self._patience, self._full)) / 1000 - (now - self._start)
        pause, self._pause = self._pause, min(self._pause * 2, self._longest)
        return max(min(pause, most), 0.001)

    def answered(self, answers: Sequence[Answer], now: float) -> None:
        """Note the answers to what was sent again."""
        for n, answer in zip(self._full, answers, strict=True):
            self.answers[n] = answer
        self._full = self._still_full(self._full, now)


def any_full(answers: Sequence[Answer]) -> bool:
    """Whether a queue was full for any of them."""
    return Accept.FULL in map(_status, answers)


_status = attrgetter("status")
