"""The gates of one exchange, those of keys among them: what keeps a job, and what a claim of it is charged to."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.core.limits import OPEN, SHUT, Rate, arrive, fits, limiting, rate_opens
from windlass.core.terms import Terms, key_gate, key_limits, queue_gate
from windlass.store.machine.flow.candidates import Candidate
from windlass.store.machine.tx import Tx, decode, encode

_terms = msgspec.json.Decoder(Terms).decode


def lane_name(job: Candidate, gated: bool) -> str:
    return job.lane or (f"t{job.task}" if gated else "")


class KeyGate:
    """What a key holds, and its rate."""

    __slots__ = ("changed", "held", "tat")

    def __init__(self, held: int, tat: int) -> None:
        self.held, self.tat, self.changed = held, tat, False


class Gating:
    """The gates that one exchange asks and charges."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self._keys: dict[tuple[str, str], KeyGate] = {}
        self._terms: dict[int, Terms | None] = {}
        """What was decoded once, by job."""

    def terms_of(self, job: Candidate) -> Terms | None:
        if job.terms is None:
            return None
        return self._terms.pop(job.n, None) or _terms(job.terms)

    def is_shut(self, queue: str, units: int = 1) -> bool:
        """Whether the queue's own gate is closed. That it was found so is kept, and somebody told when it opens."""
        if not self.tx.gates or self.is_open(queue, units):
            return False
        self.tx.book.find_closed(queue, units)
        return True

    def is_open(self, queue: str, units: int = 1) -> bool:
        return not self.tx.gates or self.tx.book.opens(queue_gate(queue), units) == OPEN

    def is_gated(self, task: str) -> bool:
        return bool(self.tx.gates) and task in self.tx.book.gated

    def closed(self, job: Candidate, terms: Terms | None) -> tuple[str, int] | None:
        """The first closed gate of a job besides its queue's, and when it opens."""
        found = self.tx.book.closed_for(job.task, terms) if self.tx.gates else None
        if found is not None or terms is None or not terms.key:
            return found
        limit, rate = self._of_key(job.queue, terms)
        if not limit and rate is None:
            return None
        key, gate = self._key(job.queue, terms.key), key_gate(job.queue, terms.key)
        if not fits(key.held, limit, terms.units):
            return gate, SHUT
        when = rate_opens(key.tat, self.tx.now, rate, terms.units)
        return None if when == OPEN else (gate, when)

    def charge(self, job: Candidate, terms: Terms | None) -> None:
        """A job starts: its gates hold so much more, and their rates are used."""
        if self.tx.gates:
            self.tx.book.charge_all(job.queue, job.task, terms)
        if terms is not None and terms.key:
            limit, rate = self._of_key(job.queue, terms)
            if limit or rate is not None:
                key = self._key(job.queue, terms.key)
                key.held += terms.units
                if rate is not None:
                    key.tat, _ = arrive(key.tat, self.tx.now * 1000, rate, terms.units)
                    key.changed = True

    def _of_key(self, queue: str, terms: Terms) -> tuple[int, Rate | None]:
        """The limit of a key, 0 for none, and its rate."""
        if not self.tx.gates:
            return terms.key_limit, limiting(terms.key_rate) if terms.key_rate is not None else None
        limit, rate = key_limits(self.tx.book.limits(queue_gate(queue)), terms)
        return limit or 0, limiting(rate)

    def _key(self, queue: str, key: str) -> KeyGate:
        if (queue, key) not in self._keys:
            self._read([(queue, key)])
        return self._keys[queue, key]

    def read_keys(self, jobs: Iterable[Candidate]) -> None:
        """What the keys of these jobs hold is read at once, where it matters."""
        keys = dict[tuple[str, str], None]()
        for job in jobs:
            terms = self._terms[job.n] = None if job.terms is None else _terms(job.terms)
            if terms is not None and terms.key and self._of_key(job.queue, terms) != (0, None):
                keys[job.queue, terms.key] = None
        missing = [key for key in keys if key not in self._keys]
        if missing:
            self._read(missing)

    def _read(self, keys: list[tuple[str, str]]) -> None:
        found = decode(self.tx.value(self.tx.sql.turns.KEYS, (encode(keys).decode(),)))
        self._keys.update(((queue, key), KeyGate(held, tat)) for queue, key, held, tat in found)

    def write(self) -> None:
        """The rates of keys that were used."""
        rows = [[*name, key.tat] for name, key in self._keys.items() if key.changed]
        if rows:
            self.tx.run(self.tx.sql.turns.SAVE_KEYS, (encode(rows).decode(),))
