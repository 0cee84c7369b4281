"""The world of one seed: time, the network, the store, the programs in it and what happens to them."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from windlass.core.job import Claim, ErrorInfo, NewJob
from windlass.core.keep import Keep
from windlass.core.lifecycle import Failed, Outcome, Snoozed, Succeeded
from windlass.errors import StoreError
from windlass.store.answers import Accept
from windlass.store.base import StoreSettings
from windlass.store.jobs import Action, Change
from windlass.store.memory import MemoryStore
from windlass.testing.simulation.process import LEASE, Party, Process, drive
from windlass.testing.simulation.workflows import Submission, are_over, make_workflow

START = 1_800_000_000_000
QUIET = 60_000
"""Faults end here, in milliseconds of the story."""
PATIENCE = 600_000
"""So long the rest may take before it counts as never."""
AFTERMATH = 40_000
"""So long the story goes on when all jobs are over, for zombies to return."""

QUEUES = ("a", "b")


class Profile(NamedTuple):
    """What may happen in a story. ``backstop``: workers listen to what a heartbeat says of waiting work."""

    name: str
    lossy: bool = False
    poison: bool = False
    troubles: tuple[str, ...] = ()
    backstop: bool = True


ALL = ("crash", "pause", "cut", "jump", "stop", "cancel", "replay", "promote")
PROFILES = (
    Profile("chaos", lossy=True, poison=True, troubles=ALL),
    Profile("chaos", lossy=True, troubles=ALL),
    Profile("zombies", troubles=("pause", "pause", "cut", "cancel")),
    Profile("lossy", lossy=True, troubles=("cut", "cut", "cancel", "replay")),
    Profile("clock", troubles=("jump", "jump", "jump", "crash", "stop")),
    Profile("poison", poison=True, troubles=("stop", "cancel", "promote")),
    # Nothing is lost in this profile, so wake-ups and due times alone must find all work.
    Profile("calm", troubles=("stop", "cancel", "replay", "promote"), backstop=False),
)


class JobSpec(NamedTuple):
    """What a job does when it runs."""

    duration: int
    failures: int = 0
    retries: int = 2
    snoozes: int = 0
    poison: bool = False

    def outcome(self, claim: Claim, worker: str, delay: int) -> Outcome:
        if claim.snoozes < self.snoozes:
            return Snoozed(delay)
        if claim.attempt < self.failures:
            retry_in = delay if claim.attempt < self.retries else None
            return Failed(ErrorInfo("Oops", f"attempt {claim.attempt}"), retry_in)
        return Succeeded(f'"{worker}/{claim.epoch}"'.encode())


class History:
    """What the simulated programs know of the story, to be compared with what the store says."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.accepted: set[str] = set()
        self.executed: list[tuple[str, int, str]] = []
        self.settled: list[tuple[str, int, str, str, bytes | None]] = []
        self.late = 0
        self.refused: Counter[str] = Counter()
        self.let_go: Counter[str] = Counter()
        self.ended: set[str] = set()
        self.beaten: dict[str, int] = {}
        self.jumps: list[tuple[int, int]] = []
        self.wrong: list[str] = []


