"""What one exchange grants, and what it turns away: jobs as they are read, offered and written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from windlass.core import lifecycle
from windlass.core.job import Claim
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Want
from windlass.store.machine.codes import CANCELLED, FAILED, READY, RUNNING
from windlass.store.machine.flow.candidates import Candidate, candidates
from windlass.store.machine.graphs.lookups import Bequest, bequests
from windlass.store.machine.jobs.asides import declaring
from windlass.store.machine.jobs.expiry import expired_row
from windlass.store.machine.jobs.moves import shift
from windlass.store.machine.tx import Tx, Values, encode, ids_json
from windlass.store.skills import Skills

TASK_AND_QUEUE = attrgetter("task", "queue")


def brought(tx: Tx, jobs: Iterable[Candidate]) -> dict[int, Bequest]:
    """What graphs bring to these jobs, by node."""
    nodes = [job.node for job in jobs if job.node]
    return bequests(tx, nodes) if nodes else {}


class Grants:
    """The jobs that an exchange has granted so far, and those that it found and could not grant."""

    def __init__(self, tx: Tx, worker: int, skills: Skills, seq: int, want: Want) -> None:
        self.tx, self.worker, self.skills, self.seq = tx, worker, skills, seq
        self.total = min(want.total, MAX_BATCH)
        self.now = want.now
        """How many more jobs from lanes could start at once; -1 for all."""
        self.granted: list[Claim] = []
        self.more = False
        """The exchange has done as much as one may, and the worker is to come again at once."""
        self.alone = False
        """A lane had to give a job that runs alone: nothing else is granted then."""
        self.passed = False
        """A lane that was looked at came to wait at a gate, or a job was turned away: another lane may get on."""
        self.turned_away = 0
        self.opened: Counter[str] = Counter()
        """By queue, how many jobs of lanes that opened meanwhile may start."""
        self._unwritten: list[int] = []
        self._graphs: dict[int, Bequest] = {}

    @property
    def left(self) -> int:
        """How many more may be granted."""
        return self.total - len(self.granted)

    # -- reading

    def read(self, sql: str, values: Values) -> list[Candidate]:
        return candidates(self.tx.value(sql, values))

    def read_graphs(self, jobs: Iterable[Candidate]) -> None:
        """What graphs bring to these jobs, and whether they let them start."""
        self._graphs.update(brought(self.tx, jobs))

    # -- asking

    def is_expired(self, job: Candidate) -> bool:
        return 0 < job.expires_at <= self.tx.now

    def is_stopped(self, job: Candidate) -> bool:
        """Whether its graph lets nothing start any more."""
        return job.node in self._graphs and bool(self._graphs[job.node].stopping)

    def is_declared(self, job: Candidate) -> bool:
        return self.skills.takes(job.queue, job.task, job.version)

    def fits(self, job: Candidate) -> bool:
        """Whether nothing but gates could keep this worker from running it."""
        if self.is_expired(job) or self.is_stopped(job):
            return False
        return self.skills.takes(job.queue, job.task, job.version)

    # -- granting

    def offer(self, job: Candidate) -> bool:
        """Grant a job, if it fits."""
        if not self.fits(job):
            return False
        self.grant(job)
        return True

    def grant(self, job: Candidate) -> None:
        claim = job.claim(job.epoch + 1, self.seq, self.tx.now)
        self.granted.append(self._graphs[job.node].give(claim) if job.node in self._graphs else claim)
        self._unwritten.append(job.n)

    @property
    def unwritten(self) -> bool:
        return bool(self._unwritten)

    def write(self) -> None:
        """Write the grants so far into the jobs. The last ones are written along with the worker's row."""
        if self._unwritten:
            self.tx.run(self.tx.sql.claim.GRANT, (self.worker, self.seq, self.tx.now, self.take()))

    def write_turns(self, lanes: list[list[object]], plain: dict[str, int]) -> None:
        """Write the grants, what became of lanes that had their turns, and the turns of queues' plain orders."""
        values = (encode(lanes).decode(), encode(list(plain.items())).decode())
        self.tx.run(self.tx.sql.claim.TURN, (self.worker, self.seq, self.tx.now, self.take(), *values))

    def take(self) -> str:
        """The grants not yet written, which the caller will write, as JSON."""
        started = Counter(map(TASK_AND_QUEUE, self.granted[len(self.granted) - len(self._unwritten) :]))
        self.tx.add_up("started", started)
        for (_, queue), count in started.items():
            self.tx.count(queue, READY, -count)
            self.tx.count(queue, RUNNING, count)
        taken, self._unwritten = ids_json(self._unwritten), []
        return taken

    # -- turning away

    def turn_away(self, unfit: list[Candidate]) -> None:
        """End jobs that have expired or whose graphs were stopped; set those aside that the worker does not declare."""
        tx = self.tx
        stopped = [job for job in unfit if self.is_stopped(job)]
        expired = [job for job in unfit if not self.is_stopped(job) and self.is_expired(job)]
        strange = [job for job in unfit if not (self.is_stopped(job) or self.is_expired(job))]
        self._cancel(stopped)
        for job in expired:
            kind = "failed" if job.expire_to == FAILED else "cancelled"
            tx.record(kind, "", [[job.id, job.task, job.queue, {"reason": lifecycle.EXPIRED}]])
        shift(tx, (expired_row(job.n, job.expire_to, job.crashes, job.max_crashes) for job in expired))
        if strange:
            tx.run(tx.sql.claim.SET_ASIDE, (tx.now, ids_json(job.n for job in strange)))
        kinds = Counter((job.queue, job.task, job.version) for job in strange)
        tx.wake_all(((kind[0], count, declaring(*kind)) for kind, count in kinds.items()), but=self.worker)
        self.turned_away += len(unfit)
        # Bounded like every call; the worker is woken at once to go on.
        self.more = self.turned_away >= MAX_BATCH

    def _cancel(self, jobs: list[Candidate]) -> None:
        """Their graphs were stopped: they must not start."""
        rows = [(job, self._graphs[job.node].reason) for job in jobs]
        shift(self.tx, ([j.n, CANCELLED, 0, 0, reason, None, None, j.crashes, j.max_crashes] for j, reason in rows))
        news = [[job.id, job.task, job.queue, {"reason": reason}] for job, reason in rows]
        self.tx.record("cancelled", "", news)
