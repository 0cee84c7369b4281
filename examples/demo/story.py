"""What has happened so far, told from the event stream. Only for showing: the proof reads the store itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from examples.demo.tasks import STEPS
from windlass import Event

Tell = Callable[[str], None]


class Story:
    """``done`` holds the orders that passed each step, ``dead`` those that ended in the dead letters."""

    def __init__(self, expected: int, tell: Tell) -> None:
        self.expected, self._tell = expected, tell
        self.began = time.monotonic()
        self.accepted = self.retries = 0
        self.done: dict[str, set[str]] = {step: set() for step in STEPS}
        self.dead: set[str] = set()
        self.running: dict[str, str] = {}
        self.lost: set[str] = set()
        self.recovered: set[str] = set()

    @property
    def finished(self) -> int:
        return len(self.done[STEPS[-1]])

    @property
    def over(self) -> bool:
        return self.finished + len(self.dead) >= self.expected

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def load(self) -> Counter[str]:
        """Running jobs by worker."""
        return Counter(self.running.values())

    def tell(self, text: str) -> None:
        self._tell(f"{self.seconds:5.1f}s  {text}")

    def take(self, event: Event) -> None:
        step, _, order = event.job.partition(":")
        if event.kind == "started":
            self._started(event)
            return
        self.running.pop(event.job, None)
        if event.kind == "succeeded":
            self.done[step].add(order)
        elif event.kind == "retried":
            self.retries += 1
            self.tell(f"order {order}: {step} failed, tries again in {event.data['delay'] / 1000:.1f} s")
        elif event.kind == "lost":
            self.lost.add(event.job)
            self.tell(f"order {order}: {step} was lost with its process and is ready again")
        elif event.kind == "failed":
            self.dead.add(order)
            reason = (event.data or {}).get("reason") or "failed"
            self.tell(f"order {order}: {step} is a dead letter ({reason})")

    def _started(self, event: Event) -> None:
        self.running[event.job] = event.worker
        if event.job in self.lost - self.recovered:
            self.recovered.add(event.job)
