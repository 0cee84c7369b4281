"""A worker and the circuit breakers of its tasks: which jobs may not start, and what the ended ones mean for their
breakers.

While a breaker is open, a gate in the store keeps the jobs that it *holds*. This module asks about the jobs whose
breakers let them fail or drop them instead, and reports the outcomes of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.core.lifecycle import Failed, Outcome, Stopped, Succeeded
from windlass.errors import BreakerOpen
from windlass.worker.runner import Run, judge

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.limits.breakers import Breaker


class BreakerGuards:
    """``asked``: the tasks whose jobs must ask their breaker before they start."""

    def __init__(self, app: Windlass) -> None:
        named = {task.name: task.layer.get("breaker") for task in app.tasks.values()}
        self._breakers: dict[str, Breaker] = {task: app.breaker(name) for task, name in named.items() if name}
        self.asked = frozenset(task for task, breaker in self._breakers.items() if breaker.settings.when_open != "hold")
        self._inside: dict[str, Breaker] = {}

    def __bool__(self) -> bool:
        return bool(self._breakers)

    async def admit(self, run: Run) -> Outcome | None:
        """None if the job may start; else the outcome it gets instead."""
        breaker = self._breakers[run.claim.task]
        await breaker.look()
        try:
            breaker.enter()
        except BreakerOpen as error:
            if breaker.settings.when_open == "fail":
                return judge(run, error)
            return Stopped(str(error))
        self._inside[run.claim.id] = breaker
        return None

    def left(self, run: Run, outcome: Outcome) -> None:
        """Report a run that is over. Only a success or the task's own error counts."""
        breaker = self._inside.pop(run.claim.id, None)
        if breaker is not None:
            breaker.leave()
        breaker = self._breakers.get(run.claim.task)
        if breaker is not None and type(outcome) is Succeeded:
            breaker.report(ok=1)
        elif breaker is not None and type(outcome) is Failed and outcome.trips:
            breaker.report(failed=1)
