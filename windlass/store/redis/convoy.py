"""Inserts of many threads in few round trips: whoever has the line takes along what the others are waiting with.

A lone caller pays for nothing but its own call. It knows no connection; sending is given to it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from windlass.core.job import NewJob
from windlass.store.answers import MAX_BATCH, Answer

Send = Callable[[Sequence[NewJob]], list[Answer]]


class Ticket:
    """One caller's jobs, and what became of them. Whoever has to wait sleeps on its ``lock``."""

    __slots__ = ("answers", "error", "jobs", "leads", "lock")

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self.jobs = jobs
        self.answers: list[Answer] = []
        self.error: BaseException | None = None
        self.leads = True
        self.lock: threading.Lock | None = None

    def sleep(self) -> None:
        assert self.lock is not None
        self.lock.acquire()

    def wake(self, leads: bool = False) -> None:
        self.leads = leads
        if self.lock is not None:
            self.lock.release()


class Convoy:
    """For the threads of one process. The turn is handed on, never left for the quickest: that would always be the
    thread which just had it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._mutex = threading.Lock()
        self._waiting: deque[Ticket] = deque()
        self._busy = False

    def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        ticket = Ticket(jobs)
        if not self._begin(ticket):
            ticket.sleep()
        if ticket.leads:
            self._lead(ticket)
        if ticket.error is not None:
            raise ticket.error
        return ticket.answers

    def _begin(self, ticket: Ticket) -> bool:
        """True when nobody sends now; otherwise the ticket waits to be taken along, or for its turn."""
        with self._mutex:
            if not self._busy:
                self._busy = True
                return True
            ticket.lock = threading.Lock()
            ticket.lock.acquire()
            self._waiting.append(ticket)
            return False

    def _lead(self, ticket: Ticket) -> None:
        tickets = self._take_along(ticket)
        try:
            answers = self._send([job for one in tickets for job in one.jobs])
        except BaseException as error:
            for one in tickets:
                one.error = error
        else:
            for one in tickets:
                one.answers, answers = answers[: len(one.jobs)], answers[len(one.jobs) :]
        finally:
            self._hand_on()
        for one in tickets[1:]:
            one.wake()

    def _take_along(self, ticket: Ticket) -> list[Ticket]:
        tickets, size = [ticket], len(ticket.jobs)
        with self._mutex:
            while self._waiting and size + len(self._waiting[0].jobs) <= MAX_BATCH:
                tickets.append(self._waiting.popleft())
                size += len(tickets[-1].jobs)
        return tickets

    def _hand_on(self) -> None:
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().wake(leads=True)
            else:
                self._busy = False
