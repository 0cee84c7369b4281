"""A deterministic simulation of workers, clients and faults on the memory engine. One seed is always one story.

Time is virtual, the network loses, delays and repeats messages, processes crash, pause and return, clocks jump. When
the faults are over, everything that was accepted must have come to its one end, and every oddity on the way must have
its reason (``checks``). Engines are compared with the memory engine elsewhere; here it is judged itself.

    python -m windlass.testing.simulation --seeds 50000
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.testing.simulation.checks import violations
from windlass.testing.simulation.world import World

__all__ = ["World", "find_violation", "simulate", "violations"]


def simulate(seed: int) -> list[str]:
    """Play one seed to its end. Answers what broke the rules."""
    world = World(seed)
    world.play()
    return violations(world)


def find_violation(seeds: Iterable[int]) -> tuple[int, list[str]] | None:
    """The first seed that breaks a rule, and what it broke."""
    for seed in seeds:
        found = simulate(seed)
        if found:
            return seed, found
    return None
