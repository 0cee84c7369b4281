"""The read side and the operator's side: listings, dead letters, events. The CLI and the dashboard stand on this."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from windlass.calls.declared import Declared
from windlass.connections.connections import Connected, Connections
from windlass.core import codec
from windlass.core.event import Event, check_kinds, expand, parse_cursor
from windlass.core.flow_rules import Asked, key_text, make_terms, unique_key
from windlass.core.job import Job, State, read_meta
from windlass.core.links import Inject
from windlass.core.option_parsers import parse_states
from windlass.core.terms import Terms
from windlass.errors import ConfigError, JobLost, WindlassError
from windlass.handles.handle import Handle, JobInfo, job_info
from windlass.handles.results import Read
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store
from windlass.store.jobs import EVERY_EVENT, Action, Change, ChangeReply, Query


class JobPage(msgspec.Struct, frozen=True):
    """A page of jobs. ``cursor`` continues it, empty at the end; ``partial``: the scan bound came before the limit."""

    jobs: list[JobInfo]
    cursor: str = ""
    partial: bool = False

    def __len__(self) -> int:
        return len(self.jobs)


async def jobs_page(
    store: Store, queue: str, state: State | str | Sequence[State | str], task: str, limit: int, after: str
) -> JobPage:
    query = Query(queue=queue, states=parse_states(state), task=task, limit=min(limit, MAX_BATCH), after=after)
    page = await store.find(query)
    return JobPage([job_info(job) for job in page.jobs], page.cursor, page.partial)


class Holder(msgspec.Struct, frozen=True):
    """Who has a unique key. ``successor``: the job that starts when the holder is over. ``window``: ms for which the
    key stays taken, also when the holder is over.
    """

    handle: Handle[Any]
    successor: Handle[Any] | None = None
    window: int = 0


async def find_holder(connections: Connections, task: str, key: str | int | float | UUID, read: Read) -> Holder | None:
    """Who has a unique key of a task. ``read``: how its results are read."""
    client = await connections.client()
    (info,) = await client.store.uniques([unique_key(task, key_text(key, f"the unique key of task {task} is"))])
    if info is None:
        return None
    successor = Handle[Any](connections, info.successor, read, existing=True) if info.successor else None
    return Holder(Handle(connections, info.holder, read, existing=True), successor, info.window)


class DeadLetters:
    """``app.dead``: jobs that failed for good, to look at, edit, replay and purge."""

    def __init__(self, connections: Connections, declared: Declared) -> None:
        self._connections, self._declared = connections, declared

    async def list(
        self, *, queue: str = "", task: str = "", fingerprint: str = "", limit: int = 100, after: str = ""
    ) -> JobPage:
        client = await self._connections.client()
        page = await client.store.find(self._query(queue, task, fingerprint, limit, after))
        return JobPage([job_info(job) for job in page.jobs], page.cursor, page.partial)

    async def show(self, id: str) -> JobInfo:
        info = await Handle[Any](self._connections, id).info()
        if info is None:
            raise JobLost(f"the store has no record of job {id}")
        return info

    async def edit(self, id: str, args: Mapping[str, Any]) -> JobInfo:
        """Give a dead letter other arguments, checked against its task where that is declared here.

        Its lane key, units and unique key follow, where they are functions of the arguments; those of a task that is
        not declared here stay as they are.
        """
        job = await Handle[Any](self._connections, id).record()
        if job is None:
            raise JobLost(f"the store has no record of job {id}")
        await self._one(id, edit_change(self._declared, job, dict(args), self._connections.settings.max_payload))
        return await self.show(id)

    async def replay(
        self, *ids: str, queue: str = "", task: str = "", fingerprint: str = "", every: bool = False
    ) -> int:
        """Run dead letters again: those named, or all that match (``every=True`` when nothing narrows it).

        Oldest first, however they are named: jobs of an ordered key keep their order.
        """
        return await self._change(Change(action=Action.RETRY), ids, queue, task, fingerprint, every)

    async def purge(
        self, *ids: str, queue: str = "", task: str = "", fingerprint: str = "", every: bool = False
    ) -> int:
        """Delete dead letters: those named, or all that match (``every=True`` when nothing narrows it)."""
        return await self._change(Change(action=Action.DELETE), ids, queue, task, fingerprint, every)

    async def _one(self, id: str, change: Change) -> None:
        client = await self._connections.client()
        reply = await client.store.change(change, [id])
        if id in reply.skipped:
            raise WindlassError(f"job {id} cannot be changed so: it is {reply.skipped[id]}")

    async def _change(
        self, change: Change, ids: Sequence[str], queue: str, task: str, fingerprint: str, every: bool
    ) -> int:
        client = await self._connections.client()
        if ids:
            states = {job.id: job.state for job in await client.store.get(ids) if job}
            dead = [id for id in ids if states.get(id) is State.FAILED]
            for id in ids:
                if id not in dead:
                    what = f"is {states[id]}" if id in states else "is unknown"
                    raise WindlassError(f"job {id} {what}, not a dead letter; nothing was changed")
            return len((await client.store.change(change, dead)).changed)
        if not (queue or task or fingerprint or every):
            raise ConfigError("say which dead letters: ids, queue=, task=, fingerprint=, or every=True")
        changed, cursor = 0, ""
        while True:
            query = self._query(queue, task, fingerprint, MAX_BATCH, cursor, oldest_first=True)
            reply = await client.store.change(change, query=query)
            changed, cursor = changed + len(reply.changed), reply.cursor
            if not cursor:
                return changed

    @staticmethod
    def _query(
        queue: str, task: str, fingerprint: str, limit: int, after: str, oldest_first: bool = False
    ) -> Query:  # fmt: skip
        return Query(
            queue=queue, states=(State.FAILED,), task=task, fingerprint=fingerprint, limit=limit, after=after,
            oldest_first=oldest_first,
        )  # fmt: skip


def edited(declared: Declared, job: Job, args: dict[str, Any], cap: int) -> bytes:
    """Other arguments for a job, in the form its own have: many calls in one, or all but what a workflow gives it."""
    task = declared.tasks.get(job.task)
    if task is None or task.version != job.version:
        return codec.encode(args, f"task {job.task}: the arguments", cap)
    if "each" in read_meta(job.meta).options:
        if args.keys() != {"each"} or not isinstance(args["each"], list):
            raise ConfigError(f"job {job.id} makes many calls: give {{'each': [lists of arguments]}}")
        return task.codec.encode_each(args["each"], cap)
    given = job.links is not None and any(edge.inject is Inject.RESULT for edge in job.links.ins)
    return task.codec.encode_rest((), args, cap) if given else task.codec.encode((), args, cap)


def edit_change(declared: Declared, job: Job, args: dict[str, Any], cap: int) -> Change:
    """The change that gives a job other arguments, of ``cap`` bytes at most, and the terms that follow from them."""
    payload = edited(declared, job, args, cap)
    terms = terms_after(declared, job, args, payload)
    if terms is not msgspec.UNSET and not job.state.terminal:
        raise ConfigError(
            f"job {job.id} is {job.state}, and with these arguments its key, units or unique key would be others; "
            "cancel it first, then edit and retry it"
        )
    return Change(action=Action.EDIT, payload=payload, terms=terms)


def terms_after(declared: Declared, job: Job, args: dict[str, Any], payload: bytes) -> Terms | msgspec.UnsetType | None:
    """A job's terms with other arguments; UNSET where they stay. What its call said for itself stays, too."""
    task = declared.tasks.get(job.task)
    if task is None or task.version != job.version or "each" in read_meta(job.meta).options:
        return msgspec.UNSET
    flow = declared.resolve(job.task, job.queue).flow
    if flow is None:
        return msgspec.UNSET
    fed = job.links is not None and any(edge.inject is Inject.RESULT for edge in job.links.ins)
    bound, had = task.codec.bound, job.terms or Terms()
    new = make_terms(flow, Asked(job.task, payload, lambda: bound((), args, fed))) or Terms()
    try:
        before = msgspec.json.decode(job.payload, type=dict[str, Any])
        old = make_terms(flow, Asked(job.task, job.payload, lambda: bound((), before, fed))) or Terms()
    except (msgspec.MsgspecError, ValueError, WindlassError):  # it is edited because nobody can read them
        old = had
    follow = [name for name in ("key", "units", "unique") if getattr(old, name) == getattr(had, name)]
    terms = msgspec.structs.replace(had, **{name: getattr(new, name) for name in follow})
    return msgspec.UNSET if terms == had else terms


