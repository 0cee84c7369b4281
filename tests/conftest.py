"""Markers by folder, the signals that tests rely on, what a missing server means, and how tests are spread.

Nothing else belongs here: fixtures live beside the tests that use them.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
FOLDERS = frozenset(
    {"unit", "conformance", "worker", "faults", "celery", "docs", "typing", "browser", "observe", "web"}
)

HEARD = {"SIGINT": signal.default_int_handler, "SIGTERM": signal.SIG_DFL, "SIGHUP": signal.SIG_DFL}

# A skip whose reason begins like this says "not installed here". On a laptop that is information; in CI it
# would be a test that silently stopped running. Skips for other reasons (platform, version) are left alone.
MISSING = ("missing", "could not import")


def pytest_configure() -> None:
    _hear_signals()
    _free_hypothesis_of_the_clock()


def _free_hypothesis_of_the_clock() -> None:
    """A slow machine is no failure, and what several processes write about examples into one folder slows them all."""
    try:
        from hypothesis import settings
    except ImportError:
        return
    settings.register_profile("windlass", settings(), deadline=None, database=None)
    settings.load_profile("windlass")


def _hear_signals() -> None:
    """Hear the signals that tests send, and let the processes they start hear them: a shell that runs this in the
    background, nohup and some CI runners hand them down ignored."""
    for name, handler in HEARD.items():
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep the garbage collector from walking over many thousand tests again and again: they stay to the end."""
    gc.disable()
    answer = yield
    gc.freeze()
    gc.enable()
    return answer


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the files of tests that come `again` alone where nobody asked for them: there are thousands of these."""
    unasked = "not again" in config.getoption("markexpr")
    return True if unasked and collection_path.name.endswith("_again.py") else None


@cache
def _folder(path: Path) -> str:
    return path.relative_to(HERE).parts[0] if path.is_relative_to(HERE) else ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the folder it is in, so `-m unit` works and nobody has to write it."""
    for item in items:
        if (folder := _folder(item.path)) in FOLDERS:
            item.add_marker(folder)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """See `tests/spread.py`; `--dist` may ask for another way."""
    if config.getoption("dist") != "load":
        return None
    from tests.spread import Spread

    return Spread(config, log)


def _fails_in_ci(reason: str) -> bool:
    in_ci = os.environ.get("CI", "").lower() not in {"", "0", "false"}
    return in_ci and reason.removeprefix("Skipped: ").lower().startswith(MISSING)


def _refuse_missing(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        if _fails_in_ci(reason):
            report.outcome = "failed"
            report.longrepr = f"{path}:{line}: {reason} (skipped on a laptop, an error in CI)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn "the server is missing" from a skip into a failure where CI is set."""
    report = yield
    _refuse_missing(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself while it is imported."""
    report = yield
    _refuse_missing(report)
    return report
