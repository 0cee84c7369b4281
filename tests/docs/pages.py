"""The documentation's pages and the fenced blocks in them.

The word after the language says what is done with a block:

    ```python                    runs in the page's namespace, statement by statement; top-level await is fine
    ```python file=shop.py       is written to that file and imported; its names join the namespace
    ```python no-run: reason     is only compiled
    ```console                   commands behind "$ "; other lines are output that must be there ("…": anything)
    <!-- python                  runs like the first and is not shown, up to the closing -->
    <!-- no worker -->           anywhere on the page: the page starts its workers itself
    <!-- redis -->               anywhere on the page: it gets a Redis server of its own, which localhost:6379 and
                                 redis-cli stand for in its blocks
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^( *)```(\w*) *(.*)$")
# Written beside the code they describe, and checked there.
_ELSEWHERE = ("docs/benchmarks/", "docs/maintainers/", "docs/reference/engine-rules.md")


@dataclass(frozen=True)
class Block:
    """One fenced block. ``line`` is that of its first line of content, from 1."""

    language: str
    words: str
    text: str
    line: int

    @property
    def file(self) -> str:
        return self.words.removeprefix("file=") if self.words.startswith("file=") else ""

    @property
    def runs(self) -> bool:
        return not self.words.startswith("no-run")


def pages() -> list[str]:
    """Every page for users, relative to the root."""
    found = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    return ["README.md", *(path for path in found if not path.startswith(_ELSEWHERE))]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def needs_redis(text: str) -> bool:
    return "<!-- redis -->" in text


def with_redis(text: str, port: str) -> str:
    """The page as it would be written for this server. Lines keep their numbers."""
    return re.sub(r"^\$ redis-cli\b", f"$ redis-cli -p {port}", text, flags=re.MULTILINE).replace(
        "localhost:6379", f"127.0.0.1:{port}"
    )


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if line.strip() == "<!-- python":
            found.append(Block("python", "hidden", "\n".join(_until("-->", lines)), number + 1))
        elif fence := _FENCE.match(line):
            body = [inner.removeprefix(fence[1]) for inner in _until("```", lines)]
            found.append(Block(fence[2], fence[3].strip(), "\n".join(body), number + 1))
    return found


def _until(end: str, lines: object) -> list[str]:
    body: list[str] = []
    for _, line in lines:  # type: ignore[attr-defined]
        if line.strip() == end:
            return body
        body.append(line)
    raise ValueError(f"a block does not end with {end}: {body[:1]}")
