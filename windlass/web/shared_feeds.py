"""What a dashboard's streams share on each event loop, and a limit on their number."""

from __future__ import annotations

from windlass.app import Windlass
from windlass.web.jobfeed import Watch
from windlass.web.live import Pulse
from windlass.web.per_loop import PerLoop
from windlass.web.streams import Gauge


class Feeds:
    """The shared reads of all streams. None of them asks the store while there are no listeners."""

    def __init__(self, app: Windlass, refresh: float) -> None:
        self.pulses = PerLoop(lambda: Pulse(app, refresh))
        self.watches = PerLoop(lambda: Watch(app))
        self.gauge = Gauge()
