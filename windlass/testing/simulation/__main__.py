"""Long runs: ``python -m windlass.testing.simulation --seeds 50000 [--first 0] [--seed 17]``."""

from __future__ import annotations

import argparse
import sys
import time

from windlass.testing.simulation import simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m windlass.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many seeds to play")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="play this one alone")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds) if options.seed is None else [options.seed]
    broken, began = 0, time.monotonic()
    for seed in seeds:
        found = simulate(seed)
        if found:
            broken += 1
            sys.stdout.write(f"seed {seed}:\n" + "".join(f"  {line}\n" for line in found))
    took = time.monotonic() - began
    sys.stdout.write(f"{len(seeds)} seeds in {took:.1f} s, {broken} broke a rule\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
