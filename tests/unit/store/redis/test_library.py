"""The Lua library as source: every file is in it, none is long, and no function is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from windlass.store.redis import library

LUA = Path(library.__file__).parent / "lua"
LONGEST_FUNCTION = 45
LONGEST_FILE = 450

TOKEN = re.compile(
    r"--\[(=*)\[.*?\]\1\]|--[^\n]*|\[(=*)\[.*?\]\2\]|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|[A-Za-z_]\w*|\n|.",
    re.DOTALL,
)
NAME = re.compile(r"\s*([\w.:]*)")
OPENS = frozenset({"function", "if", "for", "while", "do", "repeat"})


class Function(NamedTuple):
    """A Lua function of a file; one without a name is called ``?``."""

    name: str
    line: int
    lines: int


def functions(source: str) -> Iterator[Function]:
    """The functions of a Lua source, from ``function`` to its ``end``."""
    line, blocks = 1, list[tuple[str, str, int]]()
    for found in TOKEN.finditer(source):
        word = found.group()
        if word == "do" and blocks and blocks[-1][0] in ("for", "while"):
            blocks[-1] = ("do", "", line)  # the loop's own
        elif word in OPENS:
            name = NAME.match(source, found.end()) if word == "function" else None
            blocks.append((word, name.group(1) if name else "", line))
        elif word in ("end", "until"):
            kind, called, since = blocks.pop()
            if kind == "function":
                yield Function(called or "?", since, line - since + 1)
        line += word.count("\n")
    assert not blocks, f"not closed: {blocks}"


def sources() -> dict[str, str]:
    return {
        path.relative_to(LUA).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(LUA.rglob("*.lua"))
    }


def test_every_file_is_in_the_library_once() -> None:
    named = [*library.SHARED, *(part for call in library.CALLS for part in call)]
    assert sorted(named) == sorted(sources())


def test_no_lua_file_and_no_lua_function_is_long() -> None:
    found = [
        f"{name}.lua has {source.count(chr(10))} lines, the limit is {LONGEST_FILE}"
        for name, source in sources().items()
        if source.count("\n") > LONGEST_FILE
    ]
    found += [
        f"{name}.lua:{one.line}: {one.name} has {one.lines} lines, the limit is {LONGEST_FUNCTION}"
        for name, source in sources().items()
        for one in functions(source)
        if one.lines > LONGEST_FUNCTION
    ]
    assert not found, "\n" + "\n".join(found)


def test_every_file_says_what_it_is_for() -> None:
    assert [name for name, source in sources().items() if not source.startswith("-- ")] == []


def test_each_function_of_the_library_says_what_it_takes_and_answers() -> None:
    registered = {name for source in sources().values() for name in re.findall(r"register\('(\w+)'", source)}
    assert registered == set(library.FUNCTIONS)
    told = {name: entry_comment(name) for name in library.FUNCTIONS}
    assert [name for name, comment in told.items() if not comment] == [], "they do not say what they take"
    assert [name for name, comment in told.items() if "nswers" not in comment] == [], "they do not say what they answer"


def entry_comment(name: str) -> str:
    """What stands above a function of the library, from the line that begins with its name."""
    whole = "\n".join(sources().values())
    found = re.search(rf"^ *-- {name}\(settings, now.*\n(?: *--.*\n)*", whole, re.MULTILINE)
    return found.group() if found else ""


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("function a.b(t)\n    return 1\nend", [("a.b", 1, 3)]),
        ("local function f() return 'end' end -- end", [("f", 1, 1)]),
        ("local f = function(x)\nfor i = 1, 2 do\nwhile x do break end\nend\nend", [("?", 1, 5)]),
        ("do\nfunction f()\nrepeat x() until y\nif a then b() elseif c then d() else e() end\nend\nend", [("f", 2, 4)]),
        ("function f()\nlocal s = [==[ end\nend ]==]\nreturn g(function() end)\nend", [("?", 4, 1), ("f", 1, 5)]),
    ],
)
def test_the_length_of_a_lua_function_is_counted(source: str, told: list[tuple[str, int, int]]) -> None:
    assert [tuple(one) for one in functions(source)] == told
