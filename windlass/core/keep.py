"""Retention: how many finished jobs are kept, and for how long.

A finished job is filed in a *bucket* that is named by its limits and scope. So the oldest member of a bucket is always
the next to go, by count and by age, and one index serves both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from windlass.core.duration import Duration, to_ms
from windlass.errors import ConfigError

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep at most ``count`` finished jobs, each for at most ``age``; None sets no limit.

    ``Keep(...)`` applies to succeeded jobs and, unless ``failed=`` is given, to failed ones as well.
    """

    count: int | None = None
    age: Duration | None = None
    failed: Keep | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 0:
            raise ConfigError(f"Keep.count is {self.count!r}; give a whole number of 0 or more")
        if self.age is not None:
            to_ms(self.age, "Keep.age")

    def buckets(self, scope: str) -> tuple[str, str]:
        """The bucket names for succeeded and for failed jobs of a scope."""
        return self._bucket(scope), (self.failed or self)._bucket(scope)

    def _bucket(self, scope: str) -> str:
        count = UNLIMITED if self.count is None else self.count
        age = UNLIMITED if self.age is None else to_ms(self.age)
        return f"{count}|{age}|{scope}"


class Bucket(NamedTuple):
    """A bucket's limits, read back from its name; -1 is no limit."""

    limit: int
    age: int
    scope: str

    def weight(self, nodes: int) -> int:
        """What a workflow of so many nodes counts for: each of its nodes where the scope begins with ``#``, elsewhere
        one, as a job does."""
        return nodes if self.scope.startswith("#") else 1

    def is_over(self, weight: int, many: int) -> bool:
        """Whether the oldest must go because what is in the bucket weighs more than the limit; ``many`` is how many are
        in it. The last workflow stays, however large it is: who waits for it has yet to read its value."""
        stay = 1 if self.scope.startswith("#") and self.limit > 0 else 0
        return self.limit != UNLIMITED and weight > self.limit and many > stay

    def is_past(self, finished_at: int, now: int) -> bool:
        """Whether what ended then is past the age."""
        return self.age != UNLIMITED and finished_at + self.age <= now


def read_bucket(name: str) -> Bucket:
    count, age, scope = name.split("|", 2)
    return Bucket(int(count), int(age), scope)


def parse_keep(value: object) -> Keep:
    """Read a ``keep`` option: ``Keep(...)``, or a number as its count."""
    if isinstance(value, Keep):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Keep(count=value)
    raise ConfigError(f"keep is {value!r}; give Keep(count=..., age=...)")


DEFAULT_KEEP = Keep(count=100_000, age="1h", failed=Keep(count=100_000, age="30d"))
