"""Has pytest explain the suite's assertions. Imported before all modules with tests, or it would come too late."""

from __future__ import annotations

import pytest

_MODULES = (
    "aside beat cancel change clock concurrency counts crash events exchange expiry find insert notes order replies "
    "retention solo sweep wake watch bench life graph_insert graph_spread graph_read "
    "graph_stop graph_retry graph_adopt graph_keep "
    "gates gate_limits gate_rates lanes strict ageing holds unique backpressure schedules "
    "items logs commits shelves totals faults sums"
)
EXPLAINED = tuple(f"{__package__}.{name}" for name in _MODULES.split())
pytest.register_assert_rewrite(*EXPLAINED)
