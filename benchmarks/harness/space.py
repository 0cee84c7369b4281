"""Scratch folders and backlogs. A backlog is filled once, kept as a template and copied for every trial of it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.apps import marks
from benchmarks.harness import paths
from benchmarks.harness.envs import Environment
from benchmarks.harness.process import ask
from benchmarks.peers.model import Contender


@contextmanager
def fresh() -> Iterator[Path]:
    """An empty folder with `data/` and a file of marks, gone afterwards."""
    space = paths.WORK / "trial"
    shutil.rmtree(space, ignore_errors=True)
    (space / "data").mkdir(parents=True)
    marks.create(space / "marks")
    try:
        yield space
    finally:
        shutil.rmtree(space, ignore_errors=True)


@contextmanager
def with_backlog(environment: Environment, contender: Contender, count: int) -> Iterator[Path]:
    """A folder whose store holds `count` ready jobs, written out to the disk before the trial starts."""
    template = _template(environment, contender, count)
    with fresh() as space:
        shutil.rmtree(space / "data")
        shutil.copytree(template / "data", space / "data")
        _sync(space / "data")
        yield space


def _template(environment: Environment, contender: Contender, count: int) -> Path:
    variables = contender.variables()
    parts = [contender.peer.name, contender.store.label, str(count)]
    parts += [variables[name] for name in contender.peer.fill_depends]
    folder = paths.WORK / "backlogs" / "-".join(parts)
    if not (folder / "full").exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "data").mkdir(parents=True)
        marks.create(folder / "marks")
        # Filled at the fast setting: durability is a property of the connection, not of the file.
        ask(environment, contender, folder, "fill", {"count": count}, BENCH_DURABILITY="relaxed")
        (folder / "full").touch()
    return folder


def forget_backlogs() -> None:
    """Removes all templates, so that no run measures a file another version wrote."""
    shutil.rmtree(paths.WORK, ignore_errors=True)


def _sync(folder: Path) -> None:
    """Flushes the copies; else the first sync of the trial would pay for them."""
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
