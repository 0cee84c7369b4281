"""Orders to workers: go quiet, go on, stop, serve another queue or leave one. An order is an item on a shelf of the
store, under the worker's id. A signal tells the worker to read it at once; a worker that missed the signal reads its
orders when it listens again.

Whoever gives an order does not wait until it is obeyed: a worker says at its next beat what it is doing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from windlass.core import safe
from windlass.core.hints import did_you_mean
from windlass.core.ids import check_name
from windlass.core.option_parsers import choice
from windlass.errors import ConfigError, NotFound
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store
from windlass.store.items import Item, Put, put_all, read_one
from windlass.store.reads import WorkerInfo

SHELF, QUEUES = "orders", "orders-queues"
KEPT = 24 * 3_600_000
"""How long an order is kept, in ms: a worker ends, or reads it, long before that."""


class Order(StrEnum):
    """What a worker can be told. ``quiet``: claim no more jobs, finish those it has, and stay. ``resume``: claim again.
    ``stop``: drain and end, as by SIGTERM.
    """

    QUIET = "quiet"
    RESUME = "resume"
    STOP = "stop"


class Serving(msgspec.Struct, frozen=True):
    """An order about one queue: to serve it, or (``on`` False) to leave it."""

    queue: str
    on: bool


class Given(msgspec.Struct, frozen=True):
    """An order as it is kept; ``at`` (ns) tells it from the same one given before."""

    order: Order
    at: int
    reason: str = ""


_decoder = msgspec.json.Decoder(Given)
_serving_decoder = msgspec.json.Decoder(Serving)
_parse = choice(*map(str, Order))


def ear(worker: str) -> str:
    """The name under which a worker listens for orders."""
    return f"orders/{worker}"


async def give(store: Store, order: Order | str, workers: Sequence[str], reason: str = "") -> list[str]:
    """Tell these workers. Each is named by its id, the beginning of one, or HOST:PID; answers their ids.

    NotFound where one is not there or not alive, ConfigError where a name could mean several; nobody is told then.
    """
    given = Given(Order(_parse(order, "order")), time.time_ns(), safe.text(reason, safe.MAX_REASON))
    if not workers:
        raise ConfigError(f"{given.order}: name at least one worker")
    ids = list(dict.fromkeys(find_workers(workers, await store.workers())))
    body = msgspec.json.encode(given)
    await put_all(store, [Put(shelf=SHELF, key=id, body=body, ttl=KEPT) for id in ids])
    await store.signal([ear(id) for id in ids])
    return ids


async def serve(store: Store, queue: str, workers: Sequence[str], *, on: bool = True) -> list[str]:
    """Tell these workers to serve a queue beside their others, or to leave it; answers their ids.

    It holds until the worker ends: one that starts anew serves what it is started with.
    """
    check_name("queue", queue)
    if not workers:
        raise ConfigError(f"queue {queue}: name at least one worker")
    ids = list(dict.fromkeys(find_workers(workers, await store.workers())))
    body = msgspec.json.encode(Serving(queue, on))
    # One item for each queue: orders about others, given in the same moment by somebody else, stand beside it.
    await put_all(store, [Put(shelf=QUEUES, key=f"{id}/{queue}", body=body, ttl=KEPT) for id in ids])
    await store.signal([ear(id) for id in ids])
    return ids


def find_workers(names: Iterable[str], workers: Sequence[WorkerInfo]) -> list[str]:
    """The ids of the live workers that are meant."""
    alive = {info.presence.id: f"{info.presence.host}:{info.presence.pid}" for info in workers if info.alive}
    return [_find(name, alive) for name in names]


def _find(name: str, alive: dict[str, str]) -> str:
    if name in alive:
        return name
    found = [id for id, place in alive.items() if name and (place == name or id.startswith(name))]
    if not found:
        hint = did_you_mean(name, [*alive, *alive.values()])
        raise NotFound(f"there is no live worker {name!r}{hint}; `windlass workers` lists them")
    if len(found) > 1:
        raise ConfigError(f"{name!r} could be any of {', '.join(sorted(found)[:5])}; give more of the id")
    return found[0]


async def read_all(store: Store) -> dict[str, Given]:
    """The last order to each worker that was given one of late."""
    items = await store.shelf(SHELF, limit=MAX_BATCH, newest_first=True)
    return {item.key: given for item in items if (given := _decoded(item)) is not None}


async def read(store: Store, worker: str) -> Given | None:
    """The last order to a worker, None where there is none or nobody can read it."""
    item = await read_one(store, SHELF, worker)
    if not item.version:
        return None
    return _decoded(item)


def _decoded(item: Item) -> Given | None:
    try:
        return _decoder.decode(item.body)
    except (msgspec.MsgspecError, ValueError):
        return None


async def read_queues(store: Store, worker: str) -> dict[str, bool]:
    """The queues a worker was told to serve (True) or to leave, by name."""
    found: dict[str, bool] = {}
    for item in await store.shelf(QUEUES, after=f"{worker}/", until=f"{worker}0"):  # "0" comes after "/"
        try:
            told = _serving_decoder.decode(item.body)
        except (msgspec.MsgspecError, ValueError):
            continue
        found[told.queue] = told.on
    return found
