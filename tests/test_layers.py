"""The layer rule and the house rules, read off the ASTs of `windlass/`.

    errors < core < store < settings < support < connections < handles < workflows < calls < limits < operate < app
           < console < worker < messaging, observe, testing, integrations, celery < web < cli

A module imports only from its left or from its own folder, and no modules import each other in a circle. Imports under
`if TYPE_CHECKING` and inside functions count like any other: a cycle hidden in a function is still a cycle. The
exceptions are listed in ALLOWED, CYCLES and LONG, each with its reason. The second half of this file runs the same
checker on small fake trees, so a rule that stopped finding anything is noticed.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "windlass"

ORDER = (
    ("errors",),
    ("core",),
    ("store",),
    ("settings",),
    ("support",),  # what every other room stands on: threads, logs, ids, the way out
    ("connections",),  # clients of the store, one per loop; drafts in, answers out
    ("handles",),  # what a caller or an operator holds of something in the store
    ("workflows",),  # works, and the plans that are made of them
    ("calls",),  # tasks and queues, what is declared, and the road of a call
    ("limits",),  # locks, once, breakers: what user code holds others up with
    ("operate",),  # listings, dead letters, schedules, notices, orders
    ("app", "__init__"),  # and any other module at the top of the package
    ("console",),
    ("worker",),
    ("messaging", "observe", "testing", "integrations", "celery", "arq"),
    ("web",),  # its /metrics is observe's
    ("cli",),
    ("__main__",),
)
RANKS = {name: rank for rank, names in enumerate(ORDER) for name in names}
APP = RANKS["app"]

# (file, function, what it may import): why. These edges are no part of a cycle either.
ALLOWED = {
    ("app.py", "worker", "worker"): "app.worker() is the documented way in, and only its callers pay for it",
    ("calls/context.py", "", "app"): "current().app is the app itself, for code of tasks; a type, never at run time",
}

# Folders whose modules may know each other in circles: why. A cycle lies in one of them, or it is an error.
CYCLES = {
    "celery/": "Celery's own shape: apps, tasks, signatures and results make each other",
    "cli/": "the command of workers starts the supervisor, which makes commands of workers",
    "testing/": "a harness and its assertions, a bench and its drafts, a simulated world and its actors",
}

# core/ does no I/O, no asyncio, and time and randomness enter as arguments.
IMPURE_MODULES = frozenset(
    {"asyncio", "concurrent", "http", "multiprocessing", "os", "random", "secrets", "select", "selectors"}
    | {"signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time"}
)
IMPURE_NAMES = frozenset(
    {"datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"}
    | {"time.time", "time.time_ns", "time.monotonic", "time.perf_counter"}
    | {"uuid.uuid1", "uuid.uuid4", "uuid.uuid7"}
)
IMPURE_BUILTINS = frozenset({"open", "print", "input"})

LONGEST, LONGEST_FILE = 45, 450
LONGEST_ON_THE_JOB_PATH = 40
JOB_PATH = frozenset({"worker/pump.py", "worker/runner.py", "worker/executor.py", "core/lifecycle.py"})
SPOTLESS = ("core/", "worker/")

# Files and functions that are too long for now, each with its length: it may shrink, not grow.
LONG: dict[str, int] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


@dataclass(frozen=True)
class Import:
    """One imported module, as a dotted name, and the function it is in ("" at module level)."""

    target: str
    line: int
    function: str


@dataclass
class Module:
    """One source file of the tree under check."""

    root: Path
    path: Path
    source: str = field(init=False)
    tree: ast.Module = field(init=False)

    def __post_init__(self) -> None:
        self.source = self.path.read_text(encoding="utf-8")
        self.tree = parsed(self.source)

    @cached_property
    def name(self) -> str:
        return self.path.relative_to(self.root).as_posix()

    @cached_property
    def dotted(self) -> str:
        """The module as it is imported."""
        parts = [self.root.name, *self.path.relative_to(self.root).with_suffix("").parts]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def layer(self) -> str:
        """The folder, or for a top-level module its own name."""
        return self.name.split("/", 1)[0].removesuffix(".py")

    @cached_property
    def package(self) -> list[str]:
        """Where a relative import with one dot starts."""
        return [self.root.name, *self.path.parent.relative_to(self.root).parts]

    def imports(self) -> Iterator[Import]:
        yield from self._imports(self.tree, "")

    def _imports(self, node: ast.AST, function: str) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            for target in self._targets(child):
                yield Import(target, getattr(child, "lineno", 0), function)
            inner = child.name if isinstance(child, Function) else function
            yield from self._imports(child, inner)

    def _targets(self, node: ast.AST) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            base = self._base(node)
            return [f"{base}.{a.name}" if self._is_module(base, a.name) else base for a in node.names]
        if isinstance(node, ast.Call) and _dotted(node.func).endswith("import_module") and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                return [self._absolute(first.value)]
        return []

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        return self._absolute("." * node.level + (node.module or ""))

    def _absolute(self, name: str) -> str:
        rest = name.lstrip(".")
        up = len(name) - len(rest)
        if not up:
            return name
        return ".".join([*self.package[: len(self.package) - up + 1], *filter(None, [rest])])

    def _is_module(self, base: str, name: str) -> bool:
        """`from windlass import core` names a folder; `from windlass.core import Job` names a value."""
        folder = self.root.parent.joinpath(*base.split("."))
        return (folder / name).is_dir() or (folder / f"{name}.py").is_file()

    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def comments(self) -> Iterator[tuple[int, str]]:
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def modules(root: Path) -> list[Module]:
    return _of_the_package() if root == PACKAGE else _parsed(root)


def _parsed(root: Path) -> list[Module]:
    return [Module(root, path) for path in sorted(root.rglob("*.py"))]


@cache
def _of_the_package() -> list[Module]:
    """Parsed once for all rules: that takes longer than to check them."""
    return _parsed(PACKAGE)


@pytest.fixture(scope="module", autouse=True)
def _forget_the_package() -> Iterator[None]:
    yield
    _of_the_package.cache_clear()


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _rank(layer: str, root: Path) -> int | None:
    if layer in RANKS:
        return RANKS[layer]
    return None if (root / layer).is_dir() else APP


def layer_violations(root: Path) -> list[str]:
    """Imports to the right, or into a neighbouring folder of the same rank; folders that have no layer."""
    found = []
    for module in modules(root):
        rank = _rank(module.layer, root)
        if rank is None:
            found.append(f"{module.name}: the folder {module.layer!r} has no layer; give it one in RANKS")
            continue
        for imp in module.imports():
            if reason := _wrong_import(module, rank, imp):
                found.append(f"{module.name}:{imp.line}: {reason}")
    return found


def _wrong_import(module: Module, rank: int, imp: Import) -> str | None:
    package, _, rest = imp.target.partition(".")
    if package != module.root.name:
        return None
    layer = rest.partition(".")[0] or "__init__"
    target = _rank(layer, module.root)
    if layer == module.layer or (module.name, imp.function, layer) in ALLOWED:
        return None
    if target is not None and (target < rank or target == rank == APP):
        return None
    return f"{module.layer} may not import {imp.target}"


def purity_violations(root: Path) -> list[str]:
    """I/O, asyncio, clocks and randomness in core/."""
    found = []
    for module in modules(root):
        if module.layer != "core":
            continue
        found += [
            f"{module.name}:{imp.line}: core may not import {imp.target}"
            for imp in module.imports()
            if imp.target.partition(".")[0] in IMPURE_MODULES
        ]
        found += [f"{module.name}:{line}: core may not use {name}" for line, name in _impure_uses(module)]
    return found


def _impure_uses(module: Module) -> Iterator[tuple[int, str]]:
    aliases = _aliases(module.tree)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            head, _, rest = _dotted(node).partition(".")
            name = ".".join(filter(None, [aliases.get(head, head), rest]))
            if name in IMPURE_NAMES:
                yield node.lineno, name
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_BUILTINS:
            yield node.lineno, f"{node.func.id}()"


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Local name -> what it stands for, so `from datetime import datetime as dt; dt.now()` is seen."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def cycle_violations(root: Path) -> list[str]:
    """Modules that know each other in a circle, by whatever kind of import."""
    return [
        f"{circle[0]}: a circle of {len(circle)} modules: {', '.join(circle)}"
        for circle in circles(import_graph(root))
        if not any(all(name.startswith(folder) for name in circle) for folder in CYCLES)
    ]


def import_graph(root: Path) -> dict[str, set[str]]:
    """The files that each file imports, without the edges that ALLOWED names."""
    known = {module.dotted: module for module in modules(root)}
    graph: dict[str, set[str]] = {}
    for module in known.values():
        graph[module.name] = {
            known[imp.target].name
            for imp in module.imports()
            if imp.target in known and (module.name, imp.function, known[imp.target].layer) not in ALLOWED
        } - {module.name}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components with more than one member (Tarjan), without recursion."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []
    for start in graph:
        work = [] if start in number else [(start, iter(sorted(graph[start])))]
        while work:
            node, rest = work[-1]
            if node not in number:
                number[node] = low[node] = len(number)
                path.append(node)
            for other in rest:
                if other not in number:
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in path:
                    low[node] = min(low[node], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    cut = path.index(node)
                    members, path = sorted(path[cut:]), path[:cut]
                    found += [members] if len(members) > 1 else []
    return sorted(found)


def length_violations(root: Path) -> list[str]:
    """Functions that do not fit a screen, from `def` to the last line, and files of more than a few screens."""
    found = []
    for module in modules(root):
        lines = module.source.count("\n")
        if lines > max(LONGEST_FILE, LONG.get(module.name, 0)):
            found.append(f"{module.name}: {lines} lines, the limit is {LONGEST_FILE}")
        limit = LONGEST_ON_THE_JOB_PATH if module.name in JOB_PATH else LONGEST
        for node in module.functions():
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > max(limit, LONG.get(f"{module.name}:{node.name}", 0)):
                where = f"{module.name}:{node.lineno}"
                found.append(f"{where}: {node.name} has {length} lines, the limit is {limit}")
    return found


def suppression_violations(root: Path) -> list[str]:
    """Checkers silenced in core/ and worker/."""
    return [
        f"{module.name}:{line}: {comment}"
        for module in modules(root)
        if module.name.startswith(SPOTLESS)
        for line, comment in module.comments()
        if any(mark in comment.lower().replace(" ", "") for mark in ("#noqa", "#ruff:noqa", "#type:ignore"))
    ]


def docstring_violations(root: Path) -> list[str]:
    """Modules that do not say what they are for."""
    return [f"{mod.name}:1: no docstring" for mod in modules(root) if not ast.get_docstring(mod.tree)]


RULES = [
    layer_violations,
    cycle_violations,
    purity_violations,
    length_violations,
    suppression_violations,
    docstring_violations,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__.removesuffix("_violations"))
def test_windlass_keeps_the_rule(rule) -> None:
    assert modules(PACKAGE), f"no sources under {PACKAGE}"
    found = rule(PACKAGE)
    assert not found, "\n" + "\n".join(found)


# ---- the checker checked --------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path):
    """A small Windlass that keeps every rule; `write(name, source)` adds or replaces a module."""
    root = tmp_path / "windlass"

    def write(name: str, source: str) -> Path:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""A module."""\n{source}\n', encoding="utf-8")
        return root

    for folder in ("core", "store", "worker", "web", "observe", "cli"):
        write(f"{folder}/__init__.py", "")
    write("__init__.py", "from .app import Windlass\nfrom .core.job import Job")
    write("errors.py", "import enum")
    write("core/job.py", "from ..errors import Oops\nfrom windlass.core import graph")
    write("core/graph.py", "from datetime import datetime\ndef later(now: datetime) -> datetime: return now")
    write("store/memory.py", "import time\nfrom windlass.core.job import Job\nnow = time.time()")
    for folder in ("connections", "calls", "limits"):
        write(f"{folder}/__init__.py", "")
    write("connections/client.py", "from windlass.store import memory\nfrom windlass import settings")
    write("calls/task.py", "from ..connections import client\nfrom windlass.calls import context")
    write("calls/context.py", "import typing\nif typing.TYPE_CHECKING:\n    from windlass.app import Windlass")
    write("limits/locks.py", "from windlass.calls.context import current")
    write(
        "app.py", "from . import settings\nfrom .calls import task\ndef worker():\n    from windlass.worker import pump"
    )
    write("settings.py", "import os")
    write("worker/pump.py", "from windlass import errors\nfrom windlass.app import Windlass")
    write("web/api.py", "import windlass\nfrom ..worker.pump import Pump\nfrom . import api")
    write("cli/main.py", "from windlass.web import api")
    return write


