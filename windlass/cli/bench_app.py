"""The app ``windlass bench`` measures: one task that does nothing, in a queue of its own."""

from __future__ import annotations

from windlass.app import Windlass

QUEUE = "windlass-bench"
TASK = "windlass.bench.nothing"


def make_app(url: str | None = None) -> Windlass:
    """The app around a store; the worker process gets the URL by its environment."""
    made = Windlass("windlass-bench", url)

    async def nothing() -> None:
        """Does nothing."""

    made.task(name=TASK, queue=QUEUE)(nothing)
    return made


app = make_app()