class World:
    """``play()`` plays the story of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.profile = self.rng.choice(PROFILES)
        self.t = self.skew = self._count = self._births = 0
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        settings = StoreSettings(keep=Keep(), events_kept=1_000_000)
        self.store = MemoryStore("memory://", settings, clock=lambda: START + self.t + self.skew)
        self.hub = self.store.hub
        self.history = History()
        self.specs: dict[str, JobSpec] = {}
        self.processes: list[Process] = []
        self.client = Party(self)
        self.sweep_limit = self.rng.choice((1, 2, 1_000))
        self.workflows: list[str] = []
        self.hub.work = self.rng.choice((1, 3, self.hub.work))

    def at(self, delay: int, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._agenda, (self.t + delay, self._count, action))

    def play(self) -> None:
        self._set_the_scene()
        latest = end = QUIET + PATIENCE
        while self._agenda:
            if self._agenda[0][0] > end:
                if end == latest or self._is_over():
                    return
                end = latest  # a late message has started something again
            self.t, _, action = heapq.heappop(self._agenda)
            action()
            if end == latest and self.t >= QUIET and self._is_over():
                end = min(latest, self.t + AFTERMATH)

    def _is_over(self) -> bool:
        jobs = self.hub.jobs
        return (
            self.history.accepted == self.history.sent == self.specs.keys()
            and all(job.state.terminal for job in jobs.values())
            and are_over(self)
        )

    # -- the scene

    def _set_the_scene(self) -> None:
        rng = self.rng
        for _ in range(rng.randint(2, 4)):
            self.at(rng.randint(0, 3_000), self.spawn)
        jobs = rng.randint(6, 14)
        for n in range(jobs):
            poison = self.profile.poison and n < rng.randint(1, 2)
            self.specs[f"job-{n}"] = self._make_spec(poison)
            self.at(rng.randint(0, 30_000), partial(self._insert, self._make_job(f"job-{n}")))
        for n in range(rng.choice((0, 0, 1, 2))):
            self._plan_workflow(f"flow-{n}")
        for _ in range(rng.randint(3, 9)):
            trouble = rng.choice(self.profile.troubles)
            self.at(rng.randint(1_000, QUIET - 1), getattr(self, f"_{trouble}"))

    def _plan_workflow(self, id: str) -> None:
        workflow = make_workflow(self.rng, id, QUEUES)
        self.workflows.append(id)
        self.specs |= {job: self._make_spec(poison=False) for job in workflow.jobs}
        self.at(self.rng.randint(0, 30_000), Submission(self, workflow).ask)

    def _make_spec(self, poison: bool) -> JobSpec:
        rng = self.rng
        duration = rng.randint(15_000, 40_000) if rng.random() < 0.15 else rng.randint(0, 3_000)
        if poison:
            return JobSpec(rng.randint(0, 3_000), poison=True)
        return JobSpec(duration, failures=rng.choice((0, 0, 0, 1, 2, 9)), snoozes=rng.choice((0, 0, 0, 0, 1, 2)))

    def _make_job(self, id: str) -> NewJob:
        rng = self.rng
        return NewJob(
            id=id, task="t", queue=rng.choice(QUEUES), payload=b"{}", priority=rng.randint(0, 9),
            delay=rng.randint(1, 20_000) if rng.random() < 0.25 else 0,
            expires_in=rng.randint(5_000, 40_000) if rng.random() < 0.05 else 0,
        )  # fmt: skip

    def spawn(self) -> None:
        self.processes.append(Process(self))

    def new_worker_id(self) -> str:
        self._births += 1
        return f"w{self._births}"

    # -- the network

    @property
    def lossy(self) -> bool:
        return self.profile.lossy and self.t < QUIET

    def send(self, sender: Party, call: Callable[[], Any], reply: Callable[[Any], None] | None = None) -> None:
        """A request to the store; it or its reply may be lost, and a copy of it may come later."""
        rng = self.rng
        there = rng.randint(1, 30)
        lost = rng.random()
        if sender.is_cut or (self.lossy and lost < 0.06):
            return
        answered = not (self.lossy and lost < 0.12)
        self.at(there, lambda: self._arrive(sender, call, reply if answered else None))
        if self.lossy and rng.random() < 0.06:
            self.at(there + rng.randint(1, 20_000), lambda: self._arrive(sender, call, None))

    def _arrive(self, sender: Party, call: Callable[[], Any], reply: Callable[[Any], None] | None) -> None:
        try:
            result = call()
        except StoreError as error:
            result = error
        if reply is not None and not sender.is_cut:
            answer = reply
            sender.later(self.rng.randint(1, 30), lambda: answer(result))

    def deliver_mail(self, to: Process, worker: str) -> None:
        """Deliver a wake-up after its time on the network."""
        if not (self.lossy and self.rng.random() < 0.15) and not to.is_cut:
            to.later(self.rng.randint(1, 30), lambda: to.on_mail(worker))

    # -- the client

    def _insert(self, job: NewJob) -> None:
        """Repeat the insert until it is answered: ids make that safe."""
        if job.id in self.history.accepted:
            return
        self.history.sent.add(job.id)
        self.send(self.client, lambda: drive(self.store.insert([job])), lambda reply: self._inserted(job, reply))
        self.client.later(1_000, lambda: self._insert(job))

    def _inserted(self, job: NewJob, reply: Any) -> None:
        if reply[0].status in (Accept.ACCEPTED, Accept.DUPLICATE):
            self.history.accepted.add(job.id)

    def _change(self, action: Action) -> None:
        change = Change(action=action, reason=f"{action} by the client")
        id = self.rng.choice(sorted(self.specs) + self.workflows * 3)
        self.send(self.client, lambda: drive(self.store.change(change, [id])))

    def _cancel(self) -> None:
        self._change(Action.CANCEL)

    def _replay(self) -> None:
        self._change(Action.RETRY)

    def _promote(self) -> None:
        self._change(Action.PROMOTE)

    # -- the troubles

    def _victim(self) -> Process | None:
        living = [process for process in self.processes if process.alive]
        return self.rng.choice(living) if living else None

    def _crash(self) -> None:
        if (victim := self._victim()) is not None:
            victim.die()

    def _stop(self) -> None:
        if (victim := self._victim()) is not None:
            victim.stop()

    def _pause(self) -> None:
        if (victim := self._victim()) is not None:
            victim.paused_until = self.t + self.rng.randint(1_000, 40_000)

    def _cut(self) -> None:
        if (victim := self._victim()) is not None:
            victim.cut_until = self.t + self.rng.randint(1_000, 30_000)

    def _jump(self) -> None:
        """The host's clock is set, or the whole machine sleeps."""
        rng = self.rng
        by = rng.choice((rng.randint(100, 2_000), rng.randint(10_000, 120_000), 3_600_000))
        if rng.random() < 0.4:
            self.skew -= by
        else:
            self.skew += by
            # A jump of up to half a lease may cost live workers time; a larger one must cost nothing.
            self.history.jumps.append((self.t, min(by, LEASE // 2)))
