"""Writes a run's page and drawings beside its JSON and, when asked, into the documentation."""

import json
from pathlib import Path
from typing import Any

from benchmarks import engines
from benchmarks.harness import paths
from benchmarks.report import drawings, markdown

# What people wrote below this line of a published page stays when the page is written again.
NOTES = "<!-- notes -->"


def write(run: dict[str, Any], folder: Path, docs: bool) -> None:
    """The page and the drawings of a run, in `folder` and maybe in the engine's folder of docs/benchmarks."""
    published = engines.of(run).docs
    made = drawings.draw(run)
    page = markdown.render(run, list(made))
    for place in [folder, published] if docs else [folder]:
        place.mkdir(parents=True, exist_ok=True)
        file = place / "README.md"
        file.write_text(page + (_notes(file) if place == published else ""))
        for name, drawing in made.items():
            (place / f"{name}.svg").write_text(drawing)
    print(page)
    also = f" and {published.relative_to(paths.REPOSITORY)}" if docs else ""
    print(f"written to {folder.relative_to(paths.REPOSITORY)}{also}")


def _notes(file: Path) -> str:
    _, mark, notes = file.read_text().partition(NOTES) if file.exists() else ("", "", "")
    return f"\n{mark}{notes}" if mark else ""


def again(file: str, docs: bool) -> int:
    """Makes the report of an earlier run again."""
    path = Path(file).resolve()
    write(json.loads(path.read_text()), path.with_suffix(""), docs)
    return 0
