"""What a newcomer touches first (make, pins, packaging, CI) says the truth and fails helpfully."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8")
COMMANDS = {"help", "venv", "demo", "test", "check", "bench", "faults", "matrix", "clean"}


def make(*args: str) -> subprocess.CompletedProcess[str]:
    if not shutil.which("make"):
        pytest.skip("missing: make")
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--no-print-directory", *args]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)


def pinned() -> dict[str, Version]:
    return {name: Version(version) for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", PINS, re.MULTILINE)}


def test_make_alone_lists_every_command() -> None:
    answer = make()
    assert answer.returncode == 0, answer.stderr
    assert set(re.findall(r"^  make (\S+) +\S", answer.stdout, re.MULTILINE)) >= COMMANDS


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_can_be_planned(command: str) -> None:
    answer = make("--dry-run", command)
    assert answer.returncode == 0, answer.stderr


def test_no_python_is_said_with_the_remedy(tmp_path: Path) -> None:
    answer = make("venv", "PYTHON=no-such-python", f"VENV={tmp_path}/venv")
    assert answer.returncode != 0
    assert "Python 3.11 or later" in answer.stderr
    assert "make PYTHON=" in answer.stderr


def test_a_missing_venv_module_is_said_with_the_remedy(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\n[ "$2" = venv ] && exit 1\nexec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    answer = make("venv", f"PYTHON={python}", f"VENV={tmp_path}/venv")
    assert answer.returncode != 0
    assert "apt-get install python3-venv" in answer.stderr
    assert not (tmp_path / "venv").exists(), "a half-made environment would look like a finished one"


def test_pins_are_exact_hashed_and_name_no_address() -> None:
    assert "://" not in PINS
    assert "--index" not in PINS
    entries = re.split(r"\n(?=\w)", PINS.strip())
    assert len(entries) == len(re.findall(r"^[\w.-]+==", PINS, re.MULTILINE))
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_what_is_asked_for_is_pinned() -> None:
    lines = (ROOT / "requirements/dev.in").read_text(encoding="utf-8").splitlines()
    names = {Requirement(line).name for line in lines if line and not line.startswith("#")}
    assert names - pinned().keys() == set()


@pytest.mark.parametrize("line", PROJECT["dependencies"])
def test_a_dependency_has_a_lower_bound_that_its_pin_meets(line: str) -> None:
    wanted = Requirement(line)
    assert [spec.operator for spec in wanted.specifier] == [">="]
    assert pinned()[wanted.name] in wanted.specifier


def test_the_extra_all_holds_every_other_extra() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    assert Requirement(everything).extras == extras.keys() - {"all"}
    bounds = [Requirement(line).specifier for name in extras if name != "all" for line in extras[name]]
    assert all(bounds)


def test_entry_points_exist() -> None:
    targets = [*PROJECT["scripts"].values(), *PROJECT["entry-points"]["pytest11"].values()]
    for target in targets:
        module, _, name = target.partition(":")
        loaded = importlib.import_module(module)
        assert not name or callable(getattr(loaded, name))


def test_the_version_is_said_once() -> None:
    assert getattr(importlib.import_module("windlass"), "__version__", PROJECT["version"]) == PROJECT["version"]


def test_ci_is_executable_and_strict() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & stat.S_IXUSR
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text
    assert "make servers check test-all" in text


# What a test does, and what becomes of it on a laptop and in CI.
SKIPS = {
    "server": ("import pytest\ndef test(): pytest.skip('missing server: redis')", "SKIPPED", "FAILED"),
    "package": ("import pytest\ndef test(): pytest.importorskip('no_such_module')", "SKIPPED", "FAILED"),
    "module": ("import pytest\npytest.importorskip('no_such_module')", "SKIPPED", "ERROR"),
    "platform": ("import pytest\ndef test(): pytest.skip('Windows only')", "SKIPPED", "SKIPPED"),
    "marker": ("def test(request): assert request.node.get_closest_marker('unit')", "PASSED", "PASSED"),
}


@pytest.mark.parametrize(("ci", "column"), [("", 1), ("1", 2)], ids=["laptop", "ci"])
def test_what_is_missing_fails_only_in_ci(tmp_path: Path, ci: str, column: int) -> None:
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "unit").mkdir()
    for name, case in SKIPS.items():
        (tmp_path / f"unit/test_{name}.py").write_text(case[0], encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "--no-fold-skipped",
        "--continue-on-collection-errors",
    ]
    command += ["-p", "no:cacheprovider", "-p", "no:windlass", "-c", os.devnull, "--rootdir", "."]
    env = {**os.environ, "CI": ci}
    answer = subprocess.run(
        [*command, "unit"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    lines = re.findall(r"^([A-Z]+)\b.*?unit/test_(\w+)\.py", answer.stdout, re.MULTILINE)
    outcomes = {name: outcome for outcome, name in lines}
    assert outcomes == {name: case[column] for name, case in SKIPS.items()}, answer.stdout
