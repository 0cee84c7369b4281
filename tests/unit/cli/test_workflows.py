"""``windlass workflows``: what it lists, draws and changes, in words and as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from windlass import JobError, Work, chain, chord, group
from windlass.app import Windlass
from windlass.cli.main import cli
from windlass.cli.target import run

MODULE = "cli_workflows_app"
SOURCE = """
from windlass import Failure, Windlass, current, chain
app = Windlass("shop", "memory://")

@app.task(name="shop.fetch")
async def fetch(x: int) -> int:
    return x

@app.task(name="shop.charge")
async def charge(x: int = 0) -> int:
    raise ValueError("no [money]\\x1b[2J\\nat all")

@app.task(name="shop.total")
async def total(xs: list[int]) -> int:
    return sum(xs)

@app.task(name="shop.sorry")
async def sorry(failure: Failure) -> str:
    return "sorry"

@app.task(name="shop.grow")
async def grow() -> int:
    return await current().replace(chain(fetch.s(1), fetch.s()))
"""


class Shop:
    """The app of a test, its tasks and its command line."""

    def __init__(self, module: Any) -> None:
        self.app: Windlass = module.app
        self.fetch, self.charge, self.total = module.fetch, module.charge, module.total
        self.sorry, self.grow = module.sorry, module.grow

    def __call__(self, command: str, *args: str, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, ["workflows", command, MODULE, *args], prog_name="windlass")
        assert result.exit_code == code, result.output
        return result

    def json(self, command: str, *args: str, code: int = 0) -> Any:
        return msgspec.json.decode(self(command, *args, "--json", code=code).stdout)

    def submit(self, work: Work[Any]) -> str:
        return run(self.app, work.enqueue).id

    def work(self, *works: Work[Any]) -> list[str]:
        """Run workflows to their end, callbacks included."""

        async def body() -> list[str]:
            async with asyncio.timeout(20), self.app.worker():
                handles = [await work.enqueue() for work in works]
                for handle in handles:
                    with_end = [job.id for job in await self.app.workflow(handle.id).jobs()]
                    for id in (handle.id, *with_end):
                        with contextlib.suppress(JobError):
                            await (self.app.workflow(id) if id == handle.id else self.app.job(id))
                return [handle.id for handle in handles]

        return run(self.app, body)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    (tmp_path / f"{MODULE}.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("WINDLASS_APP", raising=False)
    monkeypatch.delenv("WINDLASS_URL", raising=False)
    yield Shop(importlib.import_module(MODULE))
    del sys.modules[MODULE]


def test_the_list(shop: Shop) -> None:
    assert "no workflows" in shop("list").stderr
    good, bad = shop.work(
        chain(shop.fetch.s(1), shop.fetch.s()).named("good one"), chain(shop.charge.s(), shop.fetch.s())
    )
    lines = shop("list").stdout.splitlines()
    assert lines[0].split() == ["id", "state", "jobs", "age", "name", "about"]
    assert lines[1].split()[:3] == [bad, "failed", "2/2"]
    assert "chain of shop.charge, shop.fetch  shop.charge" in lines[1]
    assert lines[2].split()[:3] == [good, "succeeded", "2/2"]
    page = shop.json("list", "--state", "failed")
    assert [(one["id"], one["done"], one["total"], one["counts"]) for one in page["workflows"]] == [
        (bad, 2, 2, {"failed": 1, "skipped": 1})
    ]
    first = shop("list", "--limit", "1")
    cursor = first.stderr.split("--after ")[1].strip()
    assert good in shop("list", "--after", cursor).stdout


def test_one_workflow_as_a_tree(shop: Shop) -> None:
    members = group(shop.fetch.si(2), shop.charge.s().on_error(shop.sorry.s()), chain(shop.fetch.s(), shop.fetch.s()))
    (id,) = shop.work(chain(shop.fetch.s(1), members, shop.total.s()).on_error(shop.sorry.s()).named("order 42"))
    result = shop("show", id)
    jobs = [job.id for job in run(shop.app, shop.app.workflow(id).jobs)]
    record, _, tree = result.stdout.partition("\n\n")
    fields = {line.split()[0]: " ".join(line.split()[1:]) for line in record.splitlines()}
    assert (fields["id"], fields["name"], fields["state"]) == (id, "order 42", "failed")
    assert fields["reason"] == f"shop.charge {jobs[2]} failed"
    assert fields["jobs"] == "6 of 6 (1 failed, 1 skipped, 4 succeeded)"
    assert [line.rstrip() for line in tree.splitlines()] == [
        "✗ chain",
        f"├── ✓ shop.fetch  {jobs[0]}  → 1",
        "├── ✗ group of 3",
        f"│   ├── ✓ shop.fetch  {jobs[1]}  → 2",
        f"│   ├── ✗ shop.charge  {jobs[2]}  ValueError: no [money] [2J",
        f'│   │   └── on error: ✓ shop.sorry  {jobs[3]}  → "sorry"',
        "│   └── ✓ chain",
        f"│       ├── ✓ shop.fetch  {jobs[4]}  → 1",
        f"│       └── ✓ shop.fetch  {jobs[5]}  → 1",
        f"├── – shop.total  {jobs[6]}  skipped",
        f'└── on error: ✓ shop.sorry  {jobs[7]}  → "sorry"',
    ]


def test_a_crowd_is_one_line_unless_all_is_asked_for(shop: Shop) -> None:
    id = shop.submit(chord([shop.fetch.si(n) for n in range(1200)], shop.total.s()))
    tree = shop("show", id).stdout.partition("\n\n")[2]
    assert "group of 1,200, 0 over" in tree
    assert "○ … 1,197 more shop.fetch ready" in tree
    assert len(tree.splitlines()) == 7
    assert len(shop("show", id, "--all").stdout.partition("\n\n")[2].splitlines()) == 1203


def test_what_a_job_became_is_shown_below_it(shop: Shop) -> None:
    (id,) = shop.work(chain(shop.grow.s(), shop.fetch.s()))
    (inner,) = [one["id"] for one in shop.json("list")["workflows"] if one["parent"]]
    tree = [" ".join(line.split()) for line in shop("show", id).stdout.partition("\n\n")[2].splitlines()]
    assert tree[2].startswith(f"│ └── ✓ chain of shop.fetch {inner}")
    parent = run(shop.app, shop.app.workflow(id).jobs)[0].id
    assert f"takes the place of  job {parent}" in shop("show", inner).stdout


def test_json_graphs_and_mistakes(shop: Shop) -> None:
    (id,) = shop.work(chain(shop.fetch.s(1), shop.fetch.s()))
    whole = shop.json("show", id)
    assert (whole["id"], whole["state"]) == (id, "succeeded")
    (top,) = whole["tree"]["children"]
    assert [(node["task"], node["state"], node["result"]) for node in top["children"]] == [
        ("shop.fetch", "succeeded", 1)
    ] * 2
    assert shop("show", id, "--mermaid").stdout.startswith('flowchart TD\n  n0["shop.fetch"]:::succeeded\n')
    assert shop("show", id, "--dot").stdout.startswith('digraph "chain of shop.fetch" {\n')
    assert "there is no workflow 'never'" in shop("show", "never", code=1).stderr
    assert "there is no workflow 'never'" in shop("show", "never", "--dot", code=1).stderr
    assert "give one workflow ID" in shop("show", code=2).stderr
    assert "give one of --json, --mermaid and --dot" in shop("show", id, "--dot", "--mermaid", code=2).stderr


def test_cancel_and_retry(shop: Shop) -> None:
    (bad,) = shop.work(chain(shop.charge.s(), shop.fetch.s()))
    waiting = shop.submit(chain(shop.fetch.s(1), shop.fetch.s()))
    job = run(shop.app, lambda: shop.fetch.enqueue(1)).id
    assert shop.json("retry", bad) == {"retried": [bad], "skipped": {}}
    assert f"{bad}  not retried: it is running" in shop("retry", bad, code=1).stdout
    assert f"{job}  not cancelled: no such workflow" in shop("cancel", job, code=1).stdout
    assert f"{waiting}  cancelled" in shop("cancel", waiting, "--reason", "changed my mind").stdout
    record = shop.json("show", waiting)
    assert (record["state"], record["reason"]) == ("cancelled", "changed my mind")
    assert "missing workflow IDs" in shop("cancel", code=2).stderr
