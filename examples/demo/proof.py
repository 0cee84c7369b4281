"""The proof that nothing was lost: the store's records, its event stream and the ledger must tell the same story."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rich.table import Table

from examples.demo import ledger
from examples.demo.tasks import AFTER, CALLBACK, STEPS, app, charge
from windlass import Event, JobInfo, State, WorkflowInfo

TERMINAL = frozenset(str(state) for state in State if state.terminal)
WORKFLOW_ENDS = frozenset(f"workflow_{state}" for state in ("succeeded", "failed", "cancelled"))
MODULE = charge.name.rpartition(".")[0]

Orders = dict[int, WorkflowInfo | None]


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
    orders = {number: await app.workflow(f"order:{number}").info() for number in accepted}
    events = [event async for event in app.events(since="0", follow=False)]
    proof = Proof()
    _orders(proof, orders, jobs)
    _settles(proof, orders, jobs, events)
    _steps(proof, orders, jobs)
    _effects(proof, jobs)
    _troubles(proof, jobs, events)
    _recovery(proof, jobs, events, kill)
    return proof


def _orders(proof: Proof, orders: Orders, jobs: dict[str, JobInfo]) -> None:
    finished, failed = _ended(orders, State.SUCCEEDED), _ended(orders, State.FAILED)
    whole = len(finished) + len(failed) == len(orders)
    proof.add("orders accepted = finished + failed", f"{len(orders)} = {len(finished)} + {len(failed)}", whole)
    hanging = [n for n, order in orders.items() if order is None or order.state is State.RUNNING]
    proof.add("workflows still under way", ", ".join(map(str, hanging)) or 0, not hanging)
    unfinished = [job.id for job in jobs.values() if not job.state.terminal]
    proof.add("jobs still under way", ", ".join(unfinished) or 0, not unfinished)


def _ended(orders: Orders, state: State) -> list[int]:
    return [number for number, order in orders.items() if order is not None and order.state is state]


def _settles(proof: Proof, orders: Orders, jobs: dict[str, JobInfo], events: list[Event]) -> None:
    """Every job and every workflow came to its end once: a second end would be a zombie's late write let through."""
    ends = Counter((event.job, event.kind) for event in events if event.kind in TERMINAL)
    proof.add("jobs, settled once each", len(jobs), ends == Counter((id, str(job.state)) for id, job in jobs.items()))
    over = Counter((event.job, event.kind) for event in events if event.kind in WORKFLOW_ENDS)
    expected = Counter((order.id, f"workflow_{order.state}") for order in orders.values() if order)
    proof.add("workflows, ended once each", len(orders), over == expected)


def _steps(proof: Proof, orders: Orders, jobs: dict[str, JobInfo]) -> None:
    """What the workflows say and what their jobs say must be the same."""
    wrong = [id for number in _ended(orders, State.SUCCEEDED) for id in _wrong_in_finished(number, jobs)]
    wrong += [id for number in _ended(orders, State.FAILED) for id in _wrong_in_failed(number, jobs)]
    wrong += sorted(jobs.keys() - {f"{step}:{number}" for step in (*STEPS, CALLBACK) for number in orders})
    proof.add("jobs that are not as their workflow says", ", ".join(wrong) or 0, not wrong)
    for job in jobs.values():
        if job.state is State.SKIPPED and not job.id.startswith(CALLBACK):
            proof.add(f"skipped {job.id}", job.reason)


def _wrong_in_finished(number: int, jobs: dict[str, JobInfo]) -> list[str]:
    """All steps succeeded, and nobody apologised."""
    expected = {f"{step}:{number}": State.SUCCEEDED for step in STEPS} | {f"{CALLBACK}:{number}": State.SKIPPED}
    return [id for id, state in expected.items() if id not in jobs or jobs[id].state is not state]


def _wrong_in_failed(number: int, jobs: dict[str, JobInfo]) -> list[str]:
    """One step is dead, those that need it are skipped and name it, the others and the apology succeeded."""
    found = {step: jobs.get(f"{step}:{number}") for step in (*STEPS, CALLBACK)}
    dead = [step for step, job in found.items() if job is not None and job.state is State.FAILED]
    if len(dead) != 1 or dead[0] == CALLBACK:
        return [f"order:{number}"]
    reason = f"{MODULE}.{dead[0]} {dead[0]}:{number} failed"
    wrong = []
    for step, job in found.items():
        state = State.FAILED if step in dead else State.SKIPPED if step in AFTER[dead[0]] else State.SUCCEEDED
        if job is None or job.state is not state or (state is State.SKIPPED and job.reason != reason):
            wrong.append(f"{step}:{number}")
    return wrong


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
