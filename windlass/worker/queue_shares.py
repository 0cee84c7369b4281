"""Weighted queues: how a worker's room is shared among them. Only numbers; it asks no store and starts nothing.

``critical*5, default*2, low``: of eight jobs that find room, five are critical, two default and one low, in evenly
spread turns. The share of a queue without jobs goes to the others by their weights; the queue saves nothing up
meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.core.ids import check_name
from windlass.errors import ConfigError

MOST = 1_000
Asked = list[tuple[str, int]]


def parse_queues(given: object) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Queue names in order, and their weights. Without weights the queues are served strictly in this order."""
    if isinstance(given, Mapping):
        pairs = [(name, weight) for name, weight in given.items()]
    else:
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, Sequence):
            raise ConfigError(f"queues is {given!r}; give names such as ['critical*5', 'default'], or a mapping")
        pairs = [_split(text) for text in texts]
    chosen: dict[str, int | None] = {}
    for name, weight in pairs:
        if chosen.setdefault(check_name("queue", name), _checked(name, weight)) != weight:
            raise ConfigError(f"queue {name!r} is named twice, with different weights")
    weights = tuple(weight or 1 for weight in chosen.values()) if any(chosen.values()) else ()
    return tuple(chosen), weights


def _split(text: object) -> tuple[object, object]:
    if not isinstance(text, str):
        return text, None
    name, star, weight = text.partition("*")
    return name.strip(), int(weight) if weight.strip().isdecimal() else weight if star else None


def _checked(name: object, weight: object) -> int | None:
    if weight is None or (type(weight) is int and 1 <= weight <= MOST):
        return weight if isinstance(weight, int) else None
    raise ConfigError(f"the weight of queue {name!r} is {weight!r}; give a whole number from 1 to {MOST:,}")


class Shares:
    """Whose turn it is. ``spent``: what each queue got, divided by its weight; the queue that has spent least
    is next.
    """

    def __init__(self, queues: Sequence[str], weights: Sequence[int] = ()) -> None:
        self._queues, self._weights = list(queues), list(weights)
        self._cycle = sum(weights)
        self._spent = [0.0] * len(weights)
        self._asked: list[int] = []
        self.weighted = bool(weights)
        self.empty = not queues

    def ask(self, room: int) -> Asked:
        """Ask each queue for its share; then, in the order of turns, each for all that is left."""
        if not self.weighted or not room:
            return [(queue, room) for queue in self._queues]
        self._asked, spent = self._split(room)
        turns = sorted(range(len(spent)), key=spent.__getitem__)
        asked = [(self._queues[place], share) for place, share in enumerate(self._asked) if share]
        return asked + [(self._queues[place], room) for place in turns]

    def _split(self, room: int) -> tuple[list[int], list[float]]:
        """Split the room. Whole cycles change no queue's turn, so only the rest is dealt out one by one."""
        cycles, rest = divmod(room, self._cycle)
        shares, spent = [weight * cycles for weight in self._weights], list(self._spent)
        for _ in range(rest):
            place = min(range(len(spent)), key=lambda at: spent[at] + 1 / self._weights[at])
            spent[place] += 1 / self._weights[place]
            shares[place] += 1
        return shares, spent

    def took(self, room: int, got: Mapping[str, int]) -> None:
        """Note what the queues gave. One that gave less than its share is empty, and starts level with the others
        again.
        """
        if not self.weighted or not room:
            return
        counts, asked = [got.get(queue, 0) for queue in self._queues], self._asked
        if sum(counts) < room:
            self._spent = [0.0] * len(counts)  # all queues are empty: the next one with jobs starts afresh
            return
        spent = [old + count / weight for old, count, weight in zip(self._spent, counts, self._weights, strict=True)]
        busy = [count >= share for count, share in zip(counts, asked, strict=True)]
        least = min(value for value, is_busy in zip(spent, busy, strict=True) if is_busy)
        self._spent = [
            (value if is_busy else max(value, least)) - least for value, is_busy in zip(spent, busy, strict=True)
        ]
