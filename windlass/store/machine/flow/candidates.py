"""Ready jobs as a claim sees them, read in one piece."""

from __future__ import annotations

import msgspec

from windlass.core.job import Claim
from windlass.store.machine.codes import maybe_bytes, to_bytes


class Candidate(msgspec.Struct, array_like=True):
    """A ready job as a claim sees it; the order of the fields is the order of CANDIDATE."""

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


COLUMNS = (
    "n, place, expires_at, expire_to, max_crashes, id, task, version, queue, priority, payload, meta, run, "
    "epoch, seq, attempt, crashes, snoozes, enqueued_at, error, node, due_at"
)
MORE = "hold, number, lane, terms"
"""What is of interest only where there are lanes or gates."""

CANDIDATE = f"json_array({', '.join('{0}' + name for name in f'{COLUMNS}, {MORE}'.split(', '))})"
"""To be formatted with what qualifies a column's name."""

ONE = CANDIDATE.format("")
# One row for all of them: fetching row by row would hand Python's lock back and forth for each job.
FROM_READY = (
    f"SELECT json_group_array(json_array({COLUMNS})) FROM (SELECT * FROM jobs "
    "WHERE state = 2 AND queue = ?1 AND hold = 0 ORDER BY place LIMIT ?2)"
)
FROM_PLAIN = (
    f"SELECT json_group_array({ONE}) FROM (SELECT * FROM jobs WHERE state = 2 AND queue = ?1 AND hold = 0 "
    "ORDER BY place LIMIT ?2)"
)
FROM_ASIDE = (
    f"SELECT json_group_array({ONE}) FROM (SELECT * FROM jobs WHERE state = 2 AND hold = 1 AND queue = ?1 "
    "AND task = ?3 AND version = ?4 ORDER BY place LIMIT ?2)"
)
FIRST_SOLO = f"SELECT {ONE} FROM jobs WHERE state = 2 AND queue = ? AND hold = 2 ORDER BY place LIMIT 1"
GRANTED = (
    f"SELECT json_group_array(json_array({COLUMNS}, {MORE}, started_at)) FROM (SELECT * FROM jobs "
    "WHERE state = 3 AND worker = ? AND seq = ?)"
)

candidates = msgspec.json.Decoder(list[Candidate]).decode
