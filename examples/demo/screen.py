"""The terminal: a live picture where there is one, plain lines where there is not."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.demo.fleet import SLOTS, Fleet
from examples.demo.story import Story
from examples.demo.tasks import CALLBACK, STEPS

LINES = 9


class Screen(Protocol):
    """Where the demo shows itself."""

    def __enter__(self) -> Screen: ...

    def __exit__(self, *exc: object) -> None: ...

    def tell(self, line: str) -> None: ...

    def show(self, story: Story, fleet: Fleet) -> None: ...


class PlainScreen:
    """A line per happening, and one with the counts every two seconds."""

    def __init__(self) -> None:
        self._next = 0.0

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def tell(self, line: str) -> None:
        print(line, flush=True)

    def show(self, story: Story, fleet: Fleet) -> None:
        if story.seconds >= self._next:
            self._next = story.seconds + 2
            passed = ", ".join(f"{len(story.done[step])} {step}d" for step in ("validate", "charge", "reserve"))
            story.tell(
                f"{story.accepted} orders accepted: {passed}, {len(story.finished)} finished, "
                f"{len(story.failed)} failed; {len(story.running)} jobs running on {len(fleet.alive())} workers"
            )


class LiveScreen:
    """A picture drawn over itself."""

    def __init__(self, console: Console) -> None:
        self._lines: deque[str] = deque(maxlen=LINES)
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> LiveScreen:
        self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def tell(self, line: str) -> None:
        self._lines.append(line)

    def show(self, story: Story, fleet: Fleet) -> None:
        self._live.update(self._picture(story, fleet), refresh=True)

    def _picture(self, story: Story, fleet: Fleet) -> RenderableType:
        title = f"Windlass demo   {story.seconds:.0f} s   {story.accepted} of {story.expected} orders accepted"
        happenings = Text("\n".join(self._lines) + "\n" * (LINES - len(self._lines)), overflow="ellipsis", no_wrap=True)
        return Group(
            Panel(Group(self._steps(story), "", self._workers(story, fleet)), title=title, title_align="left"),
            Panel(happenings, title="what happens", title_align="left"),
        )

    @staticmethod
    def _steps(story: Story) -> Table:
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(width=10)
        table.add_column(ratio=1)
        table.add_column(justify="right", width=10)
        for step in STEPS:
            count = len(story.done[step])
            bar = ProgressBar(total=story.expected, completed=count)
            table.add_row(step, bar, f"{count}/{story.expected}")
        sorry = f"{len(story.failed)} orders failed, {len(story.done[CALLBACK])} apologies sent"
        table.add_row("failed", Text(sorry, style="red"), "")
        return table

    @staticmethod
    def _workers(story: Story, fleet: Fleet) -> Table:
        load = story.load()
        table = Table.grid(padding=(0, 2))
        for member in fleet.members:
            running = sum(count for worker, count in load.items() if f"-{member.pid}-" in worker)
            if member.alive:
                state = Text("■" * min(running, SLOTS) + "·" * max(0, SLOTS - running), style="green")
            else:
                state = Text("killed with SIGKILL" if member.killed else "ended", style="bold red")
            table.add_row(f"worker {member.pid}", state)
        return table


def make_screen(console: Console, plain: bool) -> Screen:
    return PlainScreen() if plain or not console.is_terminal else LiveScreen(console)
