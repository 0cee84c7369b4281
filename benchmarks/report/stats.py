"""Medians and ratios. A ratio is taken within a round, where both sides saw the same machine, and then summarised."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Spread:
    """A median with the smallest and largest of the rounds."""

    median: float
    low: float
    high: float
    rounds: int


def spread(values: Iterable[float]) -> Spread | None:
    """The summary of some values, or nothing when there are none."""
    found = list(values)
    return Spread(median(found), min(found), max(found), len(found)) if found else None


class Samples:
    """The samples of a run, by scenario, contender, metric and round."""

    def __init__(self, run: dict[str, Any]) -> None:
        self._values: dict[tuple[str, str, str], dict[int, float]] = {}
        self._about: dict[tuple[str, str], dict[str, Any]] = {}
        for sample in run["samples"]:
            key = (sample["scenario"], sample["contender"])
            runtime = sample.get("runtime", "python")
            self._about[key] = {"setting": sample["setting"], "bare": sample["bare"], "runtime": runtime}
            for metric, value in sample["metrics"].items():
                self._values.setdefault((*key, metric), {})[sample["round"]] = value

    def contenders(self, scenario: str) -> list[str]:
        """Who was measured, in order of appearance."""
        return [name for found, name in self._about if found == scenario]

    def setting(self, scenario: str, contender: str) -> str:
        """A contender's configuration in words."""
        return str(self._about[scenario, contender]["setting"])

    def bare(self, scenario: str, contender: str) -> bool:
        """Whether the contender is a queue without tasks and workers."""
        return bool(self._about[scenario, contender]["bare"])

    def value(self, scenario: str, contender: str, metric: str) -> Spread | None:
        """The contender's own figure."""
        return spread(self._values.get((scenario, contender, metric), {}).values())

    def ratio(self, scenario: str, metric: str, subject: str, baseline: str) -> Spread | None:
        """Subject over baseline, round by round."""
        above = self._values.get((scenario, subject, metric), {})
        below = self._values.get((scenario, baseline, metric), {})
        return spread(above[number] / below[number] for number in above if below.get(number))

    def best(self, scenario: str, metric: str, higher: bool, runtime: str = "") -> str | None:
        """The best job system other than Windlass, of one runtime or of all; bare queues do not count."""
        found: list[tuple[float, str]] = []
        for name in self.contenders(scenario):
            value = self.value(scenario, name, metric)
            if runtime and self._about[scenario, name]["runtime"] != runtime:
                continue
            if value and not name.startswith("windlass") and not self.bare(scenario, name):
                found.append((value.median, name))
        if not found:
            return None
        return max(found)[1] if higher else min(found)[1]
