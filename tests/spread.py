"""How `make test` spreads the tests over its processes, so that a machine of few cores is busy from beginning to end.

Most tests compute for some milliseconds; some hundred start processes and wait for them. One after the other, the first
would keep the cores busy and the second leave them idle. So a few processes take what computes first, and the others
what waits first; whoever is done with its own takes of the other's. What waits goes test by test, because one of them
may take half a minute; what computes goes in parcels, so that a file's fixtures are made once.
"""

from __future__ import annotations

import os
import re
from typing import Any
from zlib import crc32

from xdist.scheduler import LoadScopeScheduling

WAITING = ("browser", "faults", "worker", "docs", "celery", "observe")
"""The folders whose tests wait for processes, those with the longest first."""

PARCELS = 30
"""In so many go the rules of the conformance suite on one engine."""


def unit_of(nodeid: str) -> str:
    """What goes to one process in one piece: the tests with the same answer."""
    path, _, name = nodeid.partition("::")
    folder = folder_of(nodeid)
    if folder == "browser":  # a shop with its worker, dashboard and jobs is opened once for each engine
        return "browser on redis" if re.search(r"[\[-]redis", name) else "browser on sqlite"
    if folder == "conformance" and "::" in name:
        of, _, rule = name.partition("::")
        return f"{path}::{of} {crc32(rule.encode()) % PARCELS}"
    if folder in {"faults", "worker", "docs", "celery"}:
        return nodeid
    return path


def folder_of(name: str) -> str:
    """The folder below `tests` of a test, or of a unit."""
    if name.startswith("browser on "):
        return "browser"
    return name.removeprefix("tests/").partition("/")[0]


class Spread(LoadScopeScheduling):
    """pytest-xdist's scheduler that hands out units. What a unit is and who gets which is decided here.

    As many processes as there are cores begin with what computes, but one at least begins with what waits.
    """

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self.computing = min(os.cpu_count() or 1, self.numnodes - 1)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        begins = self.nodes.index(node) < self.computing
        self.workqueue.move_to_end(min(self.workqueue, key=lambda unit: rank(unit, begins)), last=False)
        super()._assign_work_unit(node)


def rank(unit: str, computes: bool) -> int:
    """The lower, the sooner; units of one rank go in the order of the collection."""
    folder = folder_of(unit)
    waits = WAITING.index(folder) if folder in WAITING else len(WAITING)
    return -(folder not in WAITING) if computes else waits
