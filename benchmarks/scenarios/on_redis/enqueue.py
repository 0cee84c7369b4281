"""How fast jobs are accepted: one by one from plain code and from coroutines, from many callers, and in bulk."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from benchmarks.harness import space
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import ask
from benchmarks.peers.model import Contender
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial
from benchmarks.scenarios.on_redis import lineup

RATE = (Metric("rate", "jobs/s"),)
WIDTH = 100
BATCH = 1000


def scenarios(plan: Plan) -> list[Scenario]:
    """Four questions."""
    together = f"enqueue {WIDTH} at a time (gather); a system without coroutines by threads"
    return [
        Scenario("enqueue:sync", "enqueue one by one, plain code", plan.rounds, RATE, _by("sync"), _one_by_one),
        Scenario("enqueue:async", "enqueue one by one, await", plan.rounds, RATE, _by("async"), _one_by_one),
        Scenario("concurrent", together, plan.rounds, RATE, _concurrent, _measure_concurrent),
        Scenario("bulk", f"enqueue in batches of {BATCH}", plan.rounds, RATE, _bulk, _measure_bulk),
    ]


def _by(mode: str) -> partial[Iterable[list[Contender]]]:
    return partial(lineup.clients, mode)


def _concurrent() -> Iterable[list[Contender]]:
    for (contender,) in lineup.clients("async"):
        yield [replace(contender, size=WIDTH)]
    for (contender,) in lineup.clients("sync"):
        if "async" not in contender.peer.clients:
            width = contender.peer.widths[-1]
            yield [replace(contender, name=f"{contender.name} ({width} threads)", size=width)]


def _bulk() -> Iterable[list[Contender]]:
    """Those that take many jobs at once; the others' rates are the ones above."""
    for mode in ("async", "sync"):
        for (contender,) in lineup.clients(mode):
            if contender.peer.bulk and contender.peer.clients[-1] == mode:
                yield [contender]


def _one_by_one(trial: Trial) -> Metrics:
    operation = "enqueue_await" if trial.contender.client == "async" else "enqueue"
    return _ask(trial, operation, {"count": trial.count(trial.plan.enqueue)})


def _measure_concurrent(trial: Trial) -> Metrics:
    operation = "gather" if trial.contender.client == "async" else "threads"
    return _ask(trial, operation, {"count": trial.count(trial.plan.concurrent), "width": trial.contender.size})


def _measure_bulk(trial: Trial) -> Metrics:
    return _ask(trial, "bulk", {"count": trial.count(trial.plan.bulk), "size": BATCH})


def _ask(trial: Trial, operation: str, arguments: dict[str, int]) -> Metrics:
    with space.fresh(trial.contender) as place:
        answer = ask(trial.environment, trial.contender, place, operation, arguments)
    return {"rate": answer["rate"]}
