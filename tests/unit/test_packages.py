"""What pip calls it: one name in one place, extras with code behind them, and the other project of the same import."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest
from packaging.requirements import Requirement

from tests.docs.pages import ROOT, pages, read
from windlass.core.packages import DISTRIBUTION, STRANGER, pip_install

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = {
    name: lines for name, lines in PROJECT["optional-dependencies"].items() if name != "all"
}
SOURCES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "windlass").rglob("*.py")}


def test_the_name_is_that_of_the_project() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert DISTRIBUTION != STRANGER
    assert pip_install("web", "wsgi") == f'pip install "{DISTRIBUTION}[web,wsgi]"'


@cache
def imported() -> set[str]:
    """The first part of every import in the package, in functions too."""
    found = set()
    for node in (node for source in SOURCES.values() for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_has_code_behind_it(extra: str) -> None:
    modules = {Requirement(line).name.replace("-", "_").removesuffix("_api") for line in EXTRAS[extra]}
    assert modules - imported() == set()


def named_in_code() -> Iterator[str]:
    speaking = (source for source in SOURCES.values() if "pip_install" in source)
    for node in (node for source in speaking for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "pip_install":
            yield from (value.value for value in node.args if isinstance(value, ast.Constant))  # type: ignore[misc]


def test_messages_name_extras_that_exist_and_take_the_name_from_one_place() -> None:
    named = set(named_in_code())
    assert named == EXTRAS.keys() - {"reload"}, "without `reload` all still works, so nothing asks for it"
    written = {
        str(path)
        for path, source in SOURCES.items()
        if re.search(r"pip install ['\"]?windlass|windlass(-jobs)?\[", source) and path.name != "packages.py"
    }
    assert written == set()


def test_pages_name_extras_that_exist_and_the_right_distribution() -> None:
    for page in [*pages(), "CONTRIBUTING.md", "CHANGELOG.md"]:
        text = read(page)
        assert not re.search(r"\bwindlass\[", text), page
        asked = re.findall(r"(?:windlass-jobs|install [\"']?\.)\[([\w,]+)\]", text)
        assert {name for names in asked for name in names.split(",")} <= {*EXTRAS, "all"}, page
        for line in re.findall(r"pip install[^`\n]*", text):
            assert not re.search(r"\bwindlass(?!-jobs|/)\b", line.partition(" @ ")[0]) or "somebody" in text, (
                page,
                line,
            )


def test_the_page_about_installing_has_every_extra_with_what_it_brings() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*?) ?\|$", read("docs/how-to/install.md"), re.MULTILINE))
    brought = {name: [Requirement(line).name for line in lines] for name, lines in EXTRAS.items()}
    assert {name: re.findall(r"`([^`]+)`", cell) for name, cell in table.items()} == {**brought, "all": []}


# -- the other project


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A folder of packages in which another project's ``windlass`` was installed over this one."""
    (tmp_path / "windlass").mkdir()
    for path in (ROOT / "windlass").iterdir():
        (tmp_path / "windlass" / path.name).symlink_to(path)
    (tmp_path / "windlass/__init__.py").unlink()
    (tmp_path / "windlass/__init__.py").write_text('"""Lifts anchors."""\n', encoding="utf-8")
    facts = tmp_path / "windlass-9.9.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: windlass\nVersion: 9.9\n", encoding="utf-8")
    return tmp_path


def doctor(beside: Path) -> tuple[int, dict[str, tuple[str, str]]]:
    env = {**os.environ, "PYTHONPATH": str(beside)}
    command = [sys.executable, "-m", "windlass", "doctor", "--json"]
    answer = subprocess.run(command, cwd=beside, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert answer.stdout, answer.stderr
    checks = msgspec.json.decode(answer.stdout)["checks"]
    return answer.returncode, {check["name"]: (check["level"], check["text"]) for check in checks}


def test_doctor_knows_the_stranger(beside: Path) -> None:
    code, found = doctor(beside)
    level, text = found["distribution"]
    assert (code, level) == (1, "wrong")
    assert "windlass 9.9 is installed: that is another project of the same import" in text
    assert f"pip uninstall windlass {DISTRIBUTION}" in text
    assert "of another project" in found["windlass"][1]


def test_doctor_knows_this_project_under_its_earlier_name(beside: Path) -> None:
    points = "[pytest11]\nwindlass = windlass.testing.plugin\n"
    (beside / "windlass-9.9.dist-info/entry_points.txt").write_text(points, encoding="utf-8")
    code, found = doctor(beside)
    assert (code, found["distribution"][0]) == (0, "warning")
    assert "under its earlier name" in found["distribution"][1]


def test_doctor_says_nothing_where_there_is_none(tmp_path: Path) -> None:
    code, found = doctor(tmp_path)
    assert code == 0
    assert "distribution" not in found
    assert DISTRIBUTION in found["windlass"][1]
