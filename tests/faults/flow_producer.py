"""A process that calls one unique task: ``python -m tests.faults.flow_producer POLICY FIRST PRODUCERS CALLS``.

Each call has a number of its own for an argument. What was answered goes into the ledger: when the call was sent, the
job it came to, and whether that was there already.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time

from tests.faults.flow_jobs import app, ledger, only

KEY = "one"


async def produce(policy: str, numbers: range) -> None:
    for n in numbers:
        sent = time.time()
        call = only.options(unique=KEY, unique_policy=policy)
        handle = await call.enqueue(n, round(random.uniform(0, 0.1), 4))
        ledger.write("called", f"{n}/{sent!r}/{int(handle.existing)}/{handle.id}")
        await asyncio.sleep(random.uniform(0, 0.1))


async def main(policy: str, first: int, producers: int, calls: int) -> None:
    async with app:
        starts = [first + n * calls for n in range(producers)]
        await asyncio.gather(*[produce(policy, range(start, start + calls)) for start in starts])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:5])))
