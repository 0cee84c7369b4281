"""The rules a story must keep, checked once it is over. They compare what the store says with what the programs saw."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from windlass.core.event import Event, expand
from windlass.core.job import State
from windlass.core.lifecycle import CRASHED, LEASE_LOST
from windlass.testing.simulation.process import BEAT
from windlass.testing.simulation.workflows import workflows_end_well

if TYPE_CHECKING:
    from windlass.testing.simulation.world import World

AGAIN = frozenset({"retried", "snoozed", "released", "lost"})
ENDS = frozenset({"succeeded", "failed", "cancelled"})


def violations(world: World) -> list[str]:
    """Everything that went wrong, in words; the profile first, if anything did."""
    lives = Lives(world)
    found = [
        *world.history.wrong, *lives.wrong, *nothing_is_lost(world), *counts_are_exact(world),
        *executions_are_explained(world, lives), *settles_are_final(world), *poison_is_alone(world),
        *rows_are_buried(world), *workflows_end_well(world),
    ]  # fmt: skip
    return [f"({world.profile.name})", *found] if found else []


class Lives:
    """Every job's life as the event stream tells it: who may do what, and when."""

    def __init__(self, world: World) -> None:
        self.wrong: list[str] = []
        self.starts: defaultdict[str, list[str]] = defaultdict(list)
        self.kinds: Counter[tuple[str, str]] = Counter()
        self._state: dict[str, str] = {}
        self._holder: dict[str, str] = {}
        last = 0
        for entry in world.hub.entries:
            if entry.at < last:
                self.wrong.append(f"the store's clock went back from {last} to {entry.at}")
            last = entry.at
            for event in expand(entry):
                if event.job and not event.kind.startswith("workflow_"):
                    self._step(event)

    def _step(self, event: Event) -> None:
        job, kind = event.job, event.kind
        self.kinds[job, kind] += 1
        before = self._state.get(job, "new")
        after = self._next(event, before)
        if after is None:
            holder = f" by {self._holder[job]}" if before == "running" else ""
            self.wrong.append(f"{job} was {before}{holder} when it was {kind} by {event.worker or 'the store'}")
            return
        self._state[job] = after

    def _next(self, event: Event, before: str) -> str | None:
        """The state after an event, or None when it may not happen now."""
        job, kind = event.job, event.kind
        if kind == "enqueued":
            return "pending" if before == "new" else None
        if kind == "duplicate":
            return before if before != "new" else None
        if kind == "started":
            self._holder[job] = event.worker
            self.starts[job].append(event.worker)
            return "running" if before in ("pending", "skipped") else None  # reopening is no event
        if kind == "replayed":
            return "pending" if before == "over" else None
        if kind == "skipped":
            return "skipped" if before in ("pending", "skipped", "over") else None
        own = before == "running" and self._holder[job] == event.worker
        if kind in AGAIN:
            return "pending" if own else None
        # Without a worker's settle a job ends only while nobody runs it: cancelled, expired, quarantined.
        return "over" if kind in ENDS and (own or (before in ("pending", "skipped") and kind != "succeeded")) else None


def nothing_is_lost(world: World) -> Iterator[str]:
    jobs = world.hub.jobs
    for id in sorted(world.history.accepted):
        if id not in jobs:
            yield f"{id} was accepted and is gone"
    for id, job in jobs.items():
        if id not in world.history.sent:
            yield f"{id} came from nowhere"
        if not job.state.terminal:
            yield f"{id} is {job.state} for ever (worker {job.worker or 'none'}, {job.crashes} crashes)"


def counts_are_exact(world: World) -> Iterator[str]:
    real: defaultdict[str, Counter[State]] = defaultdict(Counter)
    for job in world.hub.jobs.values():
        real[job.queue][job.state] += 1
    for queue, counts in world.hub.counts.items():
        if +counts != real[queue] or any(count < 0 for count in counts.values()):
            yield f"queue {queue} counts {dict(counts)}, but holds {dict(real[queue])}"


def executions_are_explained(world: World, lives: Lives) -> Iterator[str]:
    history = world.history
    for (id, epoch, worker), times in Counter(history.executed).items():
        if times > 1:
            yield f"{id} was run {times} times under one claim ({epoch})"
        if lives.starts[id][epoch - 1 : epoch] != [worker]:
            yield f"{id} was run by {worker} under claim {epoch}, which the store did not grant it"
    for id in world.specs:
        released, lost = lives.kinds[id, "released"], lives.kinds[id, "lost"]
        if released > history.let_go[id]:
            yield f"{id} was taken back {released} times, but let go of {history.let_go[id]} times"
        if history.refused[id] > released + lost:
            yield f"{id} was refused {history.refused[id]} times, but taken back or lost {released + lost} times"


def settles_are_final(world: World) -> Iterator[str]:
    ends: defaultdict[tuple[str, int], list[tuple[str, bytes | None]]] = defaultdict(list)
    for id, run, to, _, result in world.history.settled:
        if State(to).terminal:
            ends[id, run].append((to, result))
    for id, job in world.hub.jobs.items():
        if job.state is State.SUCCEEDED and not (job.result or b"").endswith(f'/{job.epoch}"'.encode()):
            yield f"{id} was claimed {job.epoch} times and has the result of an earlier claim: {job.result!r}"
    for (id, run), told in ends.items():
        known = world.hub.jobs.get(id)
        if len(told) > 1:
            yield f"run {run} of {id} was settled {len(told)} times: {told}"
        elif known is not None and known.run == run and (known.state, known.result) != told[0]:
            yield f"run {run} of {id} was settled as {told[0]}, but is {(str(known.state), known.result)}"


def poison_is_alone(world: World) -> Iterator[str]:
    for id, job in world.hub.jobs.items():
        spec = world.specs[id]
        quarantined = job.state is State.FAILED and job.reason in (CRASHED, LEASE_LOST)
        if spec.poison and job.state is State.SUCCEEDED:
            yield f"{id} is poison and has succeeded"
        if quarantined != (job.crashes >= job.max_crashes):
            yield f"{id} has {job.crashes} crashes and is {job.state}"
        if quarantined and not spec.poison and world.profile.name == "poison":
            yield f"{id} is innocent and in quarantine"


def rows_are_buried(world: World) -> Iterator[str]:
    living = {process.id for process in world.processes if process.alive}
    for worker, row in world.hub.workers.items():
        # A late beat of a worker long gone counts as a first one, and its row stays for a lease.
        if worker not in living and row.lease_until + 2 * BEAT < world.hub.clock.last:
            yield f"{worker} is over and still in the books"
