"""How much is measured: the sizes of a full and of a quick run, by engine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Numbers of rounds, jobs and samples.

    With `shares` a peer marked slow gets its share of the jobs, never under 100; without, all get the same number.
    `without` names scenarios that are left out, `majors_only` those that only the peers of every round take part in.
    """

    rounds: int = 5
    minor_rounds: int = 3
    scout: bool = True
    scout_jobs: int = 2_000
    enqueue: int = 5_000
    concurrent: int = 20_000
    bulk: int = 100_000
    drain: int = 20_000
    latency: int = 300
    workflows: int = 10
    huge: int = 100_000
    startup: int = 3
    idle_seconds: float = 3.0
    growth: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    peer_growth: tuple[int, ...] = (10_000, 100_000)
    growth_rounds: int = 3
    keys: tuple[int, ...] = (10, 1_000, 100_000)
    inprocess: int = 100_000
    shares: bool = True
    without: tuple[str, ...] = ()
    majors_only: tuple[str, ...] = ()
    side_rounds: int = 3
    calibrate: int = 5_000
    naps: int = 5_000
    cpu: int = 1_000
    many: int = 1_000_000
    peer_many: int = 20_000
    space: int = 20_000
    drains: tuple[tuple[str, bool], ...] = (
        ("full", True),
        ("full", False),
        ("relaxed", True),
        ("relaxed", False),
    )


FULL = Plan()
QUICK = Plan(
    rounds=3,
    minor_rounds=1,
    scout=False,
    enqueue=2_000,
    concurrent=5_000,
    bulk=20_000,
    drain=5_000,
    latency=100,
    startup=1,
    idle_seconds=1.5,
    growth=(10_000, 100_000),
    keys=(10, 100_000),
    peer_growth=(10_000,),
    growth_rounds=1,
    inprocess=30_000,
    drains=(("full", True), ("relaxed", False)),
)
# On a server all get the same number of jobs in a full run. Neither plan is tuned to a target: the quick one leaves
# out what takes long and says little more.
REDIS_FULL = Plan(shares=False, minor_rounds=2, scout_jobs=5_000, enqueue=10_000)
REDIS_QUICK = Plan(
    rounds=2,
    minor_rounds=1,
    scout=False,
    side_rounds=1,
    without=("drain:2:no-results", "growth:scheduled"),
    majors_only=("drain:1:no-results", "drain:2:results", "latency:half-load", "threads", "cpu", "startup", "memory"),
    enqueue=3_000,
    concurrent=6_000,
    bulk=20_000,
    drain=10_000,
    latency=100,
    workflows=5,
    startup=1,
    idle_seconds=1.0,
    growth=(10_000, 100_000),
    keys=(10, 100_000),
    peer_growth=(10_000,),
    growth_rounds=1,
    calibrate=4_000,
    space=5_000,
    naps=2_000,
    cpu=200,
    many=100_000,
    peer_many=2_000,
)


def share(count: int, slow: int) -> int:
    """How many jobs a peer gets that is `slow` times slower."""
    return max(count // slow, min(count, 100))
