"""The loop of ``windlass top``: draws, reads keys, and carries out the orders they give. It keeps nothing.

Reads of the store and actions run beside the keys, so that a slow store delays neither looking around nor leaving.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console as Terminal
from rich.console import RenderableType
from rich.live import Live

from windlass.app import Windlass
from windlass.cli import output
from windlass.cli.operator import change_all, operator
from windlass.cli.top.detail import describe
from windlass.cli.top.keys import GONE, reading_keys
from windlass.cli.top.model import KeyOrder, State, press
from windlass.cli.top.rows import fault_filter, read_rows
from windlass.cli.top.view import Screen, draw, draw_once, most_scroll
from windlass.console.console import Console
from windlass.console.replies import Changed
from windlass.errors import WindlassError

_JOB_ACTIONS = {"r": "retry", "c": "cancel", "d": "delete", "P": "promote"}
LOOK = KeyOrder("look")
"""Read again, and no more."""


async def look_once(app: Windlass) -> None:
    console, terminal = operator(app, "top"), output.console()
    rows, _ = await read_rows(console, "queues", "")
    screen = Screen(overview=await console.overview(), rows=rows)
    terminal.print(draw_once(screen, min(terminal.width, 160)))


async def watch(app: Windlass, every: float) -> None:
    """Run until the user leaves."""
    terminal = Terminal()
    top = Top(operator(app, "top"), terminal)
    with (
        Live(console=terminal, screen=True, auto_refresh=False) as live,
        reading_keys(top.heard.put_nowait),
        told_by_signals(top.heard.put_nowait),
    ):
        await top.run(every, lambda: live.update(top.draw(), refresh=True))


@contextmanager
def told_by_signals(heard: Callable[[str], None]) -> Iterator[None]:
    """Draw at once when the window's size changes, and restore the terminal when asked to end."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, heard, "")
    loop.add_signal_handler(signal.SIGTERM, heard, GONE)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_signal_handler(signal.SIGTERM)


class Top:
    """One session at a terminal. ``heard``: the keys, and an empty text when there is something new to draw."""

    def __init__(self, console: Console, terminal: Terminal) -> None:
        self.console, self.terminal = console, terminal
        self.state, self.screen = State(), Screen()
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.orders: asyncio.Queue[KeyOrder] = asyncio.Queue()
        self.over = False

    async def run(self, every: float, show: Callable[[], None]) -> None:
        working = asyncio.create_task(self._work(every))
        try:
            while not self.over:
                show()
                self.hear(await self.heard.get())
                while not self.heard.empty() and not self.over:
                    self.hear(self.heard.get_nowait())
                if working.done():
                    working.result()  # it ends only by a bug, which is raised once the terminal is restored
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working

    def draw(self) -> RenderableType:
        size = self.terminal.size
        return draw(self.screen, self.state, size.width, size.height)

    def hear(self, key: str) -> None:
        if key in ("", GONE):
            self.over = self.over or key == GONE
            return
        state, before = self.state, (self.state.tab, self.state.filter)
        order = press(state, key, self.screen.rows or [])
        size = self.terminal.size
        state.scroll = min(state.scroll, most_scroll(self.screen, size.width, size.height))
        if (state.tab, state.filter) != before:
            self.screen.rows, self.screen.part = None, ""
            self.orders.put_nowait(LOOK)
        if order is not None:
            self._take(order)

    def _take(self, order: KeyOrder) -> None:
        if order.action == "quit":
            self.over = True
        elif order.action == "open":
            self.state.detail, self.screen.detail = order.keys[0], "reading …"
            self.orders.put_nowait(LOOK)
        else:
            self.state.said, self.state.chosen = "…", frozenset()
            self.orders.put_nowait(order)

    # -- beside the keys

    async def _work(self, every: float) -> None:
        """Carry out orders and read the store: after each order, and at intervals."""
        try:
            await self.read()
            while True:
                self.heard.put_nowait("")
                order = await self._next_order(every)
                if order is not None and order != LOOK:
                    await self._obey(order)
                if order is not None or not self.state.still:
                    await self.read()
        finally:
            self.heard.put_nowait("")

    async def _next_order(self, every: float) -> KeyOrder | None:
        try:
            async with asyncio.timeout(every):
                return await self.orders.get()
        except TimeoutError:
            return None

    async def read(self) -> None:
        """Read the store again. If it is away, the screen says so and keeps what was read before."""
        state, screen = self.state, self.screen
        asked = (state.tab, state.filter, state.detail)
        try:
            overview = await self.console.overview()
            rows, part = await read_rows(self.console, state.tab, state.filter)
            detail = describe(await self.console.job(state.detail)) if state.detail else ""
        except WindlassError as error:
            screen.failure = str(error)
            return
        screen.overview, screen.failure = overview, ""
        if (state.tab, state.filter, state.detail) == asked:  # otherwise the user looks at something else by now
            screen.rows, screen.part, screen.detail = rows, part, detail
            state.cursor = max(0, min(state.cursor, len(rows) - 1))

    async def _obey(self, order: KeyOrder) -> None:
        try:
            self.state.said = await obey(self.console, order)
        except WindlassError as error:
            self.state.said = f"not done: {error}"
        if order.action == "d" and self.state.detail in order.keys:
            self.state.detail = ""


async def obey(console: Console, order: KeyOrder) -> str:
    """Carry out an order, and say what came of it."""
    if order.tab == "jobs":
        return told(await getattr(console, _JOB_ACTIONS[order.action])(list(order.keys)), _JOB_ACTIONS[order.action])
    told_all = [await _one(console, order, key) for key in order.keys]
    return told_all[0] if len(told_all) == 1 else f"{len(told_all)}: {told_all[-1]}"


async def _one(console: Console, order: KeyOrder, key: str) -> str:
    if order.tab == "dead":
        action = "retry" if order.action == "r" else "delete"
        count = await change_all(console, action, fault_filter(key))
        return f"{action}: {count:,} dead letter{'' if count == 1 else 's'}"
    if order.tab == "workflows":
        await (console.retry_workflow(key) if order.action == "r" else console.cancel_workflow(key))
        return f"{'retried' if order.action == 'r' else 'cancelled'} workflow {key}"
    if order.action == "R":
        await console.run_schedule(key)
        return f"schedule {key} runs now"
    verb, kind = "resume" if key in order.paused else "pause", order.tab.removesuffix("s")
    await getattr(console, f"{verb}_{kind}")(key)
    return f"{verb}d {kind} {key}"


def told(reply: Changed, action: str) -> str:
    skipped = f", {len(reply.skipped)} left alone ({next(iter(reply.skipped.values()))})" if reply.skipped else ""
    return f"{action}: {len(reply.changed)} job{'' if len(reply.changed) == 1 else 's'}{skipped}"
