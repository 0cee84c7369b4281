"""Finds jobs by a filter, a page at a time. The store answers what it can; the rest of the filter is applied here.

A search reads a bounded number of records for a bounded time. If that ends before the page is full, the answer says so
and carries a cursor: following the cursors finds all jobs, each once.
"""

from __future__ import annotations

import re
import time
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from windlass.console import job_rows, show
from windlass.console.desk import Desk, now_ms
from windlass.core.access import Access
from windlass.core.filter_matching import holds, pasted
from windlass.core.filters import Either, Filter, Part, Term, parse_filter
from windlass.core.job import Job, State
from windlass.errors import ConfigError, Forbidden
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store
from windlass.store.jobs import Query

LOOKED = 5_000
"""Records one search reads at most."""

SECONDS = 0.3
"""How long one search goes on to the next records."""

STEP = 250
"""Records that are read at a time where they have to be looked at here."""

MOST_IDS = 200
OF_VALUES = ("args", "text", "error", "key", "tag")
"""What only somebody may ask who may see values: an answer would give them away."""

IN_WORKFLOW = "w"
_CURSOR = re.compile(r"(w?[0-9]{1,18})?")
_ID = re.compile(r"[0-9A-Za-z_~]{20}")
_WORKER = re.compile(r".+-[0-9]+-[0-9A-Za-z_~]{20}")


class Found(NamedTuple):
    """A page of records. ``looked``: how many records were read for it."""

    jobs: list[Job]
    cursor: str
    partial: bool
    looked: int


class SearchPlan(NamedTuple):
    """A filter for one user: the query for the store, and the terms applied here."""

    filter: Filter
    query: Query
    rest: tuple[Part, ...]

    @property
    def indexed(self) -> bool:
        return not self.rest


class Seen:
    """A record as filters look at it: redacted, and read only as far as they ask."""

    def __init__(self, access: Access, job: Job) -> None:
        self._access, self._job = access, job

    @cached_property
    def fields(self) -> dict[str, str]:
        job = self._job
        return {
            "state": str(job.state), "queue": job.queue, "task": job.task, "key": job_rows.key_of(job),
            "worker": job.worker, "workflow": job.graph, "id": job.id, "fingerprint": job.fingerprint,
            "schedule": job_rows.schedule_of(job),
        }  # fmt: skip

    @cached_property
    def tags(self) -> tuple[str, ...]:
        return job_rows.tags_of(self._access, self._job)

    @cached_property
    def error(self) -> str:
        error = job_rows.error_of(self._job)
        return f"{error.type}: {error.message}" if error else ""

    @cached_property
    def numbers(self) -> dict[str, float | None]:
        job, now = self._job, now_ms()
        ended = now if job.state is State.RUNNING else job.finished_at
        return {
            "attempts": job.attempt, "crashes": job.crashes, "priority": job.priority, "accepted": job.enqueued_at,
            "age": now - job.enqueued_at,
            "duration": max(0, ended - job.started_at) if job.started_at and ended else None,
        }  # fmt: skip

    @cached_property
    def args(self) -> Any:
        return show.decoded(self._access, self._job.payload)

    @cached_property
    def text(self) -> str:
        args = show.cleaned(self._access, self._job.payload) or b""
        return f"{self._job.task}\n{self.error}\n{show.to_text(args)}".lower()


def plan_search(desk: Desk, text: str) -> SearchPlan:
    """Split a filter, for this user, into a query and the terms applied here."""
    desk.need("read")
    found = parse_filter(text, now_ms())
    if not desk.values:
        found = msgspec.structs.replace(found, parts=tuple(_without_values(part) for part in found.parts))
    fields: dict[str, Any] = {"since": found.since, "until": found.until}
    rest: list[Part] = []
    for part in found.parts:
        asked = _asked(part) if isinstance(part, Term) else None
        if asked is None or asked.keys() & fields.keys():
            rest.append(part)
        else:
            fields |= asked
    if fields.get("states") == (State.RUNNING,):
        # The store finds only running jobs by worker; for ended jobs the worker is the last one that had them.
        mine = next((part for part in rest if isinstance(part, Term) and _is_worker(part)), None)
        if mine is not None:
            rest.remove(mine)
            fields["worker"] = mine.exact
    return SearchPlan(found, Query(**fields), tuple(rest))


def _is_worker(term: Term) -> bool:
    """Whether the term names one worker by its whole id: HOST-PID-…"""
    return term.name == "worker" and _WORKER.fullmatch(term.exact) is not None


def _without_values(part: Part) -> Part:
    """A part of the filter for a user who may not see values: a bare word is then searched for as an id only."""
    if isinstance(part, Either):
        branches = tuple(tuple(_without_values(each) for each in branch) for branch in part.branches)
        return msgspec.structs.replace(part, branches=branches)
    if part.name == "text" and _ID.fullmatch(pasted(part.values[0].text)):
        return msgspec.structs.replace(part, name="ident")
    if part.name in OF_VALUES:
        raise Forbidden(f"a filter by {_shown(part)} needs the right 'values'", right="values")
    return part


def _shown(term: Term) -> str:
    return "words" if term.name == "text" else term.name


