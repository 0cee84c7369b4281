"""Writes a run's page and drawings beside its JSON and, when asked, into the documentation."""

import json
from pathlib import Path
from typing import Any

from benchmarks.harness import paths
from benchmarks.report import drawings, markdown


def write(run: dict[str, Any], folder: Path, docs: bool) -> None:
    """The page and the drawings of a run, in `folder` and maybe in docs/benchmarks."""
    made = drawings.draw(run)
    page = markdown.render(run, list(made))
    for place in [folder, paths.DOCS] if docs else [folder]:
        place.mkdir(parents=True, exist_ok=True)
        (place / "README.md").write_text(page)
        for name, drawing in made.items():
            (place / f"{name}.svg").write_text(drawing)
    print(page)
    print(f"written to {folder.relative_to(paths.REPOSITORY)}" + (" and docs/benchmarks" if docs else ""))


def again(file: str, docs: bool) -> int:
    """Makes the report of an earlier run again."""
    path = Path(file).resolve()
    write(json.loads(path.read_text()), path.with_suffix(""), docs)
    return 0
