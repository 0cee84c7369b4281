"""Watches Python files and calls back when one changes, for ``--reload`` in development.

It uses ``watchfiles`` where that is installed, and otherwise looks at modification times twice a second. It never
imports what it watches.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec

_POLL = 0.5
_DEBOUNCE_MS = 200
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})


class Watcher:
    """A thread that watches ``paths``, by default the working directory."""

    def __init__(self, paths: Sequence[str], on_change: Callable[[], None], *, poll: bool | None = None) -> None:
        self._paths = list(paths) or [os.getcwd()]
        self._on_change = on_change
        self._stop = threading.Event()
        use_polling = find_spec("watchfiles") is None if poll is None else poll
        target = self._poll if use_polling else self._watch
        self._thread = threading.Thread(target=target, name="windlass-reload", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _watch(self) -> None:
        from watchfiles import PythonFilter, watch

        for _changes in watch(
            *self._paths,
            watch_filter=PythonFilter(),
            stop_event=self._stop,
            debounce=_DEBOUNCE_MS,
            rust_timeout=500,
            raise_interrupt=False,
        ):
            self._on_change()

    def _poll(self) -> None:
        seen = modified_times(self._paths)
        while not self._stop.wait(_POLL):
            now = modified_times(self._paths)
            if now != seen:
                seen = now
                self._on_change()


def modified_times(paths: Sequence[str]) -> dict[str, int]:
    """The modification time of every Python file at or under the paths, without hidden and foreign folders."""
    found: dict[str, int] = {}
    for path in paths:
        if os.path.isfile(path):
            _note(path, found)
        for folder, names, files in os.walk(path):
            names[:] = [name for name in names if not name.startswith(".") and name not in _SKIPPED]
            for name in files:
                if name.endswith(".py"):
                    _note(os.path.join(folder, name), found)
    return found


def _note(path: str, found: dict[str, int]) -> None:
    try:
        found[path] = os.stat(path).st_mtime_ns
    except OSError:
        # The file went between listing and reading: its absence is the change.
        found.pop(path, None)
