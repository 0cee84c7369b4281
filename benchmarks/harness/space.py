"""The scratch folder of one trial, with a server where the contender needs one."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.apps import marks
from benchmarks.harness import paths
from benchmarks.harness.server import Server, running
from benchmarks.peers.model import Contender


@dataclass(frozen=True)
class Space:
    """Where a trial keeps its data: a folder with `data/` and a file of marks, and a server or none."""

    path: Path
    server: Server | None = None

    @property
    def data(self) -> Path:
        """What an embedded store writes to."""
        return self.path / "data"

    @property
    def marks(self) -> Path:
        """The shared file in which jobs are counted."""
        return self.path / "marks"

    def variables(self) -> dict[str, str]:
        """What an app module is told of it."""
        url = self.server.url if self.server else ""
        return {"BENCH_DIR": str(self.data), "BENCH_MARKS": str(self.marks), "BENCH_URL": url}


@contextmanager
def fresh(contender: Contender, dump: Path | None = None) -> Iterator[Space]:
    """An empty space, gone afterwards; `dump` is what its server starts with."""
    path = paths.WORK / "trial"
    shutil.rmtree(path, ignore_errors=True)
    (path / "data").mkdir(parents=True)
    marks.create(path / "marks")
    try:
        if contender.store.server:
            with running(path / "server", dump) as started:
                yield Space(path, started)
        else:
            yield Space(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
