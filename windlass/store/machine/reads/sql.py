"""The statements of listings and summaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class FindSql(Protocol):
    """Pages of jobs."""

    THESE: str
    """JSON of numbers → rows of these jobs (those of ``RowSql``), in any order"""
    FIRST_SINCE: str
    """number → (number, when it was accepted) of the first job with this number or a larger one"""
    SMALLEST: str
    """→ the smallest number of a job, 1 for none"""
    BEHIND_LARGEST: str
    """→ the number behind the largest of a job, 1 for none"""


class WalkSql(Protocol):
    """Where a listing looks."""

    BY_STATE: str
    """→ (state, how many jobs are in it), as kept before this transaction"""
    BY_STATE_IN: str
    """queue → the same of a queue"""
    KNOWN_TASK: str
    """task → a row if there ever was a job of it"""

    def look(self, among: Sequence[str], equal: Sequence[str], states: Sequence[int], oldest_first: bool) -> str:
        """A statement that looks at the next jobs by number, and takes its values by name.

        low, high, size, and queue, task, fingerprint, worker → JSON of the numbers that fit, how many jobs were looked
        at, and the number of the last one of these (NULL for none). It looks at ``size`` jobs whose numbers are between
        ``low`` and ``high``, in order; the first ones, or unless ``oldest_first`` the last ones. ``among`` says which
        jobs there are to look at, and should be answered by an index: all if it is empty; else those of any of these:
        "scheduled", "ready", "running", "failed", "cancelled", "skipped"; "ready in" the queue; "of worker": running
        there; "of task", "of fingerprint": failed. Those fit that are the same as the values of these names
        (``equal``), and whose state is one of these, unless there are no ``states``. Numbers that fit may be in any
        order."""


class SummarySql(Protocol):
    """What is said of many jobs at once."""

    COUNTS: str
    """→ (queue, state, how many), also of none, in the order of queues and states"""
    OLDEST: str
    """→ (queue, when one of its first ready jobs was accepted, the earliest of: the first in ready order, of those set
    aside, of those that run alone, of those in lanes) of the queues that have ready jobs"""
    LANES: str
    """→ (queue, how many of its lanes have ready jobs)"""
    FAULTS: str
    """limit → (fingerprint, how many dead letters have it, id of the newest of these), the most frequent first, of
    equally frequent ones that with the newest job first"""
    WORKERS: str
    """→ (what it said of itself, last beat, whether it is dead, lease, when that is over, whether it is idle, how many
    jobs it runs) of all workers, in order of numbers"""


class NewsSql(Protocol):
    """The event stream."""

    TOTALS: str
    """→ (kind, queue, task, how many events there ever were), in the order of queues, tasks and kinds"""

    def newest(self, kinds: int) -> str:
        """so many kinds, each as ",kind," → (number, instant, JSON of groups) of the newest entry that has any of
        these, or of the newest of all where no kinds are given"""

    def behind(self, kinds: int) -> str:
        """kinds as before, number, limit → the same of the entries behind that number, in order"""
