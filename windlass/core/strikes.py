"""How failures slow down who goes on failing. Pure: what is counted, and how long that makes the next try wait."""

from __future__ import annotations

import msgspec


class Strikes(msgspec.Struct, frozen=True, array_like=True):
    """Failures of late: how many, when the last was (an instant), and a mark of what was tried then."""

    count: int = 0
    at: int = 0
    mark: str = ""


class StrikeRule(msgspec.Struct, frozen=True):
    """``free`` failures cost nothing; each after that doubles the wait, from ``step`` to ``most`` ms. Without another
    for ``forget`` ms all are forgotten. ``forget`` is longer than ``most``: who waited is still known.
    """

    free: int
    step: int
    most: int
    forget: int

    def wait(self, strikes: Strikes, now: int) -> int:
        """How many ms until the next try is looked at."""
        if strikes.count < self.free or not self.is_known(strikes, now):
            return 0
        doubled = min(strikes.count - self.free, 30)
        until = min(strikes.at, now) + min(self.step << doubled, self.most)  # another machine's clock may be ahead
        return max(until - now, 0)

    def strike(self, strikes: Strikes, now: int, mark: str) -> Strikes:
        """One more failure. The same thing tried again is no other guess, so a forgotten script does not add up."""
        if not self.is_known(strikes, now):
            return Strikes(1, now, mark)
        if strikes.mark == mark:
            return strikes
        return Strikes(strikes.count + 1, now, mark)

    def is_known(self, strikes: Strikes, now: int) -> bool:
        """Whether there were failures of late."""
        return strikes.count > 0 and now - strikes.at < self.forget
