"""``windlass audit``: who did what, by the dashboard, its API, the terminal and the commands."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli import output
from windlass.cli.operator import operator
from windlass.cli.target import Target, run, takes_app
from windlass.console.replies import AuditList, AuditRow
from windlass.core.duration import from_ms

MOST = 1_000


@click.command()
@takes_app()
@click.option(
    "--limit", type=click.IntRange(1, MOST), default=50, show_default=True, metavar="N", help="At most so many."
)
@click.option("--after", default="", metavar="CURSOR", help="Go on behind an earlier page.")
def audit(target: Target, as_json: bool, limit: int, after: str) -> None:
    """Show who did what, the newest first. Records are kept for 90 days."""
    app = target.load()

    async def read() -> AuditList:
        console, rows, cursor = operator(app), list[AuditRow](), after
        while True:
            page = await console.audit(cursor, limit - len(rows))
            rows, cursor = [*rows, *page.rows], page.cursor
            if not cursor or len(rows) >= limit:
                return AuditList(rows=rows, cursor=cursor)

    page = run(app, read)
    if as_json:
        output.print_json(page)
        return
    if page.rows:
        columns = ("when", "who", "via", "action", "target", "jobs", "outcome")
        output.table(columns, [_row(row) for row in page.rows], right=("jobs",), spare=("via", "jobs"))
    else:
        output.note("nothing has been done yet" if not after else "there is no more")
    if page.cursor:
        output.note(f"more with --after {page.cursor}")


def _row(row: AuditRow) -> tuple[Any, ...]:
    from rich.text import Text

    at = from_ms(row.at)
    when = f"{at.astimezone():%Y-%m-%d %H:%M:%S}" if at is not None else ""
    colour = "green" if row.outcome == "done" else "yellow" if row.outcome == "begun" else "red"
    details = ", ".join(f"{name} {_shown(value)}" for name, value in row.details.items() if value not in ("", None, []))
    outcome = Text(output.one_line(row.outcome), colour)
    return (
        when, row.user, row.via, row.action, output.one_line(row.target), row.count or "",
        outcome.append(f"  {output.one_line(details)}" if details else "", "bright_black"),
    )  # fmt: skip


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
