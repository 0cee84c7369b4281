"""The trial's settings, handed to a peer's environment as variables. Reads the environment and nothing else."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """What one trial asks of a job system."""

    directory: Path
    durability: str
    results: bool
    store: str
    kind: str
    url: str
    work: str
    flow: str
    concurrency: int

    @property
    def wide_url(self) -> str:
        """The server for clients that open a connection per worker; redis-py's own limit is 100."""
        return f"{self.url}?max_connections=1000"

    @property
    def full(self) -> bool:
        """Whether every accepted job must survive a power cut."""
        return self.durability == "full"


def read() -> Settings:
    """The settings of this process."""
    return Settings(
        directory=Path(os.environ["BENCH_DIR"]),
        durability=os.environ.get("BENCH_DURABILITY", "full"),
        results=os.environ.get("BENCH_RESULTS", "1") == "1",
        store=os.environ.get("BENCH_STORE", ""),
        kind=os.environ.get("BENCH_KIND", ""),
        url=os.environ.get("BENCH_URL", ""),
        work=os.environ.get("BENCH_WORK", "noop"),
        flow=os.environ.get("BENCH_FLOW", ""),
        concurrency=int(os.environ.get("BENCH_CONCURRENCY") or 0) or 100,
    )
