"""Damaged rows of a SQLite file: a job alone becomes a dead letter, what else cannot be read harms nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from windlass.core.job import NewJob, State
from windlass.core.lifecycle import Succeeded, decide
from windlass.core.terms import Terms
from windlass.store.base import StoreSettings
from windlass.store.jobs import Action, Change, Declared, Presence, Query, Want
from windlass.store.sqlite import SQLiteStore, mending
from windlass.store.sqlite.damage import TABLES
from windlass.testing.conformance import ManualClock

KINDS = {
    "bytes": "x'c1ff00fe'", "no text": "CAST(x'c1ff00fe' AS TEXT)", "nonsense": "'{{nonsense'", "below": "-7",
    "most": "9223372036854775807", "fraction": "1.5",
}  # fmt: skip
JOB_COLUMNS = [
    "state", "hold", "place", "worker", "seq", "run", "epoch", "attempt", "crashes", "snoozes", "cancel", "watched",
    "logged", "bucket", "node", "priority", "version", "max_crashes", "crash_delay", "expire_to", "enqueued_at",
    "due_at", "expires_at", "started_at", "finished_at", "aside_at", "number", "lane", "terms", "id", "task", "queue",
    "keep_done", "keep_failed", "reason", "fingerprint", "progress", "payload", "meta", "result", "error",
]  # fmt: skip
GOOD = ["a", "b", "keyed", "ordered", "late"]
PRESENCE = Presence(id="w1", queues=["q"], declares={"*q": Declared()}, lease=600_000)


class Site:
    """A store, a worker driven by hand, and a second connection that does the damage."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.store = SQLiteStore(f"sqlite:///{path}?durability=normal", StoreSettings(), self.clock)
        self.path, self.seq, self.ran = path, 0, list[str]()

    def sql(self, text: str, *values: Any) -> list[Any]:
        other = apsw.Connection(str(self.path))
        try:
            return list(other.execute(text, values))
        finally:
            other.close()

    async def begin(self, *bad: str) -> None:
        await self.store.open()
        await self.store.beat(PRESENCE, 0, [])
        await self.store.insert([job("a"), *map(job, bad), job("b")])
        await self.store.insert([job("keyed", terms=Terms(key="k", unique="u")), job("late", delay=1_000)])
        await self.store.insert([job("ordered", terms=Terms(key="z", ordered=True))])

    async def exchange(self, moves: Any = (), want: int = 100) -> list[Any]:
        self.seq += 1
        reply = await self.store.exchange("w1", self.seq, list(moves), Want([("q", want)], want))
        assert not reply.gone
        assert not set(reply.refused) & set(GOOD)
        return reply.claims

    async def run_all(self, rounds: int = 5) -> None:
        """A worker's life: claims, settles, beats and sweeps. No call fails."""
        for _ in range(rounds):
            claims = await self.exchange()
            self.ran += [claim.id for claim in claims]
            await self.exchange([decide(claim, Succeeded(b"1")) for claim in claims], 0)
            assert not (await self.store.beat(PRESENCE, self.seq, [])).gone
            await self.store.sweep()
            self.clock.advance(400)

    async def look(self) -> dict[str, Any]:
        """Every way to look works. All jobs by id."""
        store = self.store
        for state in State:
            await store.find(Query(limit=100, states=(state,)))
        for call in (store.queues, store.workers, store.faults, store.totals, store.info, store.gates, store.graphs):
            await call()
        await store.events(0)
        page = await store.find(Query(limit=500))
        found = await store.get([one.id for one in page.jobs])
        assert [one and one.id for one in found] == [one.id for one in page.jobs]
        for one in page.jobs:
            await store.lines(one.id)
        return {one.id: one for one in page.jobs}

    async def others_ran_once(self) -> dict[str, Any]:
        jobs = await self.look()
        assert sorted(id for id in self.ran if id in GOOD) == sorted(GOOD)
        assert {jobs[id].state for id in GOOD} == {State.SUCCEEDED}
        return jobs


def job(id: str, **fields: Any) -> NewJob:
    return NewJob(id=id, task="t", queue="q", payload=b"[1]", **fields)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path / "jobs.db")
    yield site
    await site.store.close()


@pytest.mark.parametrize("kind", list(KINDS))
async def test_a_damaged_column_of_a_job_harms_that_job_alone(site: Site, kind: str) -> None:
    bad = [f"bad-{column}" for column in JOB_COLUMNS]
    await site.begin(*bad)
    for column in JOB_COLUMNS:
        site.sql(f"UPDATE jobs SET {column} = {KINDS[kind]} WHERE id = ?", f"bad-{column}")
    await site.run_all()
    jobs = await site.others_ran_once()
    assert len(jobs) == len(bad) + len(GOOD)
    for id, one in jobs.items():
        assert id in site.ran or one.reason == "corrupt record" or one.queue != "q", one
        if one.reason == "corrupt record":
            assert (one.state, one.fingerprint) == (State.FAILED, "corrupt-record")
            assert b"cannot be read" in (one.error or b"")
    assert {queue.name: queue.counts for queue in await site.store.queues()}["q"]["succeeded"] == sum(
        one.state is State.SUCCEEDED and one.queue == "q" for one in jobs.values()
    )


