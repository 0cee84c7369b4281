"""The machine's rules name their statements and know no driver; a driver brings every statement that has a name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import get_type_hints

import pytest

import windlass
from windlass.store.machine.sql import Statements
from windlass.store.postgres.sql import STATEMENTS as OF_POSTGRES
from windlass.store.sqlite.sql import STATEMENTS as OF_SQLITE

STORE = Path(windlass.__file__).parent / "store"
MACHINE = STORE / "machine"
SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH)\s+\S", re.ASCII)
DRIVERS = (
    "windlass.store.sqlite",
    "windlass.store.postgres",
    "psycopg",
    "windlass.store.redis",
    "windlass.store.memory",
    "apsw",
    "sqlite3",
)

STATEMENTS_OF = get_type_hints(Statements)


def modules() -> list[str]:
    return sorted(path.relative_to(MACHINE).as_posix() for path in MACHINE.rglob("*.py"))


def tree_of(module: str) -> ast.Module:
    return ast.parse((MACHINE / module).read_text(encoding="utf-8"))


def named(group: str) -> set[str]:
    """The statements that a Protocol names, and the functions that answer one."""
    said = STATEMENTS_OF[group]
    functions = {name for name, value in vars(said).items() if isinstance(value, FunctionType) and name[0] != "_"}
    return functions | set(get_type_hints(said))


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """String constants, also the first piece of those that are put together, but no strings that stand for themselves:
    these are documentation."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.lineno, node.value


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def used(source: str) -> set[tuple[str, str]]:
    """Statements that a file asks for, each with its group: ``tx.sql.items.READ``, or ``sql = tx.sql.items`` and
    ``sql.READ``."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
    groups = {
        node.attr for node in found
        if (isinstance(node.value, ast.Attribute) and node.value.attr == "sql")
        or (isinstance(node.value, ast.Name) and node.value.id == "sql")
    }  # fmt: skip
    return {(group, node.attr) for group in groups for node in found}


@pytest.mark.parametrize("module", modules())
def test_rules_hold_no_sql(module: str) -> None:
    found = [f"{module}:{line}: {text.strip()[:50]}" for line, text in texts(tree_of(module)) if SQL.match(text)]
    assert not found


@pytest.mark.parametrize("module", modules())
def test_rules_know_no_driver(module: str) -> None:
    names = [name for name in imported(tree_of(module)) if any(f"{name}.".startswith(f"{it}.") for it in DRIVERS)]
    assert not names


@pytest.mark.parametrize("group", sorted(STATEMENTS_OF))
def test_every_statement_with_a_name_is_used(group: str) -> None:
    asked = {
        name for module in modules() for where, name in used((MACHINE / module).read_text(encoding="utf-8"))
        if where == group
    }  # fmt: skip
    assert named(group) <= asked


@pytest.mark.parametrize("statements", [OF_SQLITE, OF_POSTGRES])
@pytest.mark.parametrize("group", sorted(STATEMENTS_OF))
def test_a_driver_brings_no_statement_without_a_name(group: str, statements: Statements) -> None:
    driver = getattr(statements, group)
    assert isinstance(driver, ModuleType)
    brought = {name for name, value in vars(driver).items() if isinstance(value, str) and SQL.match(value)}
    assert {name for name in brought if not name.startswith("_")} <= named(group)


# -- what these tests find


def test_sql_is_found_wherever_it_is_written() -> None:
    source = (
        'A = """\nSELECT 1\n"""\ndef f(tx):\n    "SELECT it"\n    tx.run(f"DELETE FROM {tx}")\n    return "a DELETE"'
    )
    found = [text for _, text in texts(ast.parse(source)) if SQL.match(text)]
    assert [text.strip() for text in found] == ["SELECT 1", "DELETE FROM"]


def test_statements_are_found_with_and_without_a_short_name() -> None:
    assert used("tx.run(tx.sql.items.READ)") >= {("items", "READ")}
    assert used("sql = tx.sql.items\ntx.run(sql.READ)") >= {("items", "READ")}
    assert ("items", "READ") not in used("tx.run(tx.sql.tx.READ)")
