"""What is told to others: clients of ended jobs, workers of work, followers of events. It is collected in a step and
sent after it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable

from windlass.core.event import Entry, Group
from windlass.core.job import Finished
from windlass.store.jobs import Deliver
from windlass.store.memory import totals
from windlass.store.memory.item_rows import Log
from windlass.store.memory.records import Row, WorkerRow


class Telling:
    """The workers and listeners of a hub, and its event stream."""

    def __init__(self, events_kept: int) -> None:
        self.jobs: dict[str, Row] = {}
        self.nodes: dict[str, Row] = {}
        self.workers: dict[str, WorkerRow] = {}
        self.mail: dict[str, tuple[asyncio.AbstractEventLoop, Deliver]] = {}
        self.outbox: dict[str, list[Finished]] = {}
        self.followers: set[str] = set()
        self.logs: dict[str, Log] = {}
        self.readers: defaultdict[str, set[str]] = defaultdict(set)
        self.entries: deque[Entry] = deque(maxlen=events_kept)
        self.events = 0
        self.totals = totals.Totals()

    def tell(self, names: set[str], item: Finished | None) -> None:
        for name in names:
            box = self.outbox.setdefault(name, [])
            if item is not None:
                box.append(item)

    def wake(self, queue: str, count: int, who: Callable[[WorkerRow], bool] | None = None) -> None:
        """Wake as many idle workers of a queue as there are jobs; only those for which ``who`` holds."""
        for worker in self.workers.values():
            if count <= 0:
                return
            if worker.idle and not worker.dead and queue in worker.presence.queues and (who is None or who(worker)):
                worker.idle = False
                self.tell({worker.presence.id}, None)
                count -= 1

    def wake_any(self) -> None:
        """Wake one idle worker of any queue, for work that every worker can do."""
        for worker in self.workers.values():
            if worker.idle and not worker.dead:
                worker.idle = False
                self.tell({worker.presence.id}, None)
                return

    def record(self, now: int, groups: list[Group]) -> None:
        """Write one entry of the event stream for one write, and add its events to the totals."""
        groups = [group for group in groups if group[2]]
        if groups:
            self.events += 1
            self.entries.append(Entry(self.events, now, groups))
            totals.count(self.totals, groups)
            if self.followers:
                self.tell(self.followers, None)

    def post(self) -> None:
        """Send what the step collected. Deliveries run after the step, on the listeners' own loops."""
        box, self.outbox = self.outbox, {}
        for name, items in box.items():
            if name in self.mail:
                loop, deliver = self.mail[name]
                loop.call_soon_threadsafe(deliver, items)

    def forget_watches(self, name: str) -> None:
        self.followers.discard(name)
        for readers in self.readers.values():
            readers.discard(name)
        for rows in (self.jobs, self.nodes):
            for row in rows.values():
                if row.watchers:
                    row.watchers.discard(name)