@pytest.mark.parametrize("column", ["payload", "meta"])
async def test_its_bytes_are_kept_and_it_can_be_got_rid_of(site: Site, column: str) -> None:
    await site.begin("bad")
    site.sql(f"UPDATE jobs SET {column} = x'c1ff00fe' WHERE id = 'bad'")
    await site.run_all()
    jobs = await site.others_ran_once()
    assert (jobs["bad"].state, jobs["bad"].reason) == (State.FAILED, "corrupt record")
    [(source, record)] = site.sql("SELECT source, record ->> ? FROM corrupt", column)
    assert (source, record) == ("jobs", "X'C1FF00FE'")
    [warning] = [line for line in (await site.store.info()).warnings if "damaged" in line]
    assert warning.startswith("1 damaged record")
    events = [
        row
        for entry in await site.store.events(0)
        for kind, _, rows in entry.groups
        if kind == "failed"
        for row in rows
    ]
    assert [row[0] for row in events] == ["bad"]
    assert (await site.store.change(Change(action=Action.DELETE), ["bad"])).changed == ["bad"]
    assert "bad" not in await site.look()


@pytest.mark.parametrize("call", ["get", "find", "beat", "sweep", "watch"])
async def test_whoever_comes_upon_it_first_goes_on(site: Site, call: str) -> None:
    await site.begin("bad")
    site.sql("UPDATE jobs SET enqueued_at = 'x', terms = x'00' WHERE id = 'bad'")
    calls = {
        "get": lambda: site.store.get(["a", "bad"]), "find": lambda: site.store.find(Query()),
        "beat": lambda: site.store.beat(PRESENCE, 0, []), "sweep": site.store.sweep,
        "watch": lambda: site.store.watch("c", ["a", "bad"]),
    }  # fmt: skip
    await calls[call]()
    await site.run_all()
    assert (await site.others_ran_once())["bad"].reason == "corrupt record"


@pytest.mark.parametrize("column", ["run", "epoch", "seq", "payload", "attempt", "crashes", "terms", "error"])
@pytest.mark.parametrize("kind", ["bytes", "no text", "nonsense"])
async def test_a_job_that_is_damaged_while_it_runs(site: Site, column: str, kind: str) -> None:
    await site.begin("bad")
    claims = await site.exchange()
    site.ran += [claim.id for claim in claims]
    site.sql(f"UPDATE jobs SET {column} = {KINDS[kind]} WHERE id = 'bad'")
    await site.exchange([decide(claim, Succeeded(b"1")) for claim in claims], 0)
    await site.run_all()
    jobs = await site.others_ran_once()
    assert jobs["bad"].state in (State.SUCCEEDED, State.FAILED)


@pytest.mark.parametrize("how", ["leave", "crash"])
async def test_a_damaged_job_of_a_worker_that_ends(site: Site, how: str) -> None:
    await site.begin("bad")
    await site.exchange()
    site.sql("UPDATE jobs SET crashes = x'00', crash_delay = 'x' WHERE id = 'bad'")
    await site.store.leave("w1", crashed=how == "crash")
    jobs = await site.look()
    assert jobs["bad"].state is State.FAILED
    assert {jobs[id].state for id in ("a", "b")} == {State.READY}


async def test_a_result_that_is_damaged_is_never_taken_for_one(site: Site) -> None:
    await site.begin("bad")
    await site.run_all()
    site.sql("UPDATE jobs SET result = CAST(x'ff' AS TEXT) WHERE id = 'bad'")
    jobs = await site.look()
    assert (jobs["bad"].state, jobs["bad"].result) == (State.FAILED, None)
    [queue] = await site.store.queues()
    assert queue.counts == {"succeeded": len(GOOD), "failed": 1}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "table", [name for name in TABLES if name not in ("jobs", "workers", "nodes", "links", "parts")]
)
async def test_what_is_no_job_harms_nobody(site: Site, table: str, kind: str) -> None:
    await site.begin()
    columns = site.sql("SELECT name FROM pragma_table_info(?) WHERE name <> 'n' AND name <> 'seq'", table)
    for (column,) in columns:
        try:
            site.sql(f"UPDATE OR REPLACE {table} SET {column} = {KINDS[kind]}")
        except (apsw.ConstraintError, apsw.MismatchError):
            continue
        await site.store.sweep()
    await site.run_all()
    await site.others_ran_once()


async def test_what_does_not_come_of_damage_is_not_looked_for_over_and_over(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.begin()
    looked = []
    real = mending.mend
    monkeypatch.setattr("windlass.store.sqlite.thread.mend", lambda tx: looked.append(1) or real(tx))
    monkeypatch.setattr("windlass.store.sqlite.thread.PAUSES", 1_000_000)
    for _ in range(5):
        with pytest.raises(Exception, match="surrogates"):
            await site.store.get(["half \ud83d"])
    assert len(looked) == 1
