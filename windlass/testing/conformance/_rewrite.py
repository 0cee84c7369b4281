"""Has pytest explain the suite's assertions. Imported before all modules with tests, or it would come too late."""

from __future__ import annotations

import pytest

_MODULES = (
    "aside beat cancel change change_lane clock concurrency counts crash events exchange expiry find insert notes "
    "order replies retention solo sweep wake watch bench life graph_insert graph_spread graph_read graph_blame "
    "graph_stop graph_retry workflow_retry graph_adopt graph_adopt_faults graph_keep graph_audit gates gate_limits "
    "gate_rates lanes lane_heads lane_moves strict resequence ageing holds unique unique_replace unique_successor "
    "backpressure schedules items logs commits shelves totals total_lives faults sums"
)
EXPLAINED = tuple(f"{__package__}.{name}" for name in _MODULES.split())
pytest.register_assert_rewrite(*EXPLAINED)
