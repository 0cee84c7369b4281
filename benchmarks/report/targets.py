"""What Windlass sets out to reach: ratios to a peer of the same run or to itself, and plain bounds."""

from dataclasses import dataclass

BEST_PEER = ""
BEST_PYTHON = "the best Python peer"
NOBODY = "nobody"


@dataclass(frozen=True)
class Target:
    """A bound on `subject / baseline` for one metric of one scenario.

    No baseline means the best peer; with NOBODY the bound is on the subject's own figure.
    """

    scenario: str
    metric: str
    at_least: float | None = None
    at_most: float | None = None
    subject: str = "windlass"
    baseline: str = BEST_PEER

    @property
    def plain(self) -> bool:
        """Whether the figure itself is bounded."""
        return self.baseline == NOBODY

    def met(self, value: float) -> bool:
        """Whether a ratio, or a plain figure, keeps the bound."""
        if self.at_least is not None:
            return value >= self.at_least
        return self.at_most is None or value <= self.at_most

    def __str__(self) -> str:
        sign = "" if self.plain else "×"
        if self.at_least is not None:
            return f"≥ {self.at_least:g}{sign}"
        return "" if self.at_most is None else f"≤ {self.at_most:g}{sign}"


# The bounds are the project's own targets and are not tuned to what was measured: a miss is reported as one. "Full"
# compares Windlass and its peers with the same durability; "relaxed" compares synchronous=NORMAL with whatever a peer's
# faster setting is, which for Huey is synchronous=OFF and so promises less.
def _flow(subject: str, at_least: float, baseline: str = "windlass plain", scenario: str = "flow:lanes") -> Target:
    return Target(scenario, "rate", at_least=at_least, subject=subject, baseline=baseline)


FLOW = (
    _flow("windlass @ 10", 0.5),
    _flow("windlass @ 100,000", 0.5),
    _flow("windlass @ 100,000", 0.9, baseline="windlass @ 10"),
    Target("flow:schedules", "idle cpu", at_most=1, subject="windlass schedules", baseline=NOBODY),
)

TELEMETRY = (
    Target("telemetry", "rate", at_least=0.9, subject="windlass charts", baseline="windlass off"),
    Target("telemetry", "rate", at_least=0.9, subject="windlass metrics", baseline="windlass off"),
    Target("telemetry", "rate", at_least=0.8, subject="windlass traced", baseline="windlass off"),
)

SQLITE = (
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
    *FLOW,
    *TELEMETRY,
)


def _flat(scenario: str, size: int) -> Target:
    return Target(scenario, "rate", at_least=0.9, subject=f"windlass @ {size:,}", baseline="windlass @ 10,000")


REDIS = (
    Target("enqueue:sync", "rate", at_least=1),
    Target("enqueue:async", "rate", at_least=1),
    Target("concurrent", "rate", at_least=2, baseline="bullmq"),
    Target("bulk", "rate", at_least=3, baseline="bullmq"),
    Target("drain:1:results", "rate", at_least=3, baseline="bullmq"),
    Target("drain:1:results", "rate", at_least=15, baseline=BEST_PYTHON),
    Target("drain:1:no-results", "rate", at_least=3, baseline="bullmq"),
    Target("drain:1:no-results", "rate", at_least=15, baseline=BEST_PYTHON),
    Target("latency:idle", "p50", at_most=0.8, baseline="huey"),
    Target("latency:idle", "p99/p50", at_most=3, baseline=NOBODY),
    *(
        Target(f"workflow:{shape}", "time", at_most=bound, baseline=peer)
        for shape in ("chain", "group", "chord", "tree")
        for peer, bound in (("celery", 0.1), ("bullmq", 1.0))
    ),
    Target("flow:priority", "rate", at_least=1, baseline="bullmq"),
    Target("flow:rate", "rate", at_least=1, baseline="bullmq"),
    *FLOW,
    *TELEMETRY,
    Target("workflow:huge", "body after", at_most=1000, baseline=NOBODY),
    Target("workflow:huge", "longest call", at_most=20, baseline=NOBODY),
    Target("io", "to ideal", at_most=1.15, baseline=NOBODY),
    Target("memory", "idle", at_most=45, baseline=NOBODY),
    Target("memory", "after/loaded", at_most=1.1, baseline=NOBODY),
    Target("space", "per job", at_most=350, baseline=NOBODY),
    *(_flat(f"growth:{what}", size) for what in ("drain", "enqueue", "scheduled") for size in (100_000, 1_000_000)),
)
