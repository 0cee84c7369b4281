"""Threads that insert at the same time: one goes, the others are taken along by the next."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.servers.process import wait_until
from windlass.core.job import NewJob
from windlass.errors import StoreUnavailable
from windlass.store.answers import Accept, Answer
from windlass.store.redis.convoy import Convoy


class Line:
    """Sends when the test says so; what it was given is seen in ``sent``."""

    def __init__(self) -> None:
        self.sent: list[list[str]] = []
        self.gate = threading.Event()
        self.error: Exception | None = None

    def __call__(self, jobs: Sequence[NewJob]) -> list[Answer]:
        self.sent.append([job.id for job in jobs])
        assert self.gate.wait(10)
        if self.error is not None and len(self.sent) > 1:
            raise self.error
        return [Answer(Accept.CONFLICT, job.id) for job in jobs]


def job(id: str) -> NewJob:
    return NewJob(id=id, task="t", queue="q", payload=b"{}")


def crowd(line: Line, pool: ThreadPoolExecutor) -> list[Future[list[Answer]]]:
    """One thread that sends and four that wait behind it."""
    convoy = Convoy(line)
    futures = [pool.submit(convoy.insert, [job("first")])]
    wait_until(lambda: line.sent, "the first is under way")
    futures += [pool.submit(convoy.insert, [job(f"{n}a"), job(f"{n}b")]) for n in range(4)]
    wait_until(lambda: len(convoy._waiting) == 4, "the others wait")
    return futures


def test_those_who_wait_share_the_next_round_trip_and_each_gets_its_own_answers() -> None:
    line = Line()
    with ThreadPoolExecutor(5) as pool:
        futures = crowd(line, pool)
        line.gate.set()
        answers = [[answer.reason for answer in future.result(10)] for future in futures]
    assert answers == [["first"], *([f"{n}a", f"{n}b"] for n in range(4))]
    assert [len(batch) for batch in line.sent] == [1, 8]


def test_an_error_reaches_all_who_were_sent_together_and_the_line_is_free_again() -> None:
    line = Line()
    with ThreadPoolExecutor(5) as pool:
        first, *others = crowd(line, pool)
        line.error = StoreUnavailable("gone")
        line.gate.set()
        assert len(first.result(10)) == 1
        for future in others:
            with pytest.raises(StoreUnavailable, match="gone"):
                future.result(10)
    assert [len(batch) for batch in line.sent] == [1, 8]
