"""Unique keys: who has one, who comes after him, and what a call that finds it held does instead of coming in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.core.job import NewJob, State
from windlass.core.terms import Policy, Terms
from windlass.store.answers import Accept, Answer
from windlass.store.flow import Hold, HoldKind, UniqueInfo
from windlass.store.memory.records import ASIDE, Row

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub


class Key:
    """A key that is held. ``holder`` may be over while the window lasts; ``successor`` waits for him to be."""

    __slots__ = ("holder", "successor", "until")

    def __init__(self, holder: Row, until: int) -> None:
        self.holder, self.until = holder, until
        self.successor: Row | None = None

    def free(self, now: int) -> bool:
        return self.holder.state.terminal and self.until <= now


def held(hub: Hub, name: str, now: int) -> Key | None:
    """The key, if it is not free."""
    key = hub.uniques.get(name)
    if key is not None and key.free(now):
        del hub.uniques[name]
        return None
    return key


def hold(hub: Hub, row: Row, terms: Terms) -> None:
    """A job was accepted, or started again, and has its key."""
    hub.uniques[terms.unique] = Key(row, row.enqueued_at + terms.window)


def meet(hub: Hub, key: Key, job: NewJob, terms: Terms, now: int) -> tuple[Answer | None, Row | None]:
    """A call finds its key held: its answer, and who was changed; no answer when it comes in as the successor."""
    holder = key.holder
    if terms.policy is Policy.KEEP or holder.state.terminal:
        return Answer(Accept.DUPLICATE, holder=holder.id), None
    if holder.task != job.task:
        return Answer(Accept.REFUSED, f"unique key held by {holder.id}, a job of {holder.task}"), None
    target = key.successor or holder  # what was called last runs last
    if target.state is State.RUNNING:
        return None, None
    replace(hub, target, job, terms, now)
    return Answer(Accept.REPLACED, holder=target.id), target


def succeed(hub: Hub, key: Key, row: Row) -> None:
    """A new job waits for the holder to be over. Its time runs meanwhile."""
    due = row.due
    hub.make_waiting(row)
    row.due, key.successor = due, row


def replace(hub: Hub, row: Row, job: NewJob, terms: Terms, now: int) -> None:
    """A job that has not started takes over what a later call says, in its place."""
    another_version = row.version != job.version
    row.payload, row.meta, row.version, row.priority = job.payload, job.meta, job.version, job.priority
    if terms.policy is Policy.DEBOUNCE and (row.state is not State.WAITING or is_successor(hub, row)):
        put_off(hub, row, job, terms, now)
    elif row.state is State.READY and row.hold == ASIDE and another_version:
        hub.make_ready(row, keep_place=True)  # whoever declares it may be another now


def put_off(hub: Hub, row: Row, job: NewJob, terms: Terms, now: int) -> None:
    due = max(job.at, now + job.delay)
    if terms.most:
        due = min(due, row.enqueued_at + terms.most)
    if row.state is State.WAITING:
        row.due = due
    elif due > now:
        hub.make_scheduled(row, due)
    elif row.state is State.SCHEDULED:
        hub.make_ready(row)


def is_successor(hub: Hub, row: Row) -> bool:
    return successor_key(hub, row) is not None


def successor_key(hub: Hub, row: Row) -> Key | None:
    """The key for which a job waits."""
    key = hub.uniques.get(row.terms.unique) if row.terms is not None and row.terms.unique else None
    return key if key is not None and key.successor is row else None


def let_go(hub: Hub, row: Row) -> None:
    """A job is over or gone. If it had its key, the successor has it now, or the window lasts."""
    assert row.terms is not None
    name, now = row.terms.unique, hub.clock.last
    key = hub.uniques.get(name)
    if key is None:
        return
    if key.successor is row:
        key.successor = None
    elif key.holder is row:
        heir, key.successor = key.successor, None
        if heir is not None and heir.terms is not None:
            key.holder, key.until = heir, heir.enqueued_at + heir.terms.window
            if heir.due > now:
                hub.make_scheduled(heir, heir.due)
            else:
                hub.make_ready(heir)
        elif key.until > now:
            hub.fade(key.until, lambda then: forget(hub, name, then))
        else:
            del hub.uniques[name]


def forget(hub: Hub, name: str, now: int) -> None:
    held(hub, name, now)


def in_the_way(hub: Hub, row: Row, now: int) -> str | None:
    """Why a job may not start again: its key is another's by now."""
    if row.terms is None or not row.terms.unique or is_member(row):
        return None
    key = held(hub, row.terms.unique, now)
    return f"unique key held by {key.holder.id}" if key is not None and key.holder is not row else None


def hold_again(hub: Hub, row: Row) -> None:
    """A job starts again, and takes its key along."""
    if row.terms is not None and row.terms.unique and not is_member(row):
        hold(hub, row, row.terms)


def is_member(row: Row) -> bool:
    """Jobs of a graph have no unique keys: they could not come in otherwise than with all the others."""
    return row.links is not None and row.links.graph is not None


def info(hub: Hub, name: str, now: int) -> UniqueInfo | None:
    key = held(hub, name, now)
    if key is None:
        return None
    successor = key.successor.id if key.successor is not None else ""
    return UniqueInfo(holder=key.holder.id, successor=successor, window=max(0, key.until - now))


def why_waiting(hub: Hub, row: Row) -> Hold | None:
    key = successor_key(hub, row)
    return Hold(kind=HoldKind.SUCCESSOR, holder=key.holder.id) if key is not None else None