def test_a_tree_that_keeps_the_rules_passes(tree) -> None:
    root = tree("errors.py", "")
    assert [found for rule in RULES for found in rule(root)] == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("errors.py", "from windlass.core.job import Job"),
        ("core/job.py", "from windlass.store import memory"),
        ("core/job.py", "from ..store.memory import Memory"),
        ("core/job.py", "from .. import store"),
        ("core/job.py", "import windlass"),
        ("core/job.py", "import typing\nif typing.TYPE_CHECKING:\n    from windlass.app import Windlass"),
        ("store/memory.py", "def open():\n    from windlass.settings import Settings"),
        ("store/memory.py", "import importlib\nimportlib.import_module('windlass.worker.pump')"),
        ("store/memory.py", "from importlib import import_module\nimport_module('..worker', __package__)"),
        ("app.py", "from windlass.worker import pump"),
        ("app.py", "def start():\n    from windlass.worker import pump"),
        ("settings.py", "def worker():\n    from windlass.worker import pump"),
        ("settings.py", "from windlass.app import Windlass"),
        ("connections/client.py", "from windlass.calls.task import Task"),
        ("calls/task.py", "from ..limits import locks"),
        ("calls/task.py", "import typing\nif typing.TYPE_CHECKING:\n    from windlass.app import Windlass"),
        ("limits/locks.py", "def lock():\n    from windlass import app"),
        ("__init__.py", "from .worker import pump"),
        ("worker/pump.py", "from windlass.observe import logs"),
        ("observe/logs.py", "from windlass.web import api"),
        ("web/api.py", "from windlass.cli.main import main"),
        ("extra/thing.py", "import enum"),
        ("worker/pump.py", "from windlass.extra import thing"),
    ],
)
def test_an_import_to_the_right_is_found(tree, name: str, source: str) -> None:
    if "extra" in name + source:
        tree("extra/__init__.py", "")
    found = layer_violations(tree(name, source))
    assert any(line.startswith(f"{name}:") for line in found), found


