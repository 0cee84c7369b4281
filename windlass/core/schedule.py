"""A schedule's plan: when it runs, which job it makes, and what becomes of missed runs. Reads no clock.

The store keeps the plan as JSON, in the body of the schedule's row. The job in it is complete but for its id, so any
worker can fire the schedule without knowing the task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from windlass.core.duration import Duration, from_ms, instant_ms, to_ms
from windlass.core.job import Meta, NewJob
from windlass.core.option_parsers import choice, whole
from windlass.core.options import CallOptions
from windlass.core.terms import UNIQUE_MAX, Policy, Terms
from windlass.core.timing import Clock, Gap, Once, Repeat, Timing, find_zone, newest_slots, next_slot
from windlass.errors import ConfigError

Missed = Literal["once", "skip", "all"]
Overlap = Literal["allow", "skip", "queue"]

GRACE = 1_000
"""A run that starts at most so many ms late was not missed."""

MOST = 1_000
"""So many missed runs are made up for, the newest."""

NAME_MAX = UNIQUE_MAX - len("schedule:")
NAME_HEADER = "windlass-schedule"
SLOT_HEADER = "windlass-slot"
GONE = "no longer in the code"
"""Why a schedule is paused that no live worker declares."""


class Policies(CallOptions, total=False):
    """Options of a schedule, besides those of the calls it makes."""

    missed: Missed
    overlap: Overlap
    jitter: Duration
    start: Duration | datetime
    end: Duration | datetime
    limit: int
    gap: Gap
    repeat: Repeat
    tz: str


class SchedulePlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a schedule's row says but its next slot.

    ``start`` and ``end`` are instants, 0 for none. ``start_in`` and ``end_in`` are the same bounds written as durations
    from the moment the schedule is put. ``code``: a worker's code declares the schedule. ``anchor``: the instant from
    which an interval counts. ``limit``: how many runs in all, 0 for no bound.
    """

    timing: Timing
    job: NewJob
    tz: str = "UTC"
    missed: Missed = "once"
    overlap: Overlap = "allow"
    jitter: int = 0
    start: int = 0
    start_in: int = 0
    end: int = 0
    end_in: int = 0
    limit: int = 0
    gap: Gap = "after"
    repeat: Repeat = "first"
    anchor: int = 0
    code: bool = False

    @property
    def clock(self) -> Clock:
        return Clock(self.tz, self.gap, self.repeat, self.anchor)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def decode_plan(body: bytes) -> SchedulePlan:
    return msgspec.json.decode(body, type=SchedulePlan)


def shown_plan(body: bytes) -> SchedulePlan:
    """A plan for people. If the plan cannot be read here, the part that can is shown, and it never runs."""
    try:
        return decode_plan(body)
    except (ValueError, RecursionError):
        return SchedulePlan(timing=Once(at=1), job=NewJob(id="", task="<cannot be read>", queue="", payload=b"null"))


# -- options


def check_schedule_name(name: object) -> str:
    """Check a name: printable text, short enough to be part of a unique key."""
    if not isinstance(name, str) or not name or len(name) > NAME_MAX or not name.isprintable():
        raise ConfigError(f"schedule name {name!r} is not usable: give 1 to {NAME_MAX} printable characters")
    return name


def _instant_or_ms(value: object, what: str) -> int | datetime:
    if isinstance(value, datetime):
        instant_ms(value, what)
        return value
    return to_ms(value, what)


_PARSERS: dict[str, Callable[[object, str], Any]] = {
    "missed": choice("once", "skip", "all"),
    "overlap": choice("allow", "skip", "queue"),
    "jitter": to_ms,
    "start": _instant_or_ms,
    "end": _instant_or_ms,
    "limit": whole(1, 1_000_000_000),
    "gap": choice("after", "skip"),
    "repeat": choice("first", "last", "both"),
    "tz": lambda value, what: find_zone(value, what).key,
}
POLICY_NAMES = frozenset(_PARSERS)


