"""Backlogs. One is filled once per run, kept as a template (files, or a server's dump) and copied for every trial."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness import paths, space
from benchmarks.harness.envs import Environment
from benchmarks.harness.process import ask
from benchmarks.harness.space import Space
from benchmarks.peers.model import Contender


@contextmanager
def ready(environment: Environment, contender: Contender, count: int, scheduled: int = 0) -> Iterator[Space]:
    """A space whose store holds `count` ready jobs, and `scheduled` ones that are not due for a day."""
    template = _template(environment, contender, count, scheduled)
    if contender.store.server:
        with space.fresh(contender, template / "dump.rdb") as place:
            yield place
        return
    with space.fresh(contender) as place:
        shutil.rmtree(place.data)
        shutil.copytree(template / "data", place.data)
        _sync(place.data)
        yield place


def _template(environment: Environment, contender: Contender, count: int, scheduled: int) -> Path:
    folder = paths.WORK / "backlogs" / _name(contender, count, scheduled)
    if not (folder / "full").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with space.fresh(contender) as place:
            _fill(environment, contender, place, count, scheduled)
            if place.server:
                shutil.move(place.server.dump(), folder / "dump.rdb")
            else:
                shutil.move(place.data, folder / "data")
        (folder / "full").touch()
    return folder


def _name(contender: Contender, count: int, scheduled: int) -> str:
    variables = contender.variables()
    parts = [contender.peer.name, contender.store.label, str(count), str(scheduled)]
    return "-".join(parts + [variables[name] for name in contender.peer.fill_depends])


def _fill(environment: Environment, contender: Contender, place: Space, count: int, scheduled: int) -> None:
    # Filled at the fast setting: durability is a property of the connection, not of the file.
    if scheduled:
        ask(environment, contender, place, "fill_scheduled", {"count": scheduled}, BENCH_DURABILITY="relaxed")
    ask(environment, contender, place, "fill", {"count": count}, BENCH_DURABILITY="relaxed")


def forget() -> None:
    """Removes this run's templates and what runs that were killed left behind."""
    for folder in paths.SCRATCH.glob("*"):
        if folder == paths.WORK or not Path(f"/proc/{folder.name}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _sync(folder: Path) -> None:
    """Flushes the copies; else the first sync of the trial would pay for them."""
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
