"""Numbers of several processes as one: what is added, what is kept of the dead, and what nobody listens to."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Summary

from tests.observe.metric_kit import scrape
from windlass.core.chart import CELLS, OTHER, Series
from windlass.observe import snapshots
from windlass.observe.families import as_metrics, as_text, read_registry
from windlass.observe.names import DEATHS, LOST
from windlass.observe.snapshots import Gathered, Snapshot, decode, describe, encode
from windlass.worker.supervisor_link import MOST_WAITING, SupervisorLink
from windlass.worker.worker_process import WorkerProcess


def process(n: int) -> CollectorRegistry:
    """What a process has that counted to ``n``."""
    registry = CollectorRegistry()
    Counter("c", "A counter", ["x"], registry=registry).labels('a"b\nc\\').inc(n)
    Gauge("g", "A gauge", registry=registry).set(n)
    Gauge("low", "The lowest", registry=registry, multiprocess_mode="min").set(n)
    Gauge("odd", "No number", registry=registry).set(math.inf if n > 1 else math.nan)
    Histogram("h", "A histogram", buckets=(1, 5), registry=registry).observe(n)
    Summary("s", "A summary", registry=registry).observe(n)
    Info("about", "What it is", registry=registry).info({"version": "1"})
    return registry


def words(n: int, **more: object) -> bytes:
    return encode(Snapshot(families=read_registry(process(n)), **more))  # type: ignore[arg-type]


def test_a_registry_comes_through_as_it_is() -> None:
    registry = process(3)
    assert scrape(as_text(as_metrics(read_registry(registry)))) == scrape(as_text(registry.collect()))


def test_processes_are_added_up_and_the_dead_leave_what_lasts() -> None:
    gathered = Gathered()
    gathered.heard(1, words(3, gauges={"windlass_worker_slots": 5}, counts={LOST: 1}))
    gathered.heard(2, words(4, gauges={"windlass_worker_slots": 5}, counts={LOST: 2}))
    both = scrape(describe(gathered.total()))
    counter = ("c_total", 'a"b\nc\\')
    assert (both[counter], both["g",], both["low",], both["s_sum",]) == (7, 7, 3, 7)
    assert (both["h_bucket", "5.0"], both["h_count",], both["about_info", "1"]) == (2, 2, 1)
    assert both["windlass_worker_slots",] == 10
    created = both["c_created", 'a"b\nc\\']
    gathered.gone(1, died=True)
    one = scrape(describe(gathered.total()))
    assert (one[counter], one["h_count",], one["s_count",], one["windlass_worker_lost_claims_total",]) == (7, 2, 2, 3)
    assert (one["g",], one["low",], one["windlass_worker_slots",]) == (4, 4, 5)
    assert one["c_created", 'a"b\nc\\'] == created
    assert one[DEATHS,] == 1
    gathered.gone(2)
    none = scrape(describe(gathered.total()))
    assert none[counter] == 7
    assert ("g",) not in none


def test_a_metric_that_changed_its_kind_is_what_the_living_say() -> None:
    gathered, registry = Gathered(), CollectorRegistry()
    gathered.heard(1, words(3))
    gathered.gone(1)
    Gauge("c", "Now a gauge", registry=registry).set(1)
    gathered.heard(2, encode(Snapshot(families=read_registry(registry))))
    assert scrape(describe(gathered.total()))["c",] == 1


def test_what_is_no_snapshot_is_nobodys_word(caplog: pytest.LogCaptureFixture) -> None:
    gathered = Gathered()
    gathered.heard(1, words(3))
    gathered.heard(1, b"rubbish")
    gathered.heard(1, encode(Snapshot([Series("q", "t", {}, [1], [], [])])))
    assert scrape(describe(gathered.total()))["g",] == 3
    assert len(caplog.records) == 1


def test_series_come_through_and_too_many_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "PAIRS", 2)
    cells = [0] * CELLS
    cells[0], cells[-1] = 1, 2
    every = [Series("q", f"t{n}", {"succeeded": 3}, cells, cells, [], 7_200_001) for n in range(4)]
    numbers = scrape(describe(decode(encode(Snapshot(every)))))
    assert numbers["windlass_worker_folded_series",] == 2
    assert numbers["windlass_worker_runs_total", "succeeded", OTHER, OTHER] == 6
    assert numbers["windlass_worker_runs_total", "succeeded", "q", "t1"] == 3
    assert numbers["windlass_worker_wait_seconds_bucket", "0.001", "q", "t0"] == 1
    assert numbers["windlass_worker_wait_seconds_bucket", "3600.0", "q", "t0"] == 1
    assert numbers["windlass_worker_wait_seconds_bucket", "+Inf", "q", "t0"] == 3
    assert numbers["windlass_worker_wait_seconds_sum", "q", "t0"] == 7200.001


# -- the pipe between a worker and its supervisor


class Pipe:
    """A leash, and its reader without the process."""

    def __init__(self) -> None:
        self.reading, writing = os.pipe()
        other, parent = os.pipe()
        self.leash = SupervisorLink(writing, other)
        self._open = [self.reading, writing, other, parent]
        os.set_blocking(self.reading, False)
        self.member = WorkerProcess.__new__(WorkerProcess)
        self.member.dismissed = False
        self.member.fd = self.reading
        self.member._line = bytearray()
        self.member.worker = self.member.error = ""
        self.member.ready, self.member.load, self.member.measured = False, None, b""

    def close(self) -> None:
        for fd in self._open:
            os.close(fd)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def test_a_line_that_is_larger_than_the_pipe_arrives_whole(pipe: Pipe) -> None:
    pipe.leash.report({"worker": "w1"})
    pipe.leash.report({"measured": b"a" * 300_000})
    pipe.leash.report({"measured": b"b" * 300_000})  # waits, and is forgotten for the next
    pipe.leash.report({"measured": b"c" * 300_000})
    pipe.leash.report({"load": {"running": 3, "slots": 4, "waiting": False}})
    seen = []
    for _ in range(40):
        assert pipe.member.listen()
        if pipe.member.measured:
            seen.append(pipe.member.measured[:1])
            pipe.member.measured = b""
        pipe.leash.finish(0)
    assert seen == [b"a", b"c"]
    assert pipe.member.worker == "w1"
    assert pipe.member.load is not None
    assert pipe.member.load.running == 3


def test_a_supervisor_that_does_not_read_costs_no_more_than_so_much(pipe: Pipe) -> None:
    for _ in range(300):
        pipe.leash.report({"error": "x" * 10_000})
    assert len(pipe.leash._rest) <= MOST_WAITING + 20_000


def test_what_is_no_report_is_passed_over(pipe: Pipe) -> None:
    os.write(pipe.leash._report_fd, b"printed by somebody\n\n{}\n[1]\n")
    pipe.leash.report({"worker": "w2"})
    assert pipe.member.listen()
    assert pipe.member.worker == "w2"


def test_a_supervisor_that_is_gone_is_no_reason_to_stop(pipe: Pipe) -> None:
    os.close(pipe.reading)
    pipe._open.remove(pipe.reading)
    pipe.leash.report({"measured": b"a" * 300_000})
    pipe.leash.failed("it cannot start")