def parse_policies(given: Mapping[str, object], where: str) -> dict[str, Any]:
    """The fields of a plan that the options of a schedule fill."""
    fields: dict[str, Any] = {}
    for name, value in given.items():
        try:
            parsed = _PARSERS[name](value, name)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        if name in ("start", "end"):
            relative = not isinstance(parsed, datetime)
            fields[f"{name}_in" if relative else name] = parsed if relative else instant_ms(parsed)
        else:
            fields[name] = parsed
    return fields


# -- beginning


def begin(plan: SchedulePlan, now: int, before: SchedulePlan | None = None, slot: int = 0) -> tuple[SchedulePlan, int]:
    """The plan to write and its next slot. A schedule whose times have not changed keeps its place."""
    if before is not None and _same_times(plan, before):
        kept = {name: getattr(before, name) for name in ("start", "end", "anchor")}
        kept_plan = msgspec.structs.replace(plan, **kept)
        return kept_plan, slot or next_run(kept_plan, now)
    start = now + plan.start_in if plan.start_in else plan.start
    end = now + plan.end_in if plan.end_in else plan.end
    begun = msgspec.structs.replace(plan, start=start, end=end, anchor=start or now)
    return begun, next_run(begun, now)


def _same_times(plan: SchedulePlan, before: SchedulePlan) -> bool:
    def times(of: SchedulePlan) -> tuple[object, ...]:
        timing = of.timing if not hasattr(of.timing, "text") else msgspec.structs.replace(of.timing, text="")
        start, end = (0 if of.start_in else of.start), (0 if of.end_in else of.end)
        return timing, of.tz, of.gap, of.repeat, start, of.start_in, end, of.end_in

    return times(plan) == times(before)


def next_run(plan: SchedulePlan, after: int) -> int:
    """The first slot later than an instant within start and end, 0 for none."""
    slot = next_slot(plan.timing, plan.clock, max(after, plan.start - 1))
    return 0 if plan.end and slot > plan.end else slot


# -- running


def due(plan: SchedulePlan, slot: int, fired: int, now: int) -> tuple[list[int], int]:
    """The slots to run, of those from ``slot`` up to now, by the policy for missed ones; and the next slot after them.

    ``fired``: how many jobs the schedule has made so far.
    """
    on_time, until = slot >= now - GRACE, min(now, plan.end) if plan.end else now
    first = slot + 1 if on_time or plan.missed != "skip" else now - GRACE
    most = 1 if plan.missed == "once" and not on_time else MOST
    later = newest_slots(plan.timing, plan.clock, max(first, slot + 1), until, most)
    slots = ([slot, *later] if on_time or plan.missed != "skip" else later)[-most:]
    if plan.limit:
        slots = slots[: max(0, plan.limit - fired)]
        if fired + len(slots) >= plan.limit:
            return slots, 0
    return slots, next_run(plan, now)


def job_of(plan: SchedulePlan, name: str, slot: int, id: str) -> NewJob:
    """The job for one slot."""
    job, meta = plan.job, msgspec.json.decode(plan.job.meta, type=Meta)
    when = from_ms(slot)
    headers = {**meta.headers, NAME_HEADER: name, SLOT_HEADER: when.isoformat() if when else ""}
    later = jitter_of(plan.jitter, name, slot) + job.delay
    return msgspec.structs.replace(
        job, id=id, delay=0, at=slot + later if later else 0,
        meta=msgspec.structs.replace(meta, headers=headers).encode(),
    )  # fmt: skip


def jitter_of(jitter: int, name: str, slot: int) -> int:
    """A delay from 0 to ``jitter``, the same on every worker for the same slot."""
    if not jitter:
        return 0
    return int.from_bytes(blake2b(f"{name} {slot}".encode(), digest_size=8).digest()) % (jitter + 1)


def with_overlap(job: NewJob, name: str, overlap: Overlap, where: str) -> NewJob:
    """The job with the terms that keep its runs from overlapping."""
    if overlap == "allow":
        return job
    terms = job.terms or Terms()
    if terms.unique:
        raise ConfigError(f"{where}: its calls are unique already; leave out overlap, or give unique=None")
    policy = Policy.KEEP if overlap == "skip" else Policy.REPLACE
    return msgspec.structs.replace(job, terms=msgspec.structs.replace(terms, unique=f"schedule:{name}", policy=policy))
