"""What a worker can do, worked out of what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from windlass.store.jobs import Declared


class Skills:
    """What a worker declares: tasks by version, and queues of which it takes anything (``*queue``)."""

    __slots__ = ("declares", "known", "open_queues", "queues", "queues_json")

    def __init__(self, queues: Sequence[str], declares: Mapping[str, Declared]) -> None:
        self.queues, self.declares = queues, declares
        self.queues_json = msgspec.json.encode(queues).decode()
        self.open_queues = frozenset(name[1:] for name in declares if name.startswith("*"))
        self.known = frozenset(
            (name, version) for name, said in declares.items() if name[0] != "*" for version in said.versions
        )

    def takes(self, queue: str, task: str, version: int) -> bool:
        return (task, version) in self.known or queue in self.open_queues

    def max_crashes(self, queue: str, task: str, limit: int) -> int:
        """How often a job may crash: its own limit, or the worker's where that is lower."""
        said = self.declares.get(task) or self.declares.get(f"*{queue}")
        return min(limit, said.max_crashes) if said and said.max_crashes else limit
