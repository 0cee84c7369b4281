"""The loop of ``windlass top``: reads, draws, hears keys and does what they order. It keeps nothing."""

from __future__ import annotations

import asyncio

from rich.console import Console as Terminal
from rich.live import Live

from windlass.app import Windlass
from windlass.cli import output
from windlass.cli.operator import change_all, operator
from windlass.cli.top.detail import describe
from windlass.cli.top.keys import reading_keys
from windlass.cli.top.model import Order, State, press
from windlass.cli.top.rows import fault_filter, read_rows
from windlass.cli.top.view import Screen, draw
from windlass.console.console import Console
from windlass.console.values import Changed
from windlass.errors import WindlassError

_JOB_ACTIONS = {"r": "retry", "c": "cancel", "d": "delete", "P": "promote"}


async def look_once(app: Windlass) -> None:
    console, state = operator(app, "top"), State()
    screen = Screen(overview=await console.overview(), rows=await read_rows(console, state.tab, ""))
    terminal = output.console()
    terminal.print(draw(screen, state, terminal.height))


async def watch(app: Windlass, every: float) -> None:
    """Until the user leaves."""
    terminal = Terminal()
    top = Top(operator(app, "top"), terminal)
    with Live(console=terminal, screen=True, auto_refresh=False) as live, reading_keys(top.keys.put_nowait):
        await top.read()
        while not top.over:
            live.update(draw(top.screen, top.state, terminal.height), refresh=True)
            try:
                key = await asyncio.wait_for(top.keys.get(), every)
            except TimeoutError:
                if not top.state.still:
                    await top.read()
            else:
                await top.hear(key)


class Top:
    """One session at a terminal."""

    def __init__(self, console: Console, terminal: Terminal) -> None:
        self.console, self.terminal = console, terminal
        self.state, self.screen = State(), Screen()
        self.keys: asyncio.Queue[str] = asyncio.Queue()
        self.over = False

    async def hear(self, key: str) -> None:
        before = (self.state.tab, self.state.filter)
        order = press(self.state, key, self.screen.rows)
        if order is not None:
            await self._obey(order)
        if order is not None or (self.state.tab, self.state.filter) != before:
            await self.read()

    async def read(self) -> None:
        """Look again. A store that is away is said, and what was read before stays."""
        state, screen = self.state, self.screen
        try:
            screen.overview = await self.console.overview()
            screen.rows = await read_rows(self.console, state.tab, state.filter)
            if state.detail:
                screen.detail = describe(await self.console.job(state.detail))
            screen.failure = ""
        except WindlassError as error:
            screen.failure = str(error)
        state.cursor = max(0, min(state.cursor, len(screen.rows) - 1))

    async def _obey(self, order: Order) -> None:
        if order.action == "quit":
            self.over = True
        elif order.action == "open":
            self.state.detail, self.screen.detail = order.keys[0], "reading …"
        else:
            try:
                self.state.said = await obey(self.console, order, self.screen)
            except WindlassError as error:
                self.state.said = f"not done: {error}"
            self.state.chosen = frozenset()


async def obey(console: Console, order: Order, screen: Screen) -> str:
    """Do what was ordered, and say what came of it."""
    if order.tab == "jobs":
        return told(await getattr(console, _JOB_ACTIONS[order.action])(list(order.keys)), _JOB_ACTIONS[order.action])
    told_all = [await _one(console, order, key, screen) for key in order.keys]
    return told_all[0] if len(told_all) == 1 else f"{len(told_all)}: {told_all[-1]}"


async def _one(console: Console, order: Order, key: str, screen: Screen) -> str:
    if order.tab == "dead":
        action = "retry" if order.action == "r" else "delete"
        return f"{action}: {await change_all(console, action, fault_filter(key)):,} dead letters"
    if order.tab == "workflows":
        await (console.retry_workflow(key) if order.action == "r" else console.cancel_workflow(key))
        return f"{'retried' if order.action == 'r' else 'cancelled'} workflow {key}"
    if order.action == "R":
        await console.run_schedule(key)
        return f"schedule {key} runs now"
    paused = any(row.paused for row in screen.rows if row.key == key)
    kind = order.tab.removesuffix("s")
    await getattr(console, f"{'resume' if paused else 'pause'}_{kind}")(key)
    return f"{'resumed' if paused else 'paused'} {kind} {key}"


def told(reply: Changed, action: str) -> str:
    skipped = f", {len(reply.skipped)} left alone ({next(iter(reply.skipped.values()))})" if reply.skipped else ""
    return f"{action}: {len(reply.changed)} jobs{skipped}"
