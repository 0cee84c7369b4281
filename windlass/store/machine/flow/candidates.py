"""Ready jobs as a claim sees them, read in one piece."""

from __future__ import annotations

import msgspec

from windlass.core.job import Claim
from windlass.store.machine.codes import maybe_bytes, to_bytes


class Candidate(msgspec.Struct, array_like=True):
    """A ready job as a claim sees it; the order of the fields is that of a driver's statements."""

    n: int
    place: int
    expires_at: int
    expire_to: int
    max_crashes: int
    id: str
    task: str
    version: int
    queue: str
    priority: int
    payload: str
    meta: str
    run: int
    epoch: int
    seq: int
    attempt: int
    crashes: int
    snoozes: int
    enqueued_at: int
    error: str | None
    node: int
    due_at: int
    hold: int = 0
    number: int = 0
    lane: str | None = None
    terms: str | None = None
    started_at: int = 0

    def claim(self, epoch: int, seq: int, now: int) -> Claim:
        return Claim(
            self.id, self.task, self.version, self.queue, self.priority, to_bytes(self.payload), to_bytes(self.meta),
            self.run, epoch, seq, self.attempt, self.crashes, self.snoozes, self.enqueued_at, maybe_bytes(self.error),
            due_at=self.due_at, claimed_at=now,
        )  # fmt: skip


candidates = msgspec.json.Decoder(list[Candidate]).decode
