"""The maintainers' page of rules: every test and function that it names is there, and no test module is forgotten."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

import windlass
from tests.docs.pages import read
from windlass.core.hints import did_you_mean

PACKAGE = Path(windlass.__file__).parent
STORE = PACKAGE / "store"
SUITE = PACKAGE / "testing" / "conformance"
PAGE = "docs/maintainers/rules.md"
COLUMNS = ("rule", "tests", "machine", "Lua", "memory")
LUA_FUNCTION = re.compile(r"^ *(?:local )?function ([\w.]+)", re.MULTILINE)


def rows() -> list[list[str]]:
    lines = [line for line in read(PAGE).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def named(column: str) -> list[str]:
    """Everything in code in one column, of all tables."""
    place = COLUMNS.index(column)
    return [name for row in rows() if row[0] != "rule" for name in re.findall("`([^`]+)`", row[place])]


@functools.cache
def python_names(path: Path) -> frozenset[str]:
    """The functions and classes of a module, and ``Class.method``."""
    if not path.exists():
        return frozenset()
    return frozenset(_names(ast.parse(path.read_text(encoding="utf-8")), ""))


def _names(node: ast.AST, before: str) -> list[str]:
    found = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.append(before + child.name)
            if isinstance(child, ast.ClassDef):
                found += _names(child, f"{before}{child.name}.")
    return found


@functools.cache
def lua_names(path: Path) -> frozenset[str]:
    """The functions of a Lua file, with the table they are in and without."""
    if not path.exists():
        return frozenset()
    found = LUA_FUNCTION.findall(path.read_text(encoding="utf-8"))
    return frozenset([*found, *(name.rpartition(".")[2] for name in found)])


def problem(name: str, folders: list[Path], suffix: str) -> str | None:
    """Why a name cannot be found in any of these folders."""
    module, _, function = name.partition(".")
    files = [folder / f"{module}{suffix}" for folder in folders]
    read_names = lua_names if suffix == ".lua" else python_names
    known = [one for file in files for one in read_names(file)]
    if function in known:
        return None
    moved = [f"{one.relative_to(folders[0])}" for one in folders[0].rglob(f"*{suffix}") if function in read_names(one)]
    hint = f" (it is in {', '.join(moved)})" if moved else did_you_mean(function, known)
    return f"{name}: {module}{suffix} has no {function}{hint}"


PLACES = {
    "machine": ([STORE / "machine", STORE], ".py"),
    "Lua": ([STORE / "redis" / "lua"], ".lua"),
    "memory": ([STORE / "memory", STORE], ".py"),
}


def test_every_row_has_all_columns() -> None:
    assert [row for row in rows() if len(row) != len(COLUMNS)] == []
    assert [row[0] for row in rows() for cell in row[1:] if row[0] != "rule" and "`" not in cell] == []


@pytest.mark.parametrize("column", PLACES)
def test_every_function_is_where_the_page_says(column: str) -> None:
    folders, suffix = PLACES[column]
    found = [told for name in named(column) if (told := problem(name, folders, suffix))]
    assert not found, "\n" + "\n".join(found)


def suite_tests() -> dict[str, set[str]]:
    """The tests of each module of the conformance suite, as ``module.test_name``."""
    found: dict[str, set[str]] = {}
    for path in sorted(SUITE.glob("*.py")):
        tests = [name.rpartition(".")[2] for name in python_names(path)]
        mine = {f"{path.stem}.{name}" for name in tests if name.startswith("test_")}
        if mine:
            found[path.stem] = mine
    return found


def test_every_test_is_in_the_suite() -> None:
    known = [name for names in suite_tests().values() for name in names]
    found = [f"{name}: no such test{did_you_mean(name, known)}" for name in named("tests") if name not in known]
    assert not found, "\n" + "\n".join(found)


def test_every_module_of_the_suite_is_on_the_page() -> None:
    assert set(suite_tests()) - {name.partition(".")[0] for name in named("tests")} == set()
