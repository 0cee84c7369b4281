"""The proof that nothing was lost: the store's records, its event stream and the ledger must tell the same story."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rich.table import Table

from examples.demo import ledger
from examples.demo.tasks import STEPS, app
from windlass import Event, JobInfo, State


@dataclass
class Kill:
    """The worker killed on the way, when (ms since the epoch), and the jobs it was running."""

    pid: int
    worker: str
    at: int
    stranded: list[str]


@dataclass
class Proof:
    """Rows to show, each with whether it holds."""

    rows: list[tuple[str, str, bool]] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        return [f"{what}: {found}" for what, found, holds in self.rows if not holds]

    def add(self, what: str, found: object, holds: bool = True) -> None:
        self.rows.append((what, str(found), holds))

    def table(self) -> Table:
        table = Table(title="Was anything lost?", title_justify="left")
        table.add_column("what", no_wrap=True)
        table.add_column("found", overflow="fold")
        table.add_column("holds", justify="center")
        for what, found, holds in self.rows:
            table.add_row(what, found, "yes" if holds else "NO", style="" if holds else "bold red")
        return table


async def every_job() -> list[JobInfo]:
    found: list[JobInfo] = []
    after = ""
    while True:
        page = await app.jobs(limit=1000, after=after)
        found += page.jobs
        after = page.cursor
        if not after:
            return found


async def prove(accepted: list[int], kill: Kill | None) -> Proof:
    """Compare what was accepted with what became of it."""
    jobs = {job.id: job for job in await every_job()}
    events = [event async for event in app.events(since="0", follow=False)]
    proof = Proof()
    _orders(proof, accepted, jobs)
    _settles(proof, jobs, events)
    _effects(proof, jobs)
    _troubles(proof, jobs, events)
    _recovery(proof, jobs, events, kill)
    return proof


def _orders(proof: Proof, accepted: list[int], jobs: dict[str, JobInfo]) -> None:
    last = STEPS[-1]
    finished = [n for n in accepted if (job := jobs.get(f"{last}:{n}")) and job.state is State.SUCCEEDED]
    dead = [n for n in accepted if any(_is_dead(jobs.get(f"{step}:{n}")) for step in STEPS)]
    whole = not set(finished) & set(dead) and len(finished) + len(dead) == len(accepted)
    proof.add("orders accepted = finished + dead", f"{len(accepted)} = {len(finished)} + {len(dead)}", whole)
    unfinished = [job.id for job in jobs.values() if job.state not in (State.SUCCEEDED, State.FAILED)]
    proof.add("jobs still under way", ", ".join(unfinished) or 0, not unfinished)


def _is_dead(job: JobInfo | None) -> bool:
    return job is not None and job.state is State.FAILED


def _settles(proof: Proof, jobs: dict[str, JobInfo], events: list[Event]) -> None:
    """Every job that succeeded did so once: a second success would be a zombie's late write let through."""
    settled = Counter(event.job for event in events if event.kind == "succeeded")
    succeeded = [id for id, job in jobs.items() if job.state is State.SUCCEEDED]
    exact = settled == Counter(succeeded)
    proof.add("succeeded jobs, settled once each", len(succeeded), exact)


def _effects(proof: Proof, jobs: dict[str, JobInfo]) -> None:
    effects = ledger.read()
    succeeded = {id for id, job in jobs.items() if job.state is State.SUCCEEDED}
    missing, extra = succeeded - effects.keys, effects.keys - succeeded
    proof.add("succeeded, but no effect in the ledger", ", ".join(sorted(missing)) or 0, not missing)
    proof.add("effect in the ledger, but no success", ", ".join(sorted(extra)) or 0, not extra)
    proof.add("effects asked for twice, had once", effects.repeats)


def _troubles(proof: Proof, jobs: dict[str, JobInfo], events: list[Event]) -> None:
    retried = Counter(event.job for event in events if event.kind == "retried")
    proof.add("retries after errors", f"{retried.total()} of {len(retried)} jobs")
    for job in jobs.values():
        if job.state is State.FAILED:
            charged = f", {job.crashes} crashes" if job.crashes else ""
            proof.add(f"dead letter {job.id}", f"{job.reason}{charged}")


def _recovery(proof: Proof, jobs: dict[str, JobInfo], events: list[Event], kill: Kill | None) -> None:
    if kill is None:
        proof.add("a worker was killed", "no", False)
        return
    names = ", ".join(kill.stranded)
    proof.add(f"running on worker {kill.pid} when killed", names)
    ended = [id for id in kill.stranded if id in jobs and jobs[id].state in (State.SUCCEEDED, State.FAILED)]
    proof.add("of these, ended by other workers", f"{len(ended)} of {len(kill.stranded)}", ended == kill.stranded)
    times = [again for id in kill.stranded if (again := _started_again(id, events, kill)) is not None]
    found = f"{min(times):.1f} to {max(times):.1f} s after the kill" if times else "never"
    proof.add("they started again", found, len(times) == len(kill.stranded))


def _started_again(id: str, events: list[Event], kill: Kill) -> float | None:
    """Seconds from the kill to the job's next start on another worker."""
    starts = [e.at for e in events if e.job == id and e.kind == "started" and e.worker != kill.worker]
    later = [at for at in starts if at >= kill.at]
    return (later[0] - kill.at) / 1000 if later else None
