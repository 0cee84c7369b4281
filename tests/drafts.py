"""What a call becomes on its way to the store, for tests that look at it there."""

from __future__ import annotations

from typing import Any

from windlass import Signature
from windlass.core.draft import Draft
from windlass.core.job import NewJob


def draft_of(call: Signature[Any], *, fed: bool = False) -> Draft:
    return call.app.submitting.draft(call, fed=fed)


class Ready:
    """A draft whose record is there already, and whose caller waits so long (ms) for room in a queue."""

    def __init__(self, job: NewJob, full_wait: int = 0) -> None:
        self.job, self.full_wait, self.terms = job, full_wait, job.terms
        self.resolved = self

    def to_job(self, source: str, plain_meta: bytes) -> NewJob:
        return self.job


class Plugged:
    """The link of a sender that sends to a store of the test."""

    opened, source, plain_meta = True, "test", b"{}"

    def __init__(self, store: Any) -> None:
        self.store = store

    async def open(self) -> None: ...
