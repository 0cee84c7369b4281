"""Who did what: for each action a record on a shelf of the store, written before the action begins and again at its
end.

A record whose end was never written says ``begun``. Records hold no values of users, only the names of arguments.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from zlib import crc32

import msgspec

from windlass.console import show
from windlass.console.desk import Desk, page_size
from windlass.console.replies import AuditList, AuditRow
from windlass.errors import ConfigError, Forbidden, StoreError
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store
from windlass.store.items import Item, Put, put_all, read_one

SHELF = "audit"
KEPT = 90 * 24 * 3_600_000
"""How long a record is kept, in ms."""

LOGINS_KEPT = 30 * 24 * 3_600_000
LOGIN_WINDOW, LOGIN_PLACES = 600_000_000, 16
"""Failed logins are kept for so many ms, and at most so many in a window of so many µs: whoever guesses does not fill
the log.
"""

MOST_TEXT, MOST_NAMES = 2_000, 50
KEY_MOST = 40


class AuditRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A record as it is stored. ``queues``: whose jobs the action concerned; empty where that is all or not known."""

    at: int
    user: str
    via: str
    action: str
    target: str
    details: dict[str, Any] = {}
    outcome: str = "begun"
    count: int = 0
    queues: list[str] = []


_decoder = msgspec.json.Decoder(AuditRecord)


class AuditedAction:
    """An action under way. The code that does it says here which right it needs and what came of it."""

    def __init__(self, desk: Desk, record: AuditRecord, key: str) -> None:
        self._desk, self.record, self.key = desk, record, key

    def need(self, right: str, queue: str | None = None) -> None:
        self._desk.need(right, queue)

    async def begin(self, queues: Iterable[str] = ()) -> None:
        """The action is permitted, and begins now."""
        self.record.queues = sorted(set(queues))[:MOST_NAMES]
        await self.write()

    async def write(self) -> None:
        body = msgspec.json.encode(self.record)
        await put_all(await self._desk.store(), [Put(shelf=SHELF, key=self.key, body=body, ttl=KEPT)])


@asynccontextmanager
async def act(
    desk: Desk, action: str, target: str, details: Mapping[str, Any] | None = None, key: str = ""
) -> AsyncIterator[AuditedAction]:
    """A context around an action: whatever happens in it goes into its record. ``key``: continue an existing record."""
    now = time.time_ns() // 1_000  # in µs, so that the actions of one user keep their order
    record = AuditRecord(
        at=now // 1_000, user=bounded(desk.access.user), via=desk.via, action=action, target=bounded(target),
        details={name: bounded(value) for name, value in (details or {}).items()},
    )  # fmt: skip
    deed = AuditedAction(desk, record, key or f"{now:016d}-{random.getrandbits(48):012x}")
    try:
        yield deed
    except Forbidden as error:
        await _end(deed, f"refused: {error}")
        raise
    except Exception as error:
        with suppress(StoreError):  # the user must hear of the first error, not of this one
            await _end(deed, f"error: {error}")
        raise
    else:
        await _end(deed, "done")
    finally:
        desk.shared.forget()


async def _end(deed: AuditedAction, outcome: str) -> None:
    deed.record.outcome = bounded(outcome)
    await deed.write()


async def write_failed_login(store: Store, user: str, address: str, via: str, failures: int) -> None:
    """Record who failed to sign in, and from where. ``user`` is empty for an unknown name, which may well be a
    password.
    """
    now = time.time_ns() // 1_000
    record = AuditRecord(
        at=now // 1_000, user=bounded(user), via=via, action="sign_in", target=bounded(address),
        details={"failures": failures}, outcome="refused: wrong name, password or token",
    )  # fmt: skip
    place = crc32(f"{address} {user}".encode("utf-8", "replace")) % LOGIN_PLACES
    key = f"{now - now % LOGIN_WINDOW:016d}-login-{place:02d}"
    await put_all(store, [Put(shelf=SHELF, key=key, body=msgspec.json.encode(record), ttl=LOGINS_KEPT)])


def bounded(value: Any) -> Any:
    """Texts and lists of them that fit a record."""
    if isinstance(value, str):
        return show.safe(value[:MOST_TEXT])
    if isinstance(value, list | tuple | set | frozenset):
        return [bounded(each) for each in list(value)[:MOST_NAMES]]
    return value if isinstance(value, bool | int | float | None) else show.safe(str(value)[:MOST_TEXT])


# -- reading


async def audit_list(desk: Desk, after: str, limit: int) -> AuditList:
    """The newest records first; ``after``: the cursor of the previous page."""
    desk.need("audit")
    if len(after) > KEY_MOST:
        raise ConfigError(f"cursor {after[:KEY_MOST]!r} is not one this listing gave out")
    store, most = await desk.store(), page_size(limit)
    found: list[AuditRow] = []
    until = after
    items = await store.shelf(SHELF, until=until, limit=MAX_BATCH if desk.scoped else most, newest_first=True)
    for item in items:
        if len(found) == most:
            break
        until = item.key
        record = read_record(item)
        if record is not None and seen(desk, record):
            found.append(row(item.key, record))
    more = bool(items) and (until != items[-1].key or len(items) == (MAX_BATCH if desk.scoped else most))
    return AuditList(rows=found, cursor=until if more else "")


def read_record(item: Item) -> AuditRecord | None:
    try:
        return _decoder.decode(item.body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def seen(desk: Desk, record: AuditRecord) -> bool:
    """Whether the user may see the record: it is about queues in scope only, or is the user's own."""
    if not desk.scoped or (record.user and record.user == desk.access.user):
        return True
    return bool(record.queues) and all(map(desk.access.sees, record.queues))


def row(key: str, record: AuditRecord) -> AuditRow:
    details = {bounded(name): bounded(value) for name, value in list(record.details.items())[:MOST_NAMES]}
    return AuditRow(
        key=key, at=record.at, user=bounded(record.user), via=bounded(record.via), action=bounded(record.action),
        target=bounded(record.target), details=details, outcome=bounded(record.outcome), count=record.count,
    )  # fmt: skip


async def record_at(store: Store, key: str) -> AuditRecord | None:
    """One record by its key."""
    item = await read_one(store, SHELF, key)
    return read_record(item) if item.version else None
