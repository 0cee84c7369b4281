"""What commands print: JSON for programs, tables and short texts for people. Rich is imported when it is used."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from windlass.core.duration import show_ms

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

COLOURS = {
    "ready": "cyan",
    "running": "blue",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "skipped": "yellow",
    "scheduled": "magenta",
    "waiting": "magenta",
}
_PIPED_WIDTH = 1_000
_GAP = 2
_LEAST = 8


def print_json(value: Any, *, line: bool = False) -> None:
    """One JSON document; ``line`` keeps it on one line and sends it at once, for streams."""
    data = msgspec.json.encode(value, enc_hook=str)
    click.echo(data.decode() if line else msgspec.json.format(data, indent=2).decode())
    if line:
        sys.stdout.flush()


def console() -> Console:
    """The terminal. Output into a pipe is not cut."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = (), spare: Sequence[str] = ()
) -> None:
    """A table without lines, one line per row.

    ``right`` names the columns of numbers. Where the terminal is too narrow, the ``spare`` columns go one by one, then
    the last one is cut; no other is, as half an id is of no use.
    """
    from rich.table import Table
    from rich.text import Text

    lines = [[cell if isinstance(cell, Text) else Text(str(cell)) for cell in row] for row in rows]
    terminal = console()
    kept, room = _fitting(columns, lines, spare, terminal.width)
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for place in kept:
        name = columns[place]
        grid.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for line in lines:
        line[-1].truncate(room, overflow="ellipsis")
        grid.add_row(*(line[place] for place in kept))
    terminal.width = max(terminal.width, _PIPED_WIDTH)
    terminal.print(grid, soft_wrap=True)


def _fitting(
    columns: Sequence[str], lines: list[list[Text]], spare: Sequence[str], width: int
) -> tuple[list[int], int]:
    """The columns that fit, and the width of the last one."""
    widths = [max([len(name), *(line[place].cell_len for line in lines)]) for place, name in enumerate(columns)]
    kept = list(range(len(columns)))
    for name in spare:
        if sum(widths[place] + _GAP for place in kept) <= width:
            break
        kept.remove(columns.index(name))
    room = width - sum(widths[place] + _GAP for place in kept[:-1])
    return kept, max(room, _LEAST)


def escape(value: object) -> str:
    """Text as it is, with nothing taken for markup."""
    from rich.markup import escape as escape_markup

    return escape_markup(str(value))


def state(name: str) -> Text:
    """A state in its colour."""
    from rich.text import Text

    return Text(name, COLOURS.get(name, ""))


def fields(pairs: Iterable[tuple[str, Any]]) -> None:
    """Names and values below each other; empty values are left out."""
    from rich.table import Table

    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(style="bright_black", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, ""):
            grid.add_row(name, value if hasattr(value, "plain") else escape(value))
    console().print(grid)


def section(title: str, text: str) -> None:
    """A titled block of text, printed as it is."""
    click.echo(f"\n{click.style(title, bold=True)}")
    for line in text.rstrip("\n").splitlines():
        click.echo(f"  {line}")


def one_line(text: str, most: int = 500) -> str:
    """Text without characters that move the cursor or ring the bell, as users' texts go to a terminal."""
    return "".join(char if char.isprintable() else " " for char in text[:most])


def compact(value: Any, most: int = 0) -> str:
    """A value as JSON on one line, cut where ``most`` is given."""
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if not most or len(text) <= most else text[: most - 1] + "…"


def pretty(value: Any) -> str:
    """A value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()


def ago(at: datetime | None) -> str:
    """How long ago an instant was, or how far ahead it is."""
    if at is None:
        return ""
    ms = int((datetime.now(UTC) - at).total_seconds() * 1000)
    return f"{about(ms)} ago" if ms >= 0 else f"in {about(-ms)}"


def about(ms: int) -> str:
    """A duration in its largest unit, for ages."""
    return show_ms(ms).partition(" ")[0] if ms >= 60_000 else f"{ms // 1000}s"


def slots(busy: int, slots: int, ahead: int) -> str:
    """``20/20 +3``: busy slots, all slots, and jobs claimed ahead."""
    return f"{busy}/{slots}" + (f" +{ahead}" if ahead else "")


def clock(at: datetime | None) -> str:
    """Local time with its zone, and how long since."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S %Z} ({ago(at)})" if at else ""


def hour(ms: int) -> str:
    """A stored instant as local time of day, to the millisecond."""
    return f"{datetime.fromtimestamp(ms / 1000).astimezone():%H:%M:%S}.{ms % 1000:03}"


def note(text: str) -> None:
    """A remark for people, on standard error."""
    click.secho(text, fg="bright_black", err=True)
