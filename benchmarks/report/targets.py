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


# The bounds are the project's own targets and are not tuned to what was measured: a miss is reported as one. "Full"
# compares Windlass and its peers with the same durability; "relaxed" compares synchronous=NORMAL with whatever a peer's
# faster setting is, which for Huey is synchronous=OFF and so promises less.
TARGETS = (
    Target("enqueue:full", "rate", at_least=1),
    Target("enqueue:relaxed", "rate", at_least=1),
    Target("bulk:full", "rate", at_least=5),
    Target("bulk:relaxed", "rate", at_least=5),
    Target("drain:full:results", "rate", at_least=8),
    Target("drain:full:no-results", "rate", at_least=8),
    Target("drain:relaxed:results", "rate", at_least=8),
    Target("drain:relaxed:no-results", "rate", at_least=8),
    Target("latency:full", "p50", at_most=0.6),
    Target("latency:relaxed", "p50", at_most=0.6),
    Target("growth", "rate", at_least=0.9, subject="windlass @ 100,000", baseline="windlass @ 10,000"),
    Target("growth", "rate", at_least=0.9, subject="windlass @ 1,000,000", baseline="windlass @ 10,000"),
)
