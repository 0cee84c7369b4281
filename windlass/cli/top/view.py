"""The screen of ``windlass top``, made of what was read last. Texts of users are never taken for markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from windlass.cli import output
from windlass.cli.top.model import ACTIONS, TABS, Row, State, question
from windlass.cli.top.rows import ACCENTS, COLUMNS, NUMBERS, SPARE, spark
from windlass.console.replies import Overview

_KEYS = (
    "1-6, tab, arrows   another table",
    "j k, arrows        another row",
    "x                  choose a row; actions are then for all that are chosen",
    "enter              look closer: the jobs of a row, or a job",
    "/                  filter jobs: state:failed task:mail.send",
    "esc                back; forget choice and filter",
    "space              stop reading, and go on",
    "q, Ctrl-C          leave",
    "",
)
_AROUND = 5
"""Lines of the screen that are neither table nor text: the head, the warning, the tabs, a space, and the foot."""

_GAP, _MARK = 2, 1
_LEAST = 24
"""Characters that the last column of a table gets before others have to go."""


class Screen(msgspec.Struct, kw_only=True):
    """What was read last. ``part``: how many there are of which the rows are part. ``failure``: why the read after it
    failed.
    """

    overview: Overview | None = None
    rows: list[Row] | None = None
    part: str = ""
    detail: str = ""
    failure: str = ""


def draw(screen: Screen, state: State, width: int, height: int) -> RenderableType:
    """The whole screen, for a terminal of so many columns and lines; its last line is at the bottom."""
    room = max(3, height - _AROUND)
    body: RenderableType
    if state.help:
        body = Panel(_help(), title="keys", title_align="left", height=room)
    elif state.detail:
        lines = folded(screen.detail, width - 4)[state.scroll :][: room - 2]
        body = Panel(Text("\n".join(lines), no_wrap=True), title=Text(state.detail), title_align="left", height=room)
    elif screen.rows:
        body = _table(screen.rows, state, width, room)
    else:
        text = "  reading …" if screen.rows is None else "  nothing here"
        body = Text("\n" + text + "\n" * (room - 2), "bright_black")
    head = (_head(screen.overview, width), _warnings(screen.overview), _tabs(screen, state))
    return Group(*head, body, _foot(screen, state, width))


def draw_once(screen: Screen, width: int) -> RenderableType:
    """The screen for a pipe: no keys, and all rows."""
    state, rows = State(cursor=-1), screen.rows or []
    return Group(_head(screen.overview, width), _warnings(screen.overview), _table(rows, state, width, len(rows) + 1))


def most_scroll(screen: Screen, width: int, height: int) -> int:
    """How far a text can be scrolled and still fill the screen."""
    return max(0, len(folded(screen.detail, width - 4)) - max(1, height - _AROUND - 2))


def _head(overview: Overview | None, width: int) -> Text:
    line = Text("windlass top  ", "bold", no_wrap=True, overflow="ellipsis")
    if overview is None:
        return line.append("reading …", "bright_black")
    counts = overview.counts
    for name in ("ready", "running", "scheduled", "failed"):
        line.append(f"{counts.get(name, 0):,} ", output.COLOURS[name] + " bold").append(f"{name}  ", "bright_black")
    line.append(f"{overview.busy}/{overview.slots} ", "bold").append("slots  ", "bright_black")
    line.append(f"{overview.workers} ", "bold")
    line.append(f"worker{'' if overview.workers == 1 else 's'}  ", "bright_black")
    bars = [sum(point.counts.values()) for point in overview.chart.points]
    left = width - line.cell_len
    return line.append(spark(bars[-left:]), "green") if left >= 10 else line


def _warnings(overview: Overview | None) -> Text:
    found = overview.warnings if overview is not None else []
    if not found:
        return Text("")
    worst = min(found, key=lambda warn: not warn.serious)
    more = f"  (and {len(found) - 1} more)" if len(found) > 1 else ""
    colour = "red" if worst.serious else "yellow"
    return Text(f"! {output.one_line(worst.text)}{more}", colour, no_wrap=True, overflow="ellipsis")


def _tabs(screen: Screen, state: State) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for number, tab in enumerate(TABS, 1):
        line.append(f" {number} {tab} ", "reverse bold" if tab == state.tab else "")
    if state.tab == "jobs" and state.filter:
        line.append(f"  {output.one_line(state.filter)}", "cyan")
    return line.append(f"  {screen.part}", "bright_black") if screen.part else line


# -- the table


def _table(rows: Sequence[Row], state: State, width: int, height: int) -> RenderableType:
    """The table, no higher than there is room for, with the cursor's row in it."""
    most = max(1, height - 1)
    first = max(0, min(state.cursor - most // 2, len(rows) - most))
    shown = rows[first : first + most]
    columns = COLUMNS[state.tab]
    kept, room = fitting(columns, [row.cells for row in shown], SPARE[state.tab], width - _MARK - _GAP)
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    grid.add_column("", width=_MARK)
    for place in kept:
        justify: Literal["left", "right"] = "right" if columns[place] in NUMBERS else "left"
        last = room if place == kept[-1] and columns[place] not in NUMBERS else None
        grid.add_column(columns[place], justify=justify, no_wrap=True, overflow="ellipsis", width=last)
    for number, row in enumerate(shown, first):
        cells = [Text(output.one_line(row.cells[place])) for place in kept]
        chosen = row.key in state.chosen
        if (accent := columns.index(ACCENTS[state.tab])) in kept and row.style:
            cells[kept.index(accent)].stylize(row.style)
        style = "reverse" if number == state.cursor else "bold" if chosen else ""
        grid.add_row(Text("x" if chosen else ""), *cells, style=style)
    blank = most - len(shown)
    return Group(grid, Text("\n" * (blank - 1))) if blank and state.cursor >= 0 else grid


def fitting(
    columns: Sequence[str], rows: Iterable[Sequence[str]], spare: Sequence[str], width: int
) -> tuple[list[int], int]:
    """The columns that fit, and the width of the last one, which alone is cut."""
    lines = list(rows)
    widths = [
        max([len(name), *(cell_len(output.one_line(line[place])) for line in lines)])
        for place, name in enumerate(columns)
    ]
    least = [*widths[:-1], min(widths[-1], _LEAST)]
    kept = list(range(len(columns)))
    for name in spare:
        if sum(least[place] + _GAP for place in kept) - _GAP <= width:
            break
        kept.remove(columns.index(name))
    room = width - sum(widths[place] + _GAP for place in kept[:-1])
    return kept, max(room, len(columns[kept[-1]]))


# -- texts


def folded(text: str, width: int) -> list[str]:
    """The lines of a text, long ones split over several."""
    wide = max(width, 1)
    lines = [output.one_line(line, 10_000) for line in text.splitlines()]
    return [line[start : start + wide] for line in lines for start in range(0, max(len(line), 1), wide)]


def _foot(screen: Screen, state: State, width: int) -> Text:
    if state.typing is not None:
        return _last(f"filter: {state.typing}█", "cyan")
    if state.asking is not None:
        return _last(question(state.asking), "bold red")
    if state.said:
        return _last(state.said, "green")
    if screen.failure:
        return _last(screen.failure, "red")
    return _last(hints(state, width), "bright_black")


def _last(text: str, style: str) -> Text:
    return Text("\n" + output.one_line(text), style, no_wrap=True, overflow="ellipsis")


def hints(state: State, width: int) -> str:
    """The keys that work here, as many as fit; always those for leaving and for the list of all keys."""
    if state.help:
        return "any key goes back"
    actions = ACTIONS["jobs" if state.detail else state.tab]
    found = ["STILL"] if state.still else []
    found += [f"{key} {what}" for key, what in actions.items()]
    always = ["esc back", "? keys"] if state.detail else ["? keys", "q quit"]
    for more in ["j k scroll"] if state.detail else ["enter look", "/ filter", "x choose", "space still"]:
        if len("  ".join([*found, more, *always])) <= width:
            found.append(more)
    return "  ".join([*found, *always])


def _help() -> Text:
    lines = [
        f"{tab + ':':<11} " + ", ".join(f"{key} {what}" for key, what in actions.items())
        for tab, actions in ACTIONS.items()
        if actions
    ]
    return Text("\n".join([*_KEYS, *lines]), no_wrap=True, overflow="ellipsis")
