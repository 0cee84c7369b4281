"""How fast jobs are accepted: one by one, from many callers at once, and in bulk; synced to the disk or not."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from benchmarks.harness import space
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import ask
from benchmarks.peers.model import Contender
from benchmarks.scenarios import lineup
from benchmarks.scenarios.base import Metric, Metrics, Scenario, Trial

RATE = (Metric("rate", "jobs/s"),)
WIDTH = 100
BATCH = 1000


def scenarios(plan: Plan) -> list[Scenario]:
    """Three questions at two durabilities."""
    made = []
    for durability in ("full", "relaxed"):
        made += [
            Scenario(
                f"enqueue:{durability}",
                f"enqueue one by one, durability {durability}",
                plan.rounds,
                RATE,
                partial(_one_by_one, durability),
                _measure_one_by_one,
            ),
            Scenario(
                f"concurrent:{durability}",
                f"enqueue from {WIDTH} callers at once, durability {durability}",
                plan.rounds,
                RATE,
                partial(_concurrent, durability),
                _measure_concurrent,
            ),
            Scenario(
                f"bulk:{durability}",
                f"enqueue in batches of {BATCH}, durability {durability}; a peer without batches one by one",
                plan.rounds,
                RATE,
                partial(lineup.clients, durability),
                _measure_bulk,
            ),
        ]
    return made


def _one_by_one(durability: str) -> Iterable[list[Contender]]:
    for (contender,) in lineup.clients(durability):
        yield [contender]
        if "async" in contender.peer.clients:
            yield [replace(contender, name=f"{contender.name} (await)", client="async")]


def _concurrent(durability: str) -> Iterable[list[Contender]]:
    """Coroutines where the peer has them, else the better of one and several threads."""
    for (contender,) in lineup.clients(durability):
        if "async" in contender.peer.clients:
            yield [replace(contender, client="async", size=WIDTH)]
            continue
        for width in contender.peer.widths:
            yield [replace(contender, name=f"{contender.name} ({width} thread{'s'[: width > 1]})", size=width)]


def _measure_one_by_one(trial: Trial) -> Metrics:
    operation = "enqueue_await" if trial.contender.client == "async" else "enqueue"
    return _ask(trial, operation, {"count": trial.count(trial.plan.enqueue)})


def _measure_concurrent(trial: Trial) -> Metrics:
    operation = "gather" if trial.contender.client == "async" else "threads"
    count = trial.count(trial.plan.concurrent if trial.contender.client == "async" else trial.plan.enqueue)
    return _ask(trial, operation, {"count": count, "width": trial.contender.size})


def _measure_bulk(trial: Trial) -> Metrics:
    batched = trial.contender.peer.name == "windlass"
    count = trial.plan.bulk if batched else trial.count(trial.plan.enqueue)
    return _ask(trial, "bulk", {"count": count, "size": BATCH})


def _ask(trial: Trial, operation: str, arguments: dict[str, int]) -> Metrics:
    with space.fresh(trial.contender) as folder:
        answer = ask(trial.environment, trial.contender, folder, operation, arguments)
    return {"rate": answer["rate"]}