def _asked(term: Term) -> dict[str, Any] | None:
    """The part of a query that means the same as a term; None if there is none."""
    if term.name == "state":
        named = tuple(State(value.text) for value in term.values)
        return {"states": tuple(state for state in State if state not in named) if term.negated else named}
    if term.name in ("queue", "task", "fingerprint") and term.exact:
        return {term.name: term.exact}
    return None


def check_cursor(cursor: str) -> str:
    if not _CURSOR.fullmatch(cursor):
        raise ConfigError(f"cursor {cursor[:40]!r} is not one a listing gave out")
    return cursor


async def search(desk: Desk, plan: SearchPlan, after: str, limit: int) -> Found:
    """A page of the jobs that a filter finds, the newest first."""
    check_cursor(after)
    store = await desk.store()
    terms = [term for term in plan.filter.terms if not term.negated]
    named = {term.name: term for term in terms if term.name in ("id", "workflow")}
    try:
        if "id" in named and not any(wanted.glob for wanted in named["id"].values):
            return await _by_id(desk, store, plan, [wanted.text for wanted in named["id"].values])
        if "workflow" in named and named["workflow"].exact:
            return await _in_workflow(desk, store, plan, named["workflow"].exact, after, limit)
        if words := [term for term in terms if term.name in ("text", "ident")]:
            found = await _by_word(desk, store, plan, pasted(words[0].values[0].text), after, limit)
            if found is not None:
                return found
        return await _walk(desk, store, plan, after, limit)
    except ValueError as error:
        raise ConfigError(f"cursor {after!r} is not one this listing gave out") from error


def picks(desk: Desk, plan: SearchPlan, job: Job) -> bool:
    """Whether the terms applied here hold and the user may see the job."""
    if not desk.access.sees(job.queue):
        return False
    seen = Seen(desk.access, job)
    return all(holds(part, seen) for part in plan.rest)


def picks_all(desk: Desk, plan: SearchPlan, job: Job) -> bool:
    """The same for records that the query did not select."""
    if not job.task or not desk.access.sees(job.queue) or job.enqueued_at < plan.filter.since:
        return False
    late = plan.filter.until and job.enqueued_at >= plan.filter.until
    if late or (plan.query.states and job.state not in plan.query.states):
        return False
    seen = Seen(desk.access, job)
    return all(holds(part, seen) for part in plan.filter.parts)


async def _by_id(desk: Desk, store: Store, plan: SearchPlan, ids: list[str]) -> Found:
    known = await store.get(list(dict.fromkeys(ids))[:MOST_IDS])
    return Found([job for job in known if job is not None and picks_all(desk, plan, job)], "", False, len(ids))


async def _by_word(desk: Desk, store: Store, plan: SearchPlan, word: str, after: str, limit: int) -> Found | None:
    """The job or workflow whose id was pasted as a word; None if the word is not such an id."""
    if not word or (after and not after.startswith(IN_WORKFLOW)):
        return None
    if await store.graph(word) is not None:
        return await _in_workflow(desk, store, plan, word, after, limit)
    (job,) = await store.get([word])
    return Found([job], "", False, 1) if job is not None and picks_all(desk, plan, job) else None


async def _in_workflow(desk: Desk, store: Store, plan: SearchPlan, id: str, after: str, limit: int) -> Found:
    """The jobs of a workflow, in the order they were submitted."""
    place = int(after.removeprefix(IN_WORKFLOW)) if after else -1
    graph = await store.graph(id)
    found: list[Job] = []
    looked = 0
    while graph is not None and place < graph.nodes - 1 and looked < LOOKED and len(found) < limit:
        room, step = limit - len(found), STEP
        members = await store.members(id, place, step)
        places = [at for at, job in enumerate(members) if picks_all(desk, plan, job)]
        if len(places) > room:  # as in ``_walk``, read up to the last one that fits
            step = places[room - 1] + 1
            members = await store.members(id, place, step)
        found += [job for job in members if picks_all(desk, plan, job)]
        place, looked = place + step, looked + step
    more = graph is not None and place < graph.nodes - 1
    return Found(found, f"{IN_WORKFLOW}{place}" if more else "", more and len(found) < limit, looked)


async def _walk(desk: Desk, store: Store, plan: SearchPlan, after: str, limit: int) -> Found:
    """Read page by page until there are enough jobs, the end comes, or the bound is reached."""
    plain = plan.indexed and not desk.scoped
    found: list[Job] = []
    looked, until = 0, time.monotonic() + SECONDS
    while True:
        step = min(limit - len(found), MAX_BATCH) if plain else STEP
        page = await store.find(_at(plan.query, after, step))
        places = [place for place, job in enumerate(page.jobs) if picks(desk, plan, job)]
        if len(places) > limit - len(found):
            # More than there is room for: read again up to the last that fits, so that the cursor is right behind it.
            # The second reading counts, as jobs may have changed meanwhile.
            page = await store.find(_at(plan.query, after, places[limit - len(found) - 1] + 1))
            places = [place for place, job in enumerate(page.jobs) if picks(desk, plan, job)]
        found += [page.jobs[place] for place in places]
        looked, after = looked + len(page.jobs), page.cursor
        if not after or len(found) >= limit:
            return Found(found, after, False, looked)
        if page.partial or looked >= LOOKED or time.monotonic() > until:
            return Found(found, after, True, looked)


def _at(query: Query, after: str, limit: int) -> Query:
    return msgspec.structs.replace(query, after=after, limit=limit)
