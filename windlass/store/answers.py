"""How a store answers to what is handed in: jobs one by one, graphs as a whole."""

from __future__ import annotations

from enum import StrEnum

import msgspec

MAX_BATCH = 1_000
"""No call touches more jobs than this."""


class Accept(StrEnum):
    """The answer to one inserted job."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REPLACED = "replaced"
    CONFLICT = "conflict"
    FULL = "full"
    REFUSED = "refused"


class Answer(msgspec.Struct, frozen=True):
    """ACCEPTED: kept. DUPLICATE: the same job (id, task, payload) was there. CONFLICT: the id is another job's.

    ``holder``: with DUPLICATE, the job that has the unique key; with REPLACED, the one that got the new arguments.
    """

    status: Accept
    reason: str = ""
    holder: str = ""


class GraphAnswer(msgspec.Struct, frozen=True):
    """The answer to a part of a graph, or to all of it.

    ``staged``: how many of its nodes the store has now. ``more``: it is accepted, and not all of its jobs are in their
    queues yet; workers see to that, and so does whoever calls again.
    """

    status: Accept
    reason: str = ""
    staged: int = 0
    more: bool = False
