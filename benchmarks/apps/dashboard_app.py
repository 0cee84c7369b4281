"""The store that the dashboard is measured on: queues and tasks, dead letters, a backlog, schedules, workflows.

BENCH_URL names the store.
"""

import os
from typing import Any

from windlass import Keep, Windlass, every, group

app = Windlass("shop", os.environ["BENCH_URL"], keep=Keep(count=2_000_000), events_kept=10_000)
QUEUES = ("mail", "media", "billing", "reports", "default")
FAULTS = 30


@app.task(name="mail.send", retries=0)
async def send(number: int, to: str) -> int:
    return number


@app.task(name="media.scale", retries=0, queue="media")
async def scale(number: int, size: str) -> int:
    return number


@app.task(name="billing.charge", retries=0, queue="billing")
async def charge(number: int) -> int:
    # Thirty kinds of fault: the fingerprint is made of the type and of where it was raised.
    raise type(f"Fault{number % FAULTS}", (RuntimeError,), {})(f"card {number} was refused")


@app.schedule(every("day at 03:00"), name="nightly")
@app.task(name="reports.build", queue="reports")
async def build(day: str = "today") -> str:
    return day


async def fill(count: int) -> None:
    """About nine in ten will have run, one in fifty failed, the rest waits in a paused queue."""
    await app.queue("later").pause()
    waiting, dead = count // 10, count // 50
    await _enqueue([charge.s(n) for n in range(dead)])
    await _enqueue([send.options(delay="1d").s(n, "someone@example.com") for n in range(1_000)])
    for start in range(0, waiting, 1_000):
        later = send.options(queue="later")
        await app.enqueue_many([later.s(n, "later@example.com") for n in range(start, start + 1_000)])
    for start in range(0, count - waiting - dead, 10_000):
        calls = [
            send.options(queue=QUEUES[n % 5]).s(n, f"user{n}@example.com") if n % 3 else scale.s(n, "640x480")
            for n in range(start, start + 10_000)
        ]
        await _enqueue(calls)
    for _ in range(20):
        await group(scale.s(n, "64x64") for n in range(30)).enqueue()


async def _enqueue(calls: list[Any]) -> None:
    for start in range(0, len(calls), 1_000):
        await app.enqueue_many(calls[start : start + 1_000])
