"""What has happened so far, told from the event stream. Only for showing: the proof reads the store itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from examples.demo.tasks import CALLBACK, STEPS
from windlass import Event

Tell = Callable[[str], None]


class Story:
    """``done`` holds the orders that passed each step, ``finished`` and ``failed`` those whose workflow is over."""

    def __init__(self, expected: int, tell: Tell) -> None:
        self.expected, self._tell = expected, tell
        self.began = time.monotonic()
        self.accepted = self.retries = 0
        self.done: dict[str, set[str]] = {step: set() for step in (*STEPS, CALLBACK)}
        self.finished: set[str] = set()
        self.failed: set[str] = set()
        self.running: dict[str, str] = {}
        self.lost: set[str] = set()
        self.recovered: set[str] = set()

    @property
    def over(self) -> bool:
        """Every workflow has come to its end, and so have the callbacks, which nobody else waits for."""
        return len(self.finished) + len(self.failed) >= self.expected and self.done[CALLBACK] >= self.failed

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
        reason = (event.data or {}).get("reason") or "failed"
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
            self.tell(f"order {order}: {step} is a dead letter ({reason})")
        elif event.kind == "workflow_succeeded":
            self.finished.add(order)
        elif event.kind == "workflow_failed":
            self.failed.add(order)
            self.tell(f"order {order}: the workflow failed ({reason})")

    def _started(self, event: Event) -> None:
        self.running[event.job] = event.worker
        if event.job in self.lost - self.recovered:
            self.recovered.add(event.job)
