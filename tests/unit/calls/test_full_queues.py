"""Callers of full queues: they wait, are refused, or are told in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from tests.drafts import Plugged, Ready
from tests.unit.calls.flow_kit import ACCEPTED, FULL
from tests.worker.helpers import eventually
from windlass.connections.here import Here
from windlass.connections.offers import Offer
from windlass.connections.sender import Sender
from windlass.core.job import NewJob
from windlass.core.terms import Terms
from windlass.store.answers import MAX_BATCH, Answer

# -- a store that answers as it is told


class Doorman:
    """Keeps what comes, and answers FULL while ``room`` is 0."""

    def __init__(self, room: int = 0) -> None:
        self.room = room
        self.offered: list[list[str]] = []
        self.kept: list[str] = []

    def insert_here(self, jobs: Sequence[NewJob]) -> list[Answer]:
        self.offered.append([job.id for job in jobs])
        answers = []
        for job in jobs:
            if job.queue == "small" and self.room <= 0:
                answers.append(FULL)
                continue
            self.room -= job.queue == "small"
            self.kept.append(job.id)
            answers.append(ACCEPTED)
        return answers

    async def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        return self.insert_here(jobs)


def new_job(id: str, queue: str = "small", terms: Terms | None = None) -> NewJob:
    return NewJob(id=id, task="t", queue=queue, payload=b"{}", terms=terms)


async def sent(door: Doorman, jobs: Sequence[NewJob], waits: Sequence[int]) -> list[Answer]:
    drafts: Any = [Ready(job, wait) for job, wait in zip(jobs, waits, strict=True)]
    return await Sender(Plugged(door)).send(drafts)


def sent_here(door: Doorman, jobs: Sequence[NewJob], waits: Sequence[int]) -> list[Answer]:
    drafts: Any = [Ready(job, wait) for job, wait in zip(jobs, waits, strict=True)]
    return Here(Plugged(door), door).send(drafts)


async def test_only_the_full_ones_are_sent_again_in_order() -> None:
    door = Doorman(room=1)
    jobs = [new_job("a"), new_job("b"), new_job("x", "large"), new_job("c")]
    sending = asyncio.create_task(sent(door, jobs, [60_000] * 4))
    await eventually(lambda: len(door.offered) > 2)
    door.room = 2
    assert await sending == [ACCEPTED] * 4
    assert door.offered[0] == ["a", "b", "x", "c"]
    assert {tuple(ids) for ids in door.offered[1:]} == {("b", "c")}
    assert door.kept == ["a", "x", "b", "c"]


async def test_who_waits_is_told_when_his_time_is_over() -> None:
    door = Doorman()
    waits = [0, 30, 60_000]
    jobs = [new_job("impatient"), new_job("patient"), new_job("longest")]
    sending = asyncio.create_task(sent(door, jobs, waits))
    await eventually(lambda: door.offered[-1:] == [["longest"]])
    door.room = 3
    assert await sending == [FULL, FULL, ACCEPTED]
    assert not any("impatient" in ids for ids in door.offered[1:])


async def test_large_batches_with_terms_go_one_after_the_other() -> None:
    door = Doorman(room=MAX_BATCH)
    terms = Terms(max_ready=5)
    jobs = [new_job(str(n), terms=terms) for n in range(MAX_BATCH + 500)]
    sending = asyncio.create_task(sent(door, jobs, [60_000] * len(jobs)))
    await eventually(lambda: len(door.offered) > 2)
    door.room = 500
    assert await sending == [ACCEPTED] * len(jobs)
    assert door.kept == [job.id for job in jobs]


def test_threads_wait_as_well() -> None:
    door = Doorman(room=1)
    came: list[Answer] = []
    jobs = [new_job("a"), new_job("b"), new_job("x", "large")]
    thread = threading.Thread(target=lambda: came.extend(sent_here(door, jobs, [60_000] * 3)))
    thread.start()
    while len(door.offered) < 3:
        thread.join(0.001)
    door.room = 1
    thread.join(10)
    assert came == [ACCEPTED] * 3
    assert door.kept == ["a", "x", "b"]
    assert sent_here(Doorman(), [new_job("a")], [5]) == [FULL]


def test_pauses_grow_and_end_with_the_time() -> None:
    drafts: Any = [Ready(new_job("a"), 3_000)]
    offer = Offer(drafts, [FULL], 0.0)
    now, pauses = 0.0, []
    while offer.drafts:
        pauses.append(offer.pause(now))
        now += pauses[-1]
        offer.answered([FULL], now)
    assert pauses[:4] == [0.02, 0.04, 0.08, 0.16]
    assert max(pauses) <= 1.0
    assert sum(pauses) == pytest.approx(3.0, abs=0.01)
