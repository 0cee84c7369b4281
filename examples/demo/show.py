"""The demo itself: start workers, feed orders, kill one worker, wait for the end, prove it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from rich.console import Console

from examples.demo import ledger
from examples.demo.fleet import Fleet, Member
from examples.demo.proof import Kill, prove
from examples.demo.screen import Screen, make_screen
from examples.demo.story import Story
from examples.demo.tasks import LEASE, Order, app, fulfil

WORKERS = 3
FEED_SECONDS = 8.0
DELAY = 6
DECLINED, POISON = 7, 13
START_LIMIT, LIMIT = 60.0, 180.0
KINDS = ("started", "succeeded", "failed", "retried", "lost", "workflow_succeeded", "workflow_failed")


class DemoFailed(Exception):
    """The demo cannot go on; the text says why."""


async def run(folder: Path, orders: int, plain: bool) -> int:
    """The exit code: 0 when the proof holds."""
    console = Console()
    main = asyncio.current_task()
    assert main is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, main.cancel)
    fleet = Fleet(folder)
    try:
        async with app:
            return await _run(fleet, orders, console, make_screen(console, plain))
    except DemoFailed as error:
        console.print(f"The demo failed: {error}", style="bold red", markup=False)
        return 1
    finally:
        fleet.end()


async def _run(fleet: Fleet, orders: int, console: Console, screen: Screen) -> int:
    ledger.create()
    with screen:
        story = Story(orders, screen.tell)
        async with _shown(story, fleet, screen):
            await _start_workers(fleet, story)
            kill = await _feed_and_kill(fleet, story)
            await _until(lambda: story.over, fleet, LIMIT, "the orders did not come to an end")
        screen.show(story, fleet)
    await fleet.stop()
    proof = await prove(list(range(1, orders + 1)), kill)
    console.print(proof.table())
    await _show_one(console)
    if proof.faults:
        raise DemoFailed("; ".join(proof.faults))
    console.print(f"Nothing was lost. {orders} orders in {story.seconds:.0f} s.", style="bold green")
    return 0


async def _show_one(console: Console) -> None:
    """The order that met the poison, by the command a user would type: what ran, what died, what was skipped for it."""
    words = ["workflows", "show", "examples.demo.tasks:app", f"order:{POISON}"]
    console.print(f"$ windlass {' '.join(words)}", style="bold", markup=False, highlight=False)
    console.file.flush()
    command = await asyncio.create_subprocess_exec(sys.executable, "-m", "windlass", *words)
    if await command.wait():
        raise DemoFailed(f"windlass {' '.join(words)} failed")
    console.print()


@contextlib.asynccontextmanager
async def _shown(story: Story, fleet: Fleet, screen: Screen) -> AsyncIterator[None]:
    """The picture follows the event stream meanwhile."""

    async def follow() -> None:
        async for event in app.events(kinds=KINDS, since="0"):
            story.take(event)

    async def draw() -> None:
        while True:
            screen.show(story, fleet)
            await asyncio.sleep(0.1)

    tasks = [asyncio.create_task(follow()), asyncio.create_task(draw())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _start_workers(fleet: Fleet, story: Story) -> None:
    for _ in range(WORKERS):
        fleet.start()
    story.tell(f"starting {WORKERS} worker processes on {app.url}")
    limit = asyncio.get_running_loop().time() + START_LIMIT
    while len(await _workers()) < WORKERS:
        if asyncio.get_running_loop().time() > limit or fleet.unexpected():
            raise DemoFailed(fleet.unexpected() or f"{WORKERS} workers were not up within {START_LIMIT:.0f} s")
        await asyncio.sleep(0.1)
    story.tell(f"{WORKERS} workers are up")


async def _workers() -> dict[int, str]:
    """The ids of the live workers by process."""
    client = await app.client()
    return {info.presence.pid: info.presence.id for info in await client.store.workers() if info.alive}


async def _feed_and_kill(fleet: Fleet, story: Story) -> Kill:
    feeding = asyncio.create_task(_feed(story))
    try:
        some = story.expected // 6
        await _until(lambda: len(story.finished) >= some, fleet, LIMIT, "the first orders did not finish")
        kill = await _kill_one(fleet, story)
        await feeding
        return kill
    finally:
        feeding.cancel()


async def _feed(story: Story) -> None:
    for number in range(1, story.expected + 1):
        order = Order(number, trouble(number))
        await fulfil(order, delay=DELAY if number % 10 == 0 else 0)
        story.accepted += 1
        if number == 10:
            story.tell(f"every tenth order is a pre-order and waits {DELAY} s")
        await asyncio.sleep(FEED_SECONDS / story.expected)


def trouble(number: int) -> str:
    """What goes wrong with an order: one kills its process, one is declined, every eighth meets errors."""
    if number == POISON:
        return "poison"
    if number == DECLINED:
        return "declined"
    return "flaky" if number % 8 == 0 else ""


async def _kill_one(fleet: Fleet, story: Story) -> Kill:
    """Freeze a worker; if it is running jobs at that moment, kill it, else try another."""
    limit = asyncio.get_running_loop().time() + LIMIT
    while asyncio.get_running_loop().time() < limit:
        for pid, worker in (await _workers()).items():
            member = next((one for one in fleet.alive() if one.pid == pid), None)
            if member is not None and (kill := await _kill_if_busy(fleet, member, worker)):
                names = ", ".join(kill.stranded)
                story.tell(f"KILLED worker {pid} with SIGKILL while it ran {names}")
                replacement = fleet.start()
                story.tell(f"others find it dead within its lease of {LEASE:g} s; worker {replacement.pid} replaces it")
                return kill
        await asyncio.sleep(0.02)
    raise DemoFailed("no worker was ever busy")


async def _kill_if_busy(fleet: Fleet, member: Member, worker: str) -> Kill | None:
    fleet.freeze(member)
    page = await app.jobs(state="running", limit=1000)
    stranded = [job.id for job in page.jobs if job.worker == worker]
    if len(stranded) < 2:
        fleet.thaw(member)
        return None
    kill = Kill(member.pid, worker, time.time_ns() // 1_000_000, stranded)
    fleet.kill(member)
    return kill


async def _until(done: Callable[[], bool], fleet: Fleet, limit: float, why_not: str) -> None:
    deadline = asyncio.get_running_loop().time() + limit
    while not done():
        if text := fleet.unexpected():
            raise DemoFailed(text)
        if asyncio.get_running_loop().time() > deadline:
            raise DemoFailed(f"{why_not} within {limit:.0f} s")
        await asyncio.sleep(0.05)
