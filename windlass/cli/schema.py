"""``windlass schema``: JSON Schema of tasks, for other languages, forms and checks. Needs the app, and no store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from windlass.calls.schema import task_schema
from windlass.cli import output
from windlass.cli.enqueue import task_name
from windlass.cli.errors import CliError
from windlass.cli.target import Target, takes_app
from windlass.operate.notices import TASK as NOTICE

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


@click.command()
@takes_app("[TASK]...", by_url=False)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER", help="Write a file for each task."
)
def schema(target: Target, as_json: bool, words: list[str], out: Path | None) -> None:
    """Write JSON Schema of the arguments and results of tasks, for every version.

    Without TASK: of every task the app declares. What is printed is one JSON document, with and
    without --json. A task may be named by its last part where that is unique.

    \b
      windlass schema shop:app > tasks.json
      windlass schema shop:app send_email
      windlass schema shop:app --out schemas/
    """
    app = target.load(tasks=True)
    every = [name for name in sorted(app.tasks) if name != NOTICE]  # Windlass's own, for no other program
    names = list(dict.fromkeys(task_name(app, word, "", target.spec) for word in words)) or every
    found = {name: task_schema(app.tasks[name]) for name in names}
    if out is None:
        output.print_json(found)
        return
    written = _write(out, found)
    if as_json:
        output.print_json({"written": {name: str(path) for name, path in written.items()}})
    else:
        for name, path in written.items():
            click.echo(f"{name}  {click.style(str(path), fg='green')}")


def _write(folder: Path, found: Mapping[str, Any]) -> dict[str, Path]:
    """Write a file per task. Names that no file can have are spelled differently, each in its own way."""
    written: dict[str, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, schema in found.items():
            path = folder / f"{_UNSAFE.sub(lambda char: f'%{ord(char[0]):02x}', name)}.json"
            path.write_text(output.pretty(schema) + "\n", encoding="utf-8")
            written[name] = path
    except OSError as error:
        raise CliError(f"cannot write to {folder}: {error.strerror or error}") from error
    return written