async def stream_events(
    connected: Connected, queue: str, task: str, kinds: Sequence[str], since: str, follow: bool
) -> AsyncIterator[Event]:
    """Events behind ``since``; with ``follow``, waiting for more as they come."""
    wanted = check_kinds(list(kinds))
    client = await connected.client()
    news = asyncio.Event()
    seq, place = parse_cursor(since)
    stop = client.waiter.follow(news.set)
    try:
        if follow:
            await client.waiter.listen()
            await client.store.watch(client.name, [EVERY_EVENT])
        if not since:
            newest = await client.store.events(-1)
            seq, place = (newest[-1].seq, 1 << 60) if newest else (0, -1)
        while True:
            news.clear()
            # The entry the cursor points into is read again, and what was seen of it passed over.
            entries = await client.store.events(seq - 1 if place >= 0 and seq else seq)
            for entry in entries:
                for event in expand(entry, place if entry.seq == seq else -1):
                    if fits(event, queue, task, wanted):
                        yield event
                seq, place = (entry.seq, 1 << 60) if entry.seq >= seq else (seq, place)
            if not entries or (entries[-1].seq == seq and len(entries) < 100):
                if not follow:
                    return
                await news.wait()
    finally:
        stop()


def fits(event: Event, queue: str, task: str, kinds: frozenset[str]) -> bool:
    return (
        (not queue or event.queue == queue) and (not task or event.task == task) and (not kinds or event.kind in kinds)
    )


