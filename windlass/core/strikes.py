"""How failures slow down a client that keeps failing. Pure: it counts failures and says how long the next try must
wait.
"""

from __future__ import annotations

import msgspec


class Strikes(msgspec.Struct, frozen=True, array_like=True):
    """The recent failures of a client: how many, when the last one was (an instant), and a mark of what was
    tried then.
    """

    count: int = 0
    at: int = 0
    mark: str = ""


class StrikeRule(msgspec.Struct, frozen=True):
    """``free`` failures cost nothing; each further one doubles the wait, from ``step`` to ``most`` ms. After ``forget``
    ms without a failure all are forgotten. ``forget`` is longer than ``most``, so that a client that waited is still
    known.
    """

    free: int
    step: int
    most: int
    forget: int

    def wait(self, strikes: Strikes, now: int) -> int:
        """Milliseconds until the next try is looked at."""
        if strikes.count < self.free or not self.is_known(strikes, now):
            return 0
        doubled = min(strikes.count - self.free, 30)
        until = min(strikes.at, now) + min(self.step << doubled, self.most)  # the clock of another machine may be ahead
        return max(until - now, 0)

    def strike(self, strikes: Strikes, now: int, mark: str) -> Strikes:
        """The strikes with one more failure. A repetition of the same try is not counted, so a forgotten script does
        not add up.
        """
        if not self.is_known(strikes, now):
            return Strikes(1, now, mark)
        if strikes.mark == mark:
            return strikes
        return Strikes(strikes.count + 1, now, mark)

    def is_known(self, strikes: Strikes, now: int) -> bool:
        """Whether the client has failed recently."""
        return strikes.count > 0 and now - strikes.at < self.forget
