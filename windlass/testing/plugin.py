"""Fixtures for pytest, loaded in every run where Windlass is installed.

So it must cost nothing where it is not used: it imports pytest alone, and the rest of Windlass inside the fixtures. It
declares no marker, changes no test, and needs no other plugin.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.testing.clock import VirtualClock
    from windlass.testing.harness import Harness

INI = "windlass_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(INI, "the app under test, as module:app, for the fixture windlass_harness", default="")


@pytest.fixture
def windlass_app(pytestconfig: pytest.Config) -> Windlass:
    """The app under test: the one ``windlass_app`` in the ini file names. Override this fixture to say otherwise."""
    from windlass.app import Windlass

    named = str(pytestconfig.getini(INI))
    module, _, name = named.partition(":")
    if not module or not name:
        pytest.fail(
            f"windlass_harness does not know the app ({INI} is {named!r}); put '{INI} = package.module:app' into the "
            f"pytest ini, or define a fixture named {INI} that returns it",
            pytrace=False,
        )
    app = getattr(importlib.import_module(module), name)
    if not isinstance(app, Windlass):
        pytest.fail(f"{INI} = {named} is {app!r}, not a Windlass app", pytrace=False)
    return app


@pytest.fixture
def windlass_clock() -> VirtualClock:
    """The clock of ``windlass_harness``: it stands still until a test moves it."""
    from windlass.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def windlass_harness(windlass_app: Windlass, windlass_clock: VirtualClock) -> Iterator[Harness]:
    """A Harness around the app for one test: memory store, virtual clock. For async and for sync tests."""
    from windlass.testing.harness import Harness

    with Harness(windlass_app, clock=windlass_clock) as harness:
        yield harness