@pytest.mark.parametrize(
    ("name", "source", "circle"),
    [
        ("calls/context.py", "from windlass.calls.task import Task", "calls/context.py, calls/task.py"),
        ("calls/context.py", "def f():\n    from .task import Task", "calls/context.py, calls/task.py"),
        ("limits/locks.py", "from windlass.limits.once import Once", "limits/locks.py, limits/once.py, limits/way.py"),
    ],
)
def test_a_circle_of_modules_is_found(tree, name: str, source: str, circle: str) -> None:
    tree("limits/once.py", "import typing\nif typing.TYPE_CHECKING:\n    from windlass.limits.way import Way")
    tree("limits/way.py", "from windlass.limits import locks")
    (found,) = cycle_violations(tree(name, source))
    assert found.endswith(f": {circle}")


def test_a_circle_within_a_named_folder_is_let_be_and_one_that_leaves_it_is_not(tree) -> None:
    tree("testing/__init__.py", "")
    tree("testing/hub.py", "from windlass.testing import records")
    assert not cycle_violations(tree("testing/records.py", "from .hub import Hub"))
    tree("observe/shared.py", "from windlass.testing import hub")
    assert cycle_violations(tree("testing/records.py", "from .hub import Hub\nfrom ..observe import shared"))


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio",
        "import os.path",
        "from time import monotonic",
        "def f():\n    import random",
        "import datetime\nnow = datetime.datetime.now()",
        "from datetime import datetime as dt\nnow = dt.utcnow()",
        "from datetime import datetime\nclock = datetime.now",
        "import datetime as d\nday = d.date.today()",
        "from uuid import uuid4\nx = uuid4()",
        "print('hello')",
        "open('file')",
    ],
)
def test_impurity_in_core_is_found(tree, source: str) -> None:
    found = purity_violations(tree("core/graph.py", source))
    assert found
    assert all(line.startswith("core/graph.py:") for line in found)
    assert not purity_violations(tree("core/graph.py", "")), "the same tree without it is clean"


