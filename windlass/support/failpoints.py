"""Named places where a process can be told to fail: ``WINDLASS_FAILPOINTS="after_claim:kill,before_settle:sleep=2@3"``.

For fault tests, which run workers as processes and cannot patch them. Without the variable a failpoint costs one look
at a flag. An order is ``point:action``, with ``=seconds`` for ``sleep`` and ``@n`` to act at the n-th pass only.
"""

from __future__ import annotations

import os
import signal
import time

from windlass.core.hints import did_you_mean
from windlass.errors import ConfigError, StoreUnavailable

VARIABLE = "WINDLASS_FAILPOINTS"

POINTS = {
    "after_claim": "jobs were granted and none was started",
    "after_run": "a job ran and its outcome is not noted",
    "after_stage": "the workflow a job goes on as is staged and not adopted yet",
    "before_settle": "an exchange is about to be sent",
    "after_settle": "an exchange was applied and its reply not looked at; `raise` loses the reply",
    "before_beat": "a heartbeat is about to be sent",
    "before_sweep": "a sweep is about to be sent",
}
ACTIONS = {
    "kill": "the process kills itself, as by SIGKILL",
    "exit": "the process ends at once, with code 1",
    "raise": "StoreUnavailable, which the code there must bear",
    "sleep": "this thread sleeps",
}


class Order:
    """What happens at one point, at its ``pass_number``-th pass or, if that is 0, at every one."""

    def __init__(self, action: str, seconds: float, pass_number: int) -> None:
        self.action, self.seconds, self.pass_number, self.passes = action, seconds, pass_number, 0


_orders: dict[str, Order] = {}


def failpoint(name: str) -> None:
    """Fail here if that was ordered."""
    if _orders:
        _pass(name)


def _pass(name: str) -> None:
    order = _orders.get(name)
    if order is None:
        return
    order.passes += 1
    if order.pass_number and order.passes != order.pass_number:
        return
    if order.action == "kill":
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        time.sleep(60)  # the signal may take a moment to arrive, and nothing may happen until then
    elif order.action == "exit":
        os._exit(1)
    elif order.action == "raise":
        raise StoreUnavailable(f"failpoint {name}")
    else:
        time.sleep(order.seconds)


def activate(orders: str) -> None:
    """Replace the orders of this process; an empty text clears them."""
    parsed = dict(_parse(part.strip()) for part in orders.split(",") if part.strip())
    _orders.clear()
    _orders.update(parsed)


def _parse(text: str) -> tuple[str, Order]:
    point, _, rest = text.partition(":")
    rest, at, number = rest.partition("@")
    action, _, seconds = rest.partition("=")
    if point not in POINTS or action not in ACTIONS:
        hint = did_you_mean(point, POINTS) if point not in POINTS else did_you_mean(action, ACTIONS)
        raise ConfigError(f"{VARIABLE} has {text!r}{hint}; points: {', '.join(POINTS)}; actions: {', '.join(ACTIONS)}")
    try:
        return point, Order(action, float(seconds or 1), int(number) if at else 0)
    except ValueError:
        raise ConfigError(f"{VARIABLE} has {text!r}; write point:action=seconds@pass") from None


activate(os.environ.get(VARIABLE, ""))
