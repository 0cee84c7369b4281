"""Unique keys: which job has a key, which comes after it, and what becomes of a call whose key is held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.core.job import NewJob, State
from windlass.core.terms import Policy, Terms
from windlass.store.answers import Accept, Answer
from windlass.store.flow import Hold, HoldKind, UniqueInfo
from windlass.store.memory import states
from windlass.store.memory.records import ASIDE, Key, Row

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub


def held(hub: Hub, name: str, now: int) -> Key | None:
    """The key's row, if the key is not free."""
    key = hub.uniques.get(name)
    if key is not None and key.free(now):
        del hub.uniques[name]
        return None
    return key


def hold(hub: Hub, row: Row, terms: Terms) -> None:
    """Give the key to a job that was accepted or started again."""
    hub.uniques[terms.unique] = Key(row, row.enqueued_at + terms.window)


def meet(hub: Hub, key: Key, job: NewJob, terms: Terms, now: int) -> tuple[Answer | None, Row | None]:
    """A call finds its key held. Answers its answer and the job it changed; no answer if the call comes in as the
    successor.
    """
    holder = key.holder
    if terms.policy is Policy.KEEP or holder.state.terminal:
        return Answer(Accept.DUPLICATE, holder=holder.id), None
    if holder.task != job.task:
        return Answer(Accept.REFUSED, f"unique key held by {holder.id}, a job of {holder.task}"), None
    target = key.successor or holder  # the newest call decides what runs last
    if target.state is State.RUNNING:
        return None, None
    replace(hub, target, job, terms, now)
    return Answer(Accept.REPLACED, holder=target.id), target


def succeed(hub: Hub, key: Key, row: Row) -> None:
    """Let a new job wait for the holder to end. Its delay runs meanwhile."""
    due = row.due
    states.make_waiting(hub, row)
    row.due, key.successor = due, row


def replace(hub: Hub, row: Row, job: NewJob, terms: Terms, now: int) -> None:
    """Give a job that has not started the arguments and options of a later call; it keeps its place."""
    another_version = row.version != job.version
    row.payload, row.meta, row.version, row.priority = job.payload, job.meta, job.version, job.priority
    if terms.policy is Policy.DEBOUNCE and (row.state is not State.WAITING or is_successor(hub, row)):
        put_off(hub, row, job, terms, now)
    elif row.state is State.READY and row.hold == ASIDE and another_version:
        states.make_ready(hub, row, keep_place=True)  # another worker may declare the new task


def put_off(hub: Hub, row: Row, job: NewJob, terms: Terms, now: int) -> None:
    due = max(job.at, now + job.delay)
    if terms.most:
        due = min(due, row.enqueued_at + terms.most)
    if row.state is State.WAITING:
        row.due = due
    elif due > now:
        states.make_scheduled(hub, row, due)
    elif row.state is State.SCHEDULED:
        states.make_ready(hub, row)


def is_successor(hub: Hub, row: Row) -> bool:
    return successor_key(hub, row) is not None


def successor_key(hub: Hub, row: Row) -> Key | None:
    """The key for which a job waits."""
    key = hub.uniques.get(row.terms.unique) if row.terms is not None and row.terms.unique else None
    return key if key is not None and key.successor is row else None


def let_go(hub: Hub, row: Row) -> None:
    """A job is over or gone. If it had its key, the successor now has it, or the window keeps it held."""
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
                states.make_scheduled(hub, heir, heir.due)
            else:
                states.make_ready(hub, heir)
        elif key.until > now:
            hub.fade(key.until, lambda then: forget(hub, name, then))
        else:
            del hub.uniques[name]


def forget(hub: Hub, name: str, now: int) -> None:
    held(hub, name, now)


def in_the_way(hub: Hub, row: Row, now: int) -> str | None:
    """The reason why a job may not start again: another job has its key by now."""
    if row.terms is None or not row.terms.unique or is_member(row):
        return None
    key = held(hub, row.terms.unique, now)
    return f"unique key held by {key.holder.id}" if key is not None and key.holder is not row else None


def hold_again(hub: Hub, row: Row) -> None:
    """Give a job that starts again its key back."""
    if row.terms is not None and row.terms.unique and not is_member(row):
        hold(hub, row, row.terms)


def is_member(row: Row) -> bool:
    """Jobs of a graph have no unique keys: they could only come in together with all the others."""
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
