"""What ``windlass doctor`` says about this Python: which Windlass it runs, on what, and with which optional parts.

It imports none of Windlass's upper layers: it must answer even where another distribution has overwritten their files.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution
from pathlib import Path
from typing import Literal

import msgspec

import windlass
from windlass.core.packages import DISTRIBUTION, STRANGER, pip_install

Level = Literal["ok", "note", "warning", "wrong"]
_FIRST_SAFE_SQLITE = (3, 51, 3)
_OURS = "windlass.testing.plugin"
"""What only this project's distributions declare as an entry point, whatever they were called."""


class Check(msgspec.Struct):
    """One thing that was checked, and the result."""

    name: str
    level: Level
    text: str


def about_installation() -> Iterator[Check]:
    """All that can be said without an app."""
    yield about_windlass()
    yield from about_stranger(_distribution(STRANGER))
    yield from about_python()
    yield from about_extras(_distribution(DISTRIBUTION))


def about_windlass() -> Check:
    folder = Path(windlass.__file__ or "").parent
    version = getattr(windlass, "__version__", "of another project")
    if _distribution(DISTRIBUTION) is None:
        text = f"{version}, run from {folder} without being installed; there: pip install ."
        return Check("windlass", "note", text)
    return Check("windlass", "ok", f"{version} ({DISTRIBUTION}, in {folder})")


def about_stranger(found: Distribution | None) -> Iterator[Check]:
    """Warn of the other project that is called ``windlass`` on the public index. Its files overwrite or hide ours."""
    if found is None:
        return
    if any(point.value == _OURS for point in found.entry_points):
        text = (
            f"this project is also installed under its earlier name, {STRANGER} {found.version}; "
            f"take both away and install it again: pip uninstall {STRANGER} {DISTRIBUTION}"
        )
        yield Check("distribution", "warning", text)
        return
    text = (
        f"the distribution {STRANGER} {found.version} is installed: that is another project of the same import, "
        f"and its files lie over those of this one, which is called {DISTRIBUTION}.\n"
        f"Take both away and install this one again: pip uninstall {STRANGER} {DISTRIBUTION}"
    )
    yield Check("distribution", "wrong", text)


def about_python() -> Iterator[Check]:
    import apsw

    new_enough = sys.version_info >= (3, 11)
    yield Check("python", "ok" if new_enough else "wrong", f"{platform.python_version()} on {platform.platform()}")
    version = apsw.sqlite_lib_version()
    safe = tuple(int(part) for part in version.split(".")) >= _FIRST_SAFE_SQLITE
    race = "" if safe else ": up to 3.51.2 its WAL can corrupt the file; upgrade apsw"
    yield Check("sqlite", "ok" if safe else "wrong", f"{version} (apsw {apsw.apsw_version()}){race}")
    uvloop = _version("uvloop")
    yield Check("event loop", *(("ok", f"uvloop {uvloop}") if uvloop else ("note", "asyncio; uvloop would be faster")))
    now = datetime.now(UTC)
    yield Check("clock", "ok" if now.year >= 2025 else "wrong", f"{now:%Y-%m-%d %H:%M:%S} UTC")


def about_extras(installed: Distribution | None) -> Iterator[Check]:
    """Each extra with the packages it needs; a half-installed one gets a warning."""
    extras: dict[str, dict[str, str]] = {}
    for requirement in (installed.requires if installed else None) or ():
        found = re.match(r"""([\w.-]+).*extra\s*==\s*['"]([\w-]+)['"]""", requirement)
        if found and found.group(2) != "all":
            extras.setdefault(found.group(2), {})[found.group(1)] = _version(found.group(1))
    for extra, packages in extras.items():
        there = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
        missing = ", ".join(name for name, version in packages.items() if not version)
        if not missing:
            yield Check(extra, "ok", there)
        elif there:
            yield Check(extra, "warning", f"{there}, but not {missing}: {pip_install(extra)}")
        else:
            yield Check(extra, "note", f"not installed: {pip_install(extra)}")


def _distribution(name: str) -> Distribution | None:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _version(name: str) -> str:
    found = _distribution(name)
    return found.version if found else ""
