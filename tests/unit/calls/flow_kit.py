"""What the tests of calls with terms share."""

from __future__ import annotations

from windlass.store.answers import Accept, Answer

ACCEPTED, FULL = Answer(Accept.ACCEPTED), Answer(Accept.FULL, "3 ready jobs")
