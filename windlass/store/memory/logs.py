"""Logs: records in the order they were appended, each in a stream of its own. Records are read and pruned, never
changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from windlass.store.answers import MAX_BATCH
from windlass.store.items import Append, LogInfo, Record, StreamEnd, log_channel
from windlass.store.memory.item_rows import Log
from windlass.store.rules import prunes_at

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub


def length(hub: Hub, name: str, stream: str) -> int:
    log = hub.logs.get(name)
    return log.length(stream) if log is not None else 0


def append(hub: Hub, new: Append, now: int) -> StreamEnd:
    if not new.bodies:
        return StreamEnd(length(hub, new.log, new.stream))
    log, position = hub.logs.setdefault(new.log, Log()), 0
    for body in new.bodies:
        position = log.add(new.stream, body, now)
    hub.tell(hub.readers[new.log], None)
    end = StreamEnd(log.length(new.stream), position)
    log.prune(now, 2 * len(new.bodies))
    return end


def read(hub: Hub, name: str, after: int, limit: int, stream: str | None, since: int) -> list[Record]:
    log = hub.logs.get(name)
    tail = log and (log.records if stream is None else log.streams.get(stream))
    if not tail:
        return []
    found = tail.behind(after)
    first = bisect_left(found, since, key=lambda record: record.at) if since else 0
    return list(found[first : first + min(limit, MAX_BATCH)])


def info(hub: Hub, names: Sequence[str]) -> list[LogInfo]:
    return [of_log(name, hub.logs.get(name)) for name in names or sorted(hub.logs)]


def of_log(name: str, log: Log | None) -> LogInfo:
    if log is None:
        return LogInfo(name=name)
    records = log.records
    return LogInfo(
        name=name, first=records.first, last=records.last, count=len(records), size=log.size, keep=log.keep
    )  # fmt: skip


def follow(hub: Hub, client: str, channel: str) -> bool:
    """Whether the watched name is a log; if so the client is told of its new records."""
    name = log_of(channel)
    if name is None:
        return False
    hub.readers[name].add(client)
    return True


def unfollow(hub: Hub, client: str, channel: str) -> bool:
    name = log_of(channel)
    if name is not None:
        hub.readers[name].discard(client)
    return name is not None


def log_of(channel: str) -> str | None:
    return channel[1:] if channel.startswith(log_channel("")) else None


def sweep(hub: Hub, now: int, limit: int) -> int:
    done = 0
    for log in hub.logs.values():
        done += log.prune(now, limit - done)
    return done


def next_check(hub: Hub, now: int) -> list[int]:
    """The instants at which logs need a sweep: when their oldest record is too old, or now if they have too much."""
    kept = [log for log in hub.logs.values() if len(log.records)]
    times = [prunes_at(log.keep, now, len(log.records), log.size, log.records.oldest().at) for log in kept]
    return [time for time in times if time is not None]
