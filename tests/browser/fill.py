"""Fills an open shop with a day's life: jobs in every state, workflows, dead letters, limits, and an hour of charts."""

from __future__ import annotations

import math
import random
import time
from typing import Any, NamedTuple

from tests.browser.kit import SECONDS, Live
from tests.servers.process import wait_until
from windlass import chain, chord, group
from windlass.core.chart import CELLS, KEPT, MINUTE, MINUTES, Series, Sheet, cell, encode_sheet, sheet_key
from windlass.store.items import Put, put_all

TASKS = (
    ("emails", "mail.send", 140, 26), ("payments", "orders.charge", 30, 42), ("warehouse", "orders.pack", 55, 9),
    ("media", "media.transcode", 6, 900),
)  # fmt: skip
"""Queue, task, jobs a minute and run time in ms, in the charts."""


class Filled(NamedTuple):
    """Ids of one job for each state, and of workflows."""

    jobs: dict[str, str]
    workflows: dict[str, str]


def fill(live: Live) -> Filled:
    """Needs the worker: what has to fail fails there."""
    draw_charts(live)
    jobs = {"succeeded": add_orders(live), **add_ended(live)}
    workflows = add_workflows(live)
    jobs |= add_open(live)
    for id in jobs.values():
        assert live.state(id) != "gone"
    jobs["waiting"], jobs["skipped"] = members(live, workflows)
    return Filled(jobs, workflows)


def add_orders(live: Live) -> str:
    calls = [live.app.tasks["orders.pack"].s(number) for number in range(120)]
    calls += [live.app.tasks["mail.send"].s(f"customer{n}@example.org", subject=f"Order {n}") for n in range(40)]
    live.call(live.app.enqueue_many(calls))
    order = {"number": 1042, "items": ["lamp", "chair"], "gift": True}
    id = live.add("orders.charge", order, 149.5, tags=["vip", "web"])
    live.wait_state(id, "succeeded")
    return id


def add_ended(live: Live) -> dict[str, str]:
    """Dead letters of several faults, and one job that was cancelled."""
    app, found = live.app, {}
    for number in range(7):
        order = {"number": 2000 + number, "items": ["piano"]}
        found["failed"] = live.add("orders.charge", order, 1200.0 + number)
    lost = [live.add("mail.send", f"nobody{n}@example.com", retries=0) for n in range(3)]
    lost += [live.add("orders.refund", -1 - n) for n in range(4)]
    lost.append(live.add("orders.ship", 7, "pigeon"))
    later = live.add("mail.send", "later@example.org", delay="3h")
    live.call(app.job(later).cancel("the customer changed her mind"))
    for id in [*lost, found["failed"]]:
        live.wait_state(id, "failed")
    return {**found, "cancelled": later}


def add_open(live: Live) -> dict[str, str]:
    """Jobs that are not over: one that runs with progress and logs, retries, delays, and a paused queue."""
    live.order("intro.mp4", *INTRO)
    live.order("teaser.mp4", "progress 12 reading the file")
    running = live.add("media.transcode", "intro.mp4", tags=["launch"])
    live.add("media.transcode", "teaser.mp4", 640)
    retrying = live.add("mail.send", "busy@example.org", kwargs={"subject": "Your invoice"})
    scheduled = live.add("reports.daily", kwargs={"shop": "berlin", "days": 7}, delay="2h")
    live.add("stock.wait", "lamp")
    live.call(live.app.queue("reports").pause())
    ready = [live.add("reports.daily", kwargs={"shop": name}) for name in ("main", "berlin", "oslo", "lima")]
    live.wait_state(running, "running")
    live.wait_state(retrying, "scheduled")
    return {"running": running, "retrying": retrying, "scheduled": scheduled, "ready": ready[0]}


INTRO = (
    "log opened intro.mp4: 1920 × 1080, 3 min 20 s",
    "log first pass: 4,800 frames",
    "warn frame 1,204 is damaged, taking the one before",
    "log second pass",
    "progress 64 second pass, 3,072 of 4,800 frames",
)


def add_workflows(live: Live) -> dict[str, str]:
    """One that succeeded, one that failed, one that waits for a job that runs."""
    tasks = live.app.tasks
    pack, ship, notify, check = (tasks[f"orders.{name}"] for name in ("pack", "ship", "notify", "check"))
    transcode = tasks["media.transcode"]
    good = chain(pack.s(1), ship.s("post"), notify.s())
    bad = chain(pack.s(2), check.si(-1), group(notify.s(), ship.s("post")))
    live.order("trailer.mp4", "progress 40 first pass")
    wide = chord([pack.s(n) for n in range(5)] + [transcode.s("trailer.mp4")], ship.s("courier"))
    works = {
        "succeeded": good.named("ship one order"),
        "failed": bad.named("check an order"),
        "running": wide.named("launch"),
    }
    found = {state: str(live.call(live.app.submitting.submit_work(work)).id) for state, work in works.items()}
    for state in ("succeeded", "failed"):
        wait_for_workflow(live, found[state], state)
    return found


def wait_for_workflow(live: Live, id: str, state: str) -> None:
    def look() -> bool:
        info: Any = live.call(live.app.workflow(id).info())
        return bool(info is not None and str(info.state) == state)

    wait_until(look, f"workflow {id} is {state}", SECONDS, 0.05)


def members(live: Live, workflows: dict[str, str]) -> tuple[str, str]:
    """A job that waits for others, and one that was skipped."""

    def one(state: str) -> str:
        page: Any = live.call(live.app.jobs(state=state, limit=5))
        rows = getattr(page, "jobs", page)
        return str(next(row.id for row in rows if row.task))

    return one("waiting"), one("skipped")


def draw_charts(live: Live) -> None:
    """An hour's sheets, as a worker that is gone would have left them."""
    chance = random.Random(7)
    now = time.time_ns() // 1_000_000 // MINUTE * MINUTE
    items = []
    for back in range(1, 60):
        wave = 1 + 0.45 * math.sin(back / 7) + chance.uniform(-0.12, 0.12)
        series = [a_series(chance, queue, task, round(count * wave), ms) for queue, task, count, ms in TASKS]
        key = sheet_key(now - back * MINUTE, "gone")
        items.append(Put(shelf=MINUTES, key=key, body=encode_sheet(Sheet(series, slots=40)), ttl=KEPT[MINUTES]))

    async def put() -> None:
        client = await live.app.client()
        await put_all(client.store, items)

    live.call(put())


def a_series(chance: random.Random, queue: str, task: str, count: int, ms: int) -> Series:
    run, wait = [0] * CELLS, [0] * CELLS
    total = 0
    for _ in range(count):
        took = round(ms * chance.lognormvariate(0, 0.6))
        total += took
        run[cell(took)] += 1
        wait[cell(round(8 * chance.lognormvariate(0, 1.1)))] += 1
    failed = sum(chance.random() < 0.04 for _ in range(count)) if queue == "payments" else 0
    retried = sum(chance.random() < 0.03 for _ in range(count))
    counts = {"succeeded": count - failed, "failed": failed, "retried": retried}
    return Series(queue, task, counts, wait, run, run, run_ms=total)
