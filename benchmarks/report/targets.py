"""What Windlass sets out to reach, as ratios to the best peer of the same run, or to itself."""

from dataclasses import dataclass

BEST_PEER = ""


@dataclass(frozen=True)
class Target:
    """A bound on `subject / baseline` for one metric of one scenario. No baseline means the best peer."""

    scenario: str
    metric: str
    at_least: float | None = None
    at_most: float | None = None
    subject: str = "windlass"
    baseline: str = BEST_PEER

    def met(self, ratio: float) -> bool:
        """Whether a ratio keeps the bound."""
        if self.at_least is not None:
            return ratio >= self.at_least
        return self.at_most is None or ratio <= self.at_most

    def __str__(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g}×"
        return "" if self.at_most is None else f"≤ {self.at_most:g}×"


TARGETS = (
    Target("enqueue:full", "rate", at_least=1),
    Target("enqueue:relaxed", "rate", at_least=0.5),
    Target("concurrent:full", "rate", at_least=5),
    Target("concurrent:relaxed", "rate", at_least=1),
    Target("bulk:full", "rate", at_least=5),
    Target("bulk:relaxed", "rate", at_least=1.5),
    Target("drain:full:results", "rate", at_least=5),
    Target("drain:full:no-results", "rate", at_least=5),
    Target("drain:relaxed:results", "rate", at_least=2),
    Target("drain:relaxed:no-results", "rate", at_least=2),
    Target("latency:full", "p50", at_most=1),
    Target("latency:full", "p99", at_most=1),
    Target("latency:relaxed", "p50", at_most=1),
    Target("latency:relaxed", "p99", at_most=1),
    Target("startup", "time", at_most=3),
    Target("memory", "idle", at_most=2),
    Target("memory", "worked", at_most=3),
    Target("memory", "idle cpu", at_most=1),
    Target("growth", "rate", at_least=0.8, subject="windlass @ 100,000", baseline="windlass @ 10,000"),
    Target("growth", "rate", at_least=0.8, subject="windlass @ 1,000,000", baseline="windlass @ 10,000"),
    Target("inprocess", "rate", at_least=0.25, baseline="asyncio, batches"),
)
