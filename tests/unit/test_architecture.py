"""The walk of a job in ARCHITECTURE.md: each function is where the page says, and the ways are as short as it says."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from windlass import Windlass, group

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
CALL, SETTLE = "### From a call to the store", "### From a claim to its settle"


def section(title: str) -> str:
    """What follows a title, up to the next one."""
    return re.split(r"^#+ ", TEXT.split(f"{title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def named(text: str) -> list[tuple[str, str]]:
    """(file, function) for every function a text names behind the file that has it."""
    found, file = [], ""
    for word in re.findall(r"`([^`]+)`", text):
        if word.endswith(".py"):
            file = word
        elif file and re.fullmatch(r"[A-Za-z_]+(\.[a-z_]+)?", word):
            found.append((file, word))
    return found


def steps(title: str) -> list[list[tuple[str, str]]]:
    """The functions of each row of a section's table."""
    rows = re.findall(r"^\| \d+ \| (.*?) \|", section(title), flags=re.MULTILINE)
    return [named(row) for row in rows]


def defined(file: str) -> set[str]:
    tree = ast.parse((ROOT / "windlass" / file).read_text(encoding="utf-8"))
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    for kind in tree.body:
        if isinstance(kind, ast.ClassDef):
            inner = (node for node in kind.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{kind.name}.{node.name}" for node in inner}
    return found


def workflow_way() -> list[tuple[str, str]]:
    """The way of a workflow, which is a sentence with arrows."""
    sentence = section(CALL).split("A workflow: ", 1)[1]
    return [named(part)[0] for part in sentence.split("→")[:-1]]


PLACES = sorted({place for title in (CALL, SETTLE) for step in steps(title) for place in step} | set(workflow_way()))


@pytest.mark.parametrize(("file", "function"), PLACES)
def test_a_function_of_the_walk_is_where_the_page_says(file: str, function: str) -> None:
    assert function in defined(file)


def test_the_ways_are_as_short_as_the_page_says() -> None:
    assert len(steps(CALL)) == 6
    assert len(steps(SETTLE)) == 10
    assert len(workflow_way()) == 6
    assert all(steps(CALL))
    assert all(steps(SETTLE))


# -- counted where it runs


class Watched:
    """An app whose store notes which functions lie between a caller and its insert."""

    def __init__(self) -> None:
        self.app, self.seen = Windlass("walk", "memory://"), [""]

        @self.app.task(name="t")
        async def task(n: int) -> None: ...

        self.task = task

    async def open(self) -> None:
        store = (await self.app.client()).store
        plain, plain_here, plain_graph = store.insert, store.insert_here, store.insert_graph  # type: ignore[attr-defined]

        def noting(call: Callable[..., Any]) -> Callable[..., Any]:
            def noted(*args: Any) -> Any:
                self.seen = list(between(sys._getframe(1)))
                return call(*args)

            return noted

        store.insert, store.insert_graph = noting(plain), noting(plain_graph)  # type: ignore[method-assign]
        store.insert_here = noting(plain_here)  # type: ignore[attr-defined]


def between(frame: FrameType | None) -> Iterator[str]:
    """The functions of Windlass from here on up, but for lambdas, the portal and the engine's own."""
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if "/windlass/" in file and "/store/" not in file and "<" not in name and "Portal." not in name:
            yield name
        frame = frame.f_back


REST = ["Submitting.submit", "Sender.send", "resent"]
WAYS: dict[str, tuple[Callable[[Watched], Awaitable[object]], list[str]]] = {
    "enqueue": (lambda w: w.task.enqueue(1), ["Caller.enqueue", *REST]),
    "signature": (lambda w: w.task.s(1).enqueue(), ["Signature.enqueue", *REST]),
    "queue": (lambda w: w.app.queue("q").add("t", {"n": 1}), ["Queue.add", *REST]),
    "many": (
        lambda w: w.app.enqueue_many([w.task.s(n) for n in range(9)]),
        ["Windlass.enqueue_many", *REST],
    ),
    "workflow": (
        lambda w: group(w.task.s(1), w.task.s(2)).enqueue(),
        ["Composed.enqueue", "Submitting.submit_work", "send_plan", "send_parts", "resent"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_takes_the_functions_of_the_page_and_no_others(way: str) -> None:
    """The functions that make the draft, or the plan, have answered by then, and are not among them."""
    watched = Watched()
    await watched.open()
    call, expected = WAYS[way]
    await call(watched)
    await watched.app.close()
    assert watched.seen[::-1] == expected
    pages = {function for step in steps(CALL) for _, function in step} | {name for _, name in workflow_way()}
    assert pages.issuperset(expected)


def test_a_call_from_a_thread_takes_them_too() -> None:
    watched = Watched()
    watched.app.sync.run(watched.open())
    watched.task.delay(1)
    watched.app.sync.close()
    assert watched.seen[::-1] == ["Caller.delay", "Submitting.submit_here", "Here.send", "Here._insert"]
