"""The outcomes the rules are tested with, one of each kind."""

from __future__ import annotations

from windlass.core.job import ErrorInfo
from windlass.core.lifecycle import Failed, HandedBack, Outcome, Snoozed, Stopped, Succeeded

OOPS = ErrorInfo("builtins.ValueError", "oops", "Traceback …", fingerprint="value-error")

DONE = Succeeded(b'"done"')
DEAD = Failed(OOPS, reason="no retries left")
RETRY_NOW = Failed(OOPS, retry_in=0)
RETRY_LATER = Failed(OOPS, retry_in=2_000)
SNOOZE = Snoozed(3_000)
STOPPED = Stopped("as asked")
BACK = HandedBack()

LOSE_TO_CANCEL: dict[str, Outcome] = {
    "retry at once": RETRY_NOW,
    "retry later": RETRY_LATER,
    "snooze": SNOOZE,
    "hand back": BACK,
}
EVERY: dict[str, Outcome] = {"success": DONE, "failure": DEAD, "stop": STOPPED, **LOSE_TO_CANCEL}
