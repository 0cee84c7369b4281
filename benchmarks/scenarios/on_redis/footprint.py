"""What a worker costs: its start, its memory idle, loaded and after many jobs, and the server's memory per job."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks.harness import backlog, space
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Worker, ask
from benchmarks.scenarios import startup
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial
from benchmarks.scenarios.on_redis import lineup
from tests.servers.process import wait_until

MEMORY = tuple(Metric(name, "MB", higher=False) for name in ("idle", "loaded", "after many"))
CREEP, IDLE_CPU = Metric("after/loaded", "×", higher=False), Metric("idle cpu", "%", higher=False)
BYTES = Metric("per job", "bytes", higher=False)
FIRST = 100  # jobs that are in the store before its memory is read


def scenarios(plan: Plan) -> list[Scenario]:
    """Three questions; memory is the resident set of all the worker's processes."""
    start = "worker process started until its first job ran"
    groups = partial(lineup.presets, "quiet")
    memory = (*MEMORY, CREEP, IDLE_CPU)
    return [
        Scenario("startup", start, plan.side_rounds, (Metric("time", "ms", higher=False),), groups, startup.measure),
        Scenario("memory", "what one worker holds and uses", plan.minor_rounds, memory, groups, _measure_memory),
        Scenario("space", "the server's memory per queued job", 1, (BYTES,), groups, _measure_space),
    ]


class _Peak:
    """The largest resident set seen; reading it costs, so not at every glance."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._next = 0.0
        self.rss_mb = 0.0

    def watch(self) -> None:
        if time.monotonic() >= self._next:
            self.rss_mb = max(self.rss_mb, self._worker.usage().rss_mb)
            self._next = time.monotonic() + 0.1


def _measure_memory(trial: Trial) -> Metrics:
    count = trial.count(trial.plan.drain)
    many = count + (trial.plan.many if trial.contender.peer.name == "windlass" else trial.count(trial.plan.peer_many))
    with (
        backlog.ready(trial.environment, trial.contender, 1) as place,
        Worker(trial.environment, trial.contender, place) as worker,
        ThreadPoolExecutor(1) as beside,
    ):
        worker.wait_for(1)
        time.sleep(1)
        before = worker.usage()
        time.sleep(trial.plan.idle_seconds)
        idle = worker.usage()
        peak = _Peak(worker)
        filling = beside.submit(ask, trial.environment, trial.contender, place, "fill", {"count": count})
        worker.wait_for(count + 1, watch=peak.watch)
        filling.result()
        peak.watch()
        ask(trial.environment, trial.contender, place, "fill", {"count": many - count})
        worker.wait_for(many + 1)
        time.sleep(0.5)
        after = worker.usage()
    cpu = (idle.cpu_seconds - before.cpu_seconds) / trial.plan.idle_seconds * 100
    found = {"idle": idle.rss_mb, "loaded": peak.rss_mb, "after many": after.rss_mb}
    return {**found, CREEP.name: after.rss_mb / peak.rss_mb, "idle cpu": cpu}


def _measure_space(trial: Trial) -> Metrics:
    with space.fresh(trial.contender) as place:
        ask(trial.environment, trial.contender, place, "fill", {"count": FIRST})
        before = _used(place)
        ask(trial.environment, trial.contender, place, "fill", {"count": trial.plan.space})
        return {"per job": (_used(place) - before) / trial.plan.space}


def _used(place: space.Space) -> int:
    """The memory of the server, once it has forgotten the client that filled it."""
    assert place.server is not None
    wait_until(lambda: place.server and place.server.info("clients", "connected_clients") == "1", "the client to leave")
    return int(place.server.info("memory", "used_memory"))