# -- many jobs at once


async def change_jobs(connected: Connected, change: Change, ids: Sequence[str]) -> ChangeReply:
    """Act on any number of jobs by id: what was changed, and why the others were not."""
    client = await connected.client()
    whole = ChangeReply([], {})
    for start in range(0, len(ids), MAX_BATCH):
        reply = await client.store.change(change, ids[start : start + MAX_BATCH])
        whole.changed += reply.changed
        whole.skipped |= reply.skipped
    return whole


async def retry_jobs(connected: Connected, ids: Sequence[str]) -> ChangeReply:
    """Run ended jobs again; those that wait for their time start now."""
    reply = await change_jobs(connected, Change(action=Action.RETRY), ids)
    waiting = [id for id, state in reply.skipped.items() if state == State.SCHEDULED]
    promoted = (await change_jobs(connected, Change(action=Action.PROMOTE), waiting)).changed
    left = {id: state for id, state in reply.skipped.items() if id not in promoted}
    return ChangeReply([*reply.changed, *promoted], left)


class DeadGroup(msgspec.Struct, kw_only=True):
    """Dead letters with one fault: the same error through the same functions."""

    fingerprint: str
    error: str
    message: str
    count: int = 0
    tasks: list[str] = []
    newest: str = ""
    last_at: datetime | None = None


async def dead_groups(dead: DeadLetters, queue: str = "", task: str = "", most: int = 10_000) -> list[DeadGroup]:
    """The dead letters by fault, the most frequent first; looks at the newest ``most`` of them."""
    groups: dict[str, DeadGroup] = {}
    looked, cursor = 0, ""
    while looked < most:
        page = await dead.list(queue=queue, task=task, limit=min(MAX_BATCH, most - looked), after=cursor)
        for job in page.jobs:
            add_to_group(groups, job)
        looked, cursor = looked + len(page.jobs), page.cursor
        if not cursor:
            break
    return sorted(groups.values(), key=lambda group: -group.count)


def add_to_group(groups: dict[str, DeadGroup], job: JobInfo) -> None:
    kind, message = (job.error.type, job.error.message) if job.error else (job.reason, "")
    key = (job.error.fingerprint if job.error else "") or kind
    group = groups.setdefault(
        key, DeadGroup(fingerprint=key, error=kind, message=message, newest=job.id, last_at=job.finished_at)
    )
    group.count += 1
    if job.task not in group.tasks:
        group.tasks.append(job.task)
