"""The screen of ``windlass top``, made of what was read. Texts of users are never taken for markup."""

from __future__ import annotations

from typing import Literal

import msgspec
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from windlass.cli import output
from windlass.cli.top.model import ACTIONS, TABS, Row, State, question
from windlass.cli.top.rows import COLUMNS, NUMBERS
from windlass.console.values import Overview

_BARS = " ▁▂▃▄▅▆▇█"
_KEYS = (
    "1-6, tab, arrows   another table",
    "j k, arrows        another row",
    "x                  choose a row",
    "enter              look closer: the jobs of a row, or a job",
    "/                  filter jobs: state:failed task:mail.send",
    "esc                back; forget choice and filter",
    "space              stop reading, and go on",
    "q                  leave",
    "",
)
_AROUND = 9
"""Lines of the screen that are not rows of the table."""


class Screen(msgspec.Struct, kw_only=True):
    """What was read last. ``failure``: why that was the last that could be read."""

    overview: Overview | None = None
    rows: list[Row] = []
    detail: str = ""
    failure: str = ""


def draw(screen: Screen, state: State, height: int) -> RenderableType:
    """All of it, for a terminal of so many lines."""
    body: RenderableType
    if state.help:
        body = Panel(_help(), title="keys", title_align="left")
    elif state.detail:
        body = Panel(_cut(screen.detail, height - 6), title=Text(state.detail), title_align="left")
    else:
        body = _table(screen.rows, state, max(3, height - _AROUND))
    return Group(_head(screen.overview), _warnings(screen.overview), _tabs(state), body, _foot(screen, state))


def _head(overview: Overview | None) -> Text:
    line = Text("windlass top  ", "bold")
    if overview is None:
        return line.append("reading …", "bright_black")
    counts = overview.counts
    for name in ("ready", "running", "scheduled", "failed"):
        line.append(f"{counts.get(name, 0):,} ", output.COLOURS[name] + " bold").append(f"{name}  ", "bright_black")
    line.append(f"{overview.busy}/{overview.slots} ", "bold").append("slots  ", "bright_black")
    line.append(f"{overview.workers} ", "bold").append("workers  ", "bright_black")
    line.append(spark([sum(point.counts.values()) for point in overview.chart.points][-30:]), "green")
    return line


def spark(numbers: list[int]) -> str:
    """Numbers as bars, the largest of them a full one."""
    top = max(numbers, default=0)
    return "".join(_BARS[-(-number * (len(_BARS) - 1) // top)] if top else _BARS[0] for number in numbers)


def _warnings(overview: Overview | None) -> Text:
    found = overview.warnings if overview is not None else []
    if not found:
        return Text("")
    worst = min(found, key=lambda warn: not warn.serious)
    more = f"  (and {len(found) - 1} more)" if len(found) > 1 else ""
    return Text(f"! {worst.text}{more}", "red" if worst.serious else "yellow", no_wrap=True, overflow="ellipsis")


def _tabs(state: State) -> Text:
    line = Text("\n")
    for number, tab in enumerate(TABS, 1):
        line.append(f" {number} {tab} ", "reverse bold" if tab == state.tab else "").append(" ")
    if state.tab == "jobs" and state.filter:
        line.append(f"  {state.filter}", "cyan")
    return line


def _table(rows: list[Row], state: State, height: int) -> RenderableType:
    if not rows:
        return Text("\n  nothing here\n", "bright_black")
    first = max(0, min(state.cursor - height // 2, len(rows) - height))
    grid = Table(box=None, expand=True, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    grid.add_column("", width=1)
    columns = COLUMNS[state.tab]
    for place, name in enumerate(columns):
        last = place == len(columns) - 1
        justify: Literal["left", "right"] = "right" if name in NUMBERS else "left"
        grid.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", ratio=1 if last else None)
    for place, row in enumerate(rows[first : first + height], first):
        mark = "x" if row.key in state.chosen else ""
        style = f"{row.style} reverse".strip() if place == state.cursor else row.style
        grid.add_row(Text(mark), *(Text(output.one_line(cell)) for cell in row.cells), style=style)
    return grid


def _cut(text: str, lines: int) -> Text:
    kept = [output.one_line(line) for line in text.splitlines()[: max(1, lines)]]
    return Text("\n".join(kept))


def _foot(screen: Screen, state: State) -> Text:
    if state.typing is not None:
        return Text(f"\nfilter: {state.typing}█", "cyan")
    if state.asking is not None:
        return Text(f"\n{question(state.asking)}", "bold red")
    if screen.failure:
        return Text(f"\n{output.one_line(screen.failure)}", "red")
    if state.said:
        return Text(f"\n{output.one_line(state.said)}", "green")
    keys = "  ".join(f"{key} {what}" for key, what in ACTIONS[state.tab].items())
    still = "STILL  " if state.still else ""
    return Text(f"\n{still}{keys}   enter look  x choose  / filter  space still  ? keys  q quit", "bright_black")


def _help() -> Text:
    lines = list(_KEYS)
    for tab, actions in ACTIONS.items():
        lines += [f"{tab + ':':<12} {key}  {what}" for key, what in actions.items()]
    return Text("\n".join(lines))
