"""Hypothesis profiles: the same examples at every run by default, new ones when a longer search is asked for."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_COMMON = {"deadline": None, "print_blob": True, "suppress_health_check": list(HealthCheck)}
settings.register_profile("default-conformance", derandomize=True, database=None, max_examples=40, **_COMMON)
settings.register_profile("search-conformance", max_examples=2_000, **_COMMON)
settings.load_profile(os.environ.get("WINDLASS_HYPOTHESIS", "default") + "-conformance")
