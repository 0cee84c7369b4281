"""Every snippet runs, every link resolves, and the repository speaks of Windlass alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, needs_redis, pages, read
from tests.docs.run_page import REDIS_PORT
from tests.servers.fixtures import NewRedis, new_redis

__all__ = ["new_redis"]

RUNNER = Path(__file__).with_name("run_page.py")
WORKFLOWS = [f"docs/how-to/{name}.md" for name in ("workflows", "flows", "grow-a-workflow-while-it-runs")]
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
LANGUAGES = {"python", "console", "sh", "ini", "toml", "dockerfile", "json", "text", "sql", "yaml", "html", "mermaid"}


@pytest.mark.parametrize("page", pages())
def test_snippets_run(page: str, tmp_path: Path, new_redis: NewRedis) -> None:
    run_page(page, tmp_path, str(new_redis().port) if needs_redis(read(page)) else "")


@pytest.mark.parametrize("engine", ["sqlite", "redis"])
@pytest.mark.parametrize("page", WORKFLOWS)
def test_workflows_are_the_same_on_every_engine(page: str, engine: str, tmp_path: Path, new_redis: NewRedis) -> None:
    """The pages use the memory engine, to be short. What they say holds for all."""
    url = "sqlite:///page.db" if engine == "sqlite" else f"redis://127.0.0.1:{new_redis().port}/0"
    text = read(page)
    assert '"memory://"' in text
    changed = tmp_path / Path(page).name
    changed.write_text(text.replace('"memory://"', f'"{url}"'), encoding="utf-8")
    run_page(str(changed), tmp_path)


def run_page(page: str, folder: Path, redis_port: str = "") -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    if redis_port:
        env[REDIS_PORT] = redis_port
    answer = subprocess.run([sys.executable, str(RUNNER), page], cwd=folder, env=env, capture_output=True, text=True,
                            timeout=110, check=False)  # fmt: skip
    assert answer.returncode == 0, f"{answer.stdout}\n{answer.stderr}"


@pytest.mark.parametrize("page", pages())
def test_blocks_say_what_they_are(page: str) -> None:
    for block in blocks(read(page)):
        assert block.language in LANGUAGES, f"{page}:{block.line}: unknown language {block.language!r}"
        if not block.runs:
            reason = block.words.removeprefix("no-run").removeprefix(":").strip()
            assert reason, f"{page}:{block.line}: no-run needs a reason"


@pytest.mark.parametrize("page", pages())
def test_links_resolve(page: str) -> None:
    here = (ROOT / page).parent
    for link in _LINK.findall(prose(read(page))):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (here / path).resolve() if path else ROOT / page
        assert target.exists(), f"{page}: the link {link} leads nowhere"
        if anchor:
            assert anchor in anchors(target), f"{page}: {link} has no such heading"


def test_every_page_can_be_reached_from_the_index() -> None:
    seen, todo = set(), ["README.md", "docs/README.md"]
    while todo:
        page = todo.pop()
        if page in seen or not page.endswith(".md"):
            continue
        seen.add(page)
        for link in _LINK.findall(prose(read(page))):
            target = ((ROOT / page).parent / link.partition("#")[0]).resolve()
            if target.is_file() and target.is_relative_to(ROOT):
                todo.append(target.relative_to(ROOT).as_posix())
    assert set(pages()) - seen == set()


def prose(text: str) -> str:
    """The page without its code."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names a forge gives to headings."""
    titles = _HEADING.findall(prose(page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