@pytest.mark.parametrize(
    ("name", "longest"),
    [("app.py", 45), ("worker/pump.py", 40), ("core/lifecycle.py", 40), ("core/job.py", 45)],
)
def test_a_long_function_is_found(tree, name: str, longest: int) -> None:
    fits = "class A:\n    async def f(self):\n" + "        x = 1\n" * (longest - 1)
    assert not length_violations(tree(name, fits))
    found = length_violations(tree(name, fits + "        x = 1\n"))
    assert found == [f"{name}:3: f has {longest + 1} lines, the limit is {longest}"]


def test_a_long_file_is_found(tree) -> None:
    lines = "x = 1\n" * (LONGEST_FILE - 2)
    assert not length_violations(tree("app.py", lines))
    assert length_violations(tree("app.py", lines + "x = 1\n")) == ["app.py: 451 lines, the limit is 450"]


@pytest.mark.parametrize(
    "comment", ["# noqa", "# noqa: F401", "#NOQA", "# type: ignore", "#type:ignore[x]", "# ruff: noqa"]
)
def test_a_silenced_checker_is_found(tree, comment: str) -> None:
    found = suppression_violations(tree("worker/pump.py", f"x = 1  {comment}"))
    assert found == [f"worker/pump.py:2: {comment}"]
    tree("worker/pump.py", f"x = '{comment}'")
    assert not suppression_violations(tree("settings.py", f"x = 1  {comment}"))


def test_a_module_without_a_docstring_is_found(tree) -> None:
    root = tree("app.py", "")
    (root / "app.py").write_text("x = 1\n", encoding="utf-8")
    assert docstring_violations(root) == ["app.py:1: no docstring"]
