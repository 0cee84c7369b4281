"""The terms of a job: the conditions under which it may come in and start. Only values, and names made of them.

A job without terms pays nothing for them. Engines keep the terms with the record and apply the rules of
``docs/reference/engine-rules.md``. What a user wrote as a function of the arguments is a value here.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from windlass.core.limits import Limits, Rate

UNIQUE_MAX = 200
"""Keys, also of lanes, are no longer than this."""

DRAINING = "draining"
"""In the reason of an answer: the queue is drained, and takes in nothing new."""


class Policy(IntEnum):
    """What becomes of a call whose unique key is held by an unfinished job.

    KEEP: the holder stays as it is. REPLACE: a holder that has not started gets the new call's arguments. DEBOUNCE: as
    REPLACE, and its delay begins anew. If the holder runs, REPLACE and DEBOUNCE keep one successor, which starts when
    the holder is over.
    """

    KEEP = 0
    REPLACE = 1
    DEBOUNCE = 2


class Terms(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """All conditions of one job's start.

    ``key``: its lane. ``ordered``: jobs of that lane run strictly one after the other. ``seq``: its number in the lane,
    from 1; 0 for none; ``gap``: how long a missing number is waited for (ms). ``units``: its weight at every gate.
    ``breaker``: the name of the breaker gate it passes. ``batch``: it goes into a lane of its task even where no gate
    concerns it. ``ageing``: it gains one priority for each so many ms of waiting. ``unique``: the key that only one
    unfinished job may have; ``window``: the key is held at least so long (ms); ``most``: a debounced job is put off no
    longer than this (ms). ``max_ready``: it comes in only if its queue has fewer ready jobs; ``drop_oldest``: if not,
    it replaces the oldest.
    """

    key: str = ""
    ordered: bool = False
    seq: int = 0
    gap: int = 60_000
    key_limit: int = 0
    key_rate: Rate | None = None
    units: int = 1
    breaker: str = ""
    batch: bool = False
    ageing: int = 0
    unique: str = ""
    policy: Policy = Policy.KEEP
    window: int = 0
    most: int = 0
    max_ready: int = 0
    drop_oldest: bool = False


def lane_of(terms: Terms | None, task: str, gated: bool) -> str:
    """The lane of a ready job within its queue; empty for the plain order. ``gated``: its task has a gate."""
    if terms is None:
        return f"t{task}" if gated else ""
    if terms.seq:
        return f"s{terms.key}"
    if terms.key:
        return ("o" if terms.ordered else "k") + terms.key
    return f"t{task}" if gated or terms.breaker or terms.batch or terms.units > 1 else ""


def is_strict(lane: str) -> bool:
    """Whether a lane lets one job be under way at a time, and the next only when that job is over."""
    return lane[:1] in ("o", "s")


def units_of(terms: Terms | None) -> int:
    """What a job weighs."""
    return 1 if terms is None else terms.units


def key_limits(queue: Limits, terms: Terms) -> tuple[int | None, Rate | None]:
    """The limit and the rate of a job's key: what its queue's gate says of all keys, else what the job says."""
    return (
        terms.key_limit if queue.key_limit is None else queue.key_limit,
        terms.key_rate if queue.key_rate is None else queue.key_rate,
    )


def key_gate(queue: str, key: str) -> str:
    """The gate of one key of a queue. Both may have colons in them."""
    return f"key:{queue}:{key}"


def queue_gate(name: str) -> str:
    return f"queue:{name}"


def task_gate(name: str) -> str:
    return f"task:{name}"


def breaker_gate(name: str) -> str:
    return f"breaker:{name}"
