"""``windlass audit`` and ``windlass schema``; and that whatever a command changes leaves a record."""

from __future__ import annotations

import getpass
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from windlass import every
from windlass.app import Windlass
from windlass.cli.main import cli
from windlass.cli.operator import user_name
from windlass.cli.target import run
from windlass.console import Console
from windlass.errors import JobError

MODULE = "cli_audit_app"
SOURCE = """
from typing import TypedDict
from windlass import Windlass
app = Windlass("shop", "sqlite:///shop.db?durability=normal")

class Old(TypedDict):
    address: str

def from_first(old: Old) -> dict[str, object]:
    return {"to": old["address"]}

@app.task(queue="emails", version=2, upcast={1: from_first}, retries=0)
async def send(to: str, copies: int = 1) -> str:
    raise OSError("no route")

@app.task(breaker="stripe")
async def charge() -> None: ...

@app.task
async def clean() -> None: ...
"""


class Shop:
    """The app of a test, and its command line."""

    def __init__(self, app: Windlass) -> None:
        self.app = app

    def __call__(self, *args: str, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, ["-A", MODULE, *args], prog_name="windlass")
        assert result.exit_code == code, result.output
        return result

    def json(self, *args: str, code: int = 0) -> Any:
        return msgspec.json.decode(self(*args, "--json", code=code).stdout)

    def last(self) -> dict[str, Any]:
        """The newest record."""
        return self.json("audit", "--limit", "1")["rows"][0]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield Shop(importlib.import_module(MODULE).app)
    sys.modules.pop(MODULE, None)


async def fill(app: Windlass) -> None:
    """Some dead letters, a workflow that failed, jobs for later, and the schedules in the store."""
    send, charge = app.tasks[f"{MODULE}.send"], app.tasks[f"{MODULE}.charge"]
    async with app.worker(queues=["emails", "default"]):
        jobs = [await send.options(id=f"dead-{n}").enqueue("ann") for n in range(4)]
        flow = await (send.s("ann") | charge.si()).with_id("flow-1").enqueue()
        for one in (*jobs, flow):
            with pytest.raises(JobError):
                await one.result(timeout=30)
    await app.schedules.put("nightly", every("1h"), app.tasks[f"{MODULE}.clean"])
    for n in range(6):
        await send.options(id=f"later-{n}", delay="1h").enqueue("ann")


DEEDS = [
    ("cancel later-0 --reason typo", "cancel", "later-0", 1, {"reason": "typo"}),
    ("cancel later-1 nobody", "cancel", "2 jobs", 1, {"ids": ["later-1", "nobody"]}),
    ("retry dead-0", "retry", "dead-0", 1, {}),
    ("workflows retry flow-1", "retry_workflow", "flow-1", 1, {}),
    ("workflows cancel flow-1", "cancel_workflow", "flow-1", 1, {}),
    ("jobs promote later-2", "promote", "later-2", 1, {}),
    ("jobs move later-3 --to slow", "move", "later-3", 1, {"queue": "slow"}),
    ("jobs reprioritise later-3 --to 7", "reprioritise", "later-3", 1, {"priority": 7}),
    ("jobs reschedule later-3 --delay 2h", "reschedule", "later-3", 1, {"delay": 7200.0}),
    ("jobs reschedule later-3 --delay 0", "reschedule", "later-3", 1, {"delay": 0.0}),
    ("jobs delete later-3 --yes", "delete", "later-3", 1, {}),
    ("dead edit dead-1 to=bob", "edit", "dead-1", 1, {"arguments": ["to"], "requeue": False}),
    ("dead replay dead-1", "retry", "dead-1", 1, {}),
    (f"dead replay --queue emails --task {MODULE}.send", "bulk retry", "", 1, {}),
    ("dead purge --all --yes", "bulk delete", "state:failed", 1, {}),
    ("queues pause emails", "pause_queue", "emails", 1, {}),
    ("queues resume emails", "resume_queue", "emails", 1, {}),
    ("queues tune emails --limit 3 --rate none", "tune_queue", "emails", 1, {"limit": 3, "rate": None}),
    ("queues untune emails", "untune_queue", "emails", 1, {}),
    ("queues move emails slow --yes", "move_queue", "emails", 5, {"to": "slow"}),
    ("queues purge slow --yes", "purge_queue", "slow", 5, {"states": ["ready", "scheduled", "waiting"]}),
    ("queues drain empty", "drain_queue", "empty", 1, {}),
    ("tasks pause far.away", "pause_task", "far.away", 1, {}),
    ("tasks tune far.away --limit 2", "tune_task", "far.away", 1, {"limit": 2}),
    ("breakers open stripe --for 10m", "open_breaker", "stripe", 1, {"seconds": 600.0}),
    ("breakers auto stripe", "auto_breaker", "stripe", 1, {}),
    ("schedules pause nightly --reason move", "pause_schedule", "nightly", 1, {"reason": "move"}),
    ("schedules resume nightly", "resume_schedule", "nightly", 1, {}),
    ("schedules run nightly", "run_schedule", "nightly", 1, {}),
    ("schedules remove nightly", "remove_schedule", "nightly", 1, {}),
    ("enqueue send to=ann --delay 1h", "enqueue", f"{MODULE}.send", 1, {"arguments": ["to"], "delay": 3600.0}),
]


def test_whatever_a_command_changes_leaves_a_record(shop: Shop) -> None:
    run(shop.app, lambda: fill(shop.app))
    for line, action, target, count, details in DEEDS:
        found = CliRunner().invoke(cli, ["-A", MODULE, *line.split()], prog_name="windlass")
        assert found.exit_code == (1 if "nobody" in line else 0), (line, found.output)
        record = shop.last()
        assert (record["user"], record["via"], record["outcome"]) == (getpass.getuser(), "cli", "done"), line
        assert record["action"] == action, line
        assert record["target"] == (target or f'state:failed queue:"emails" task:"{MODULE}.send"'), line
        assert record["count"] == count or line.startswith(("dead replay --", "dead purge", "queues")), (line, record)
        assert record["details"].items() >= details.items(), line


def test_what_was_refused_or_not_found_is_there_too(shop: Shop) -> None:
    assert "there is no breaker" in shop("breakers", "open", "stripes", code=1).stderr
    assert shop.last()["outcome"].startswith("error: there is no breaker 'stripes'")
    shop("workflows", "cancel", "nobody", code=1)
    assert (shop.last()["outcome"], shop.last()["count"]) == ("done", 0)
    shop("dead", "replay", "nobody", code=1)
    assert "not a dead letter" in shop("dead", "replay", "nobody", code=1).stderr


def test_looking_leaves_none(shop: Shop) -> None:
    for line in (
        "queues",
        "jobs list",
        "dead list",
        "schedules",
        "limits",
        "breakers",
        "workers",
        "audit",
        "tail --no-follow",
    ):
        shop(*line.split())
    assert shop.json("audit") == {"rows": [], "cursor": ""}
    assert "nothing has been done yet" in shop("audit").stderr


def test_records_come_page_by_page(shop: Shop) -> None:
    for n in range(5):
        shop("queues", "pause", f"q{n}")
    page = shop.json("audit", "--limit", "2")
    assert [row["target"] for row in page["rows"]] == ["q4", "q3"]
    page = shop.json("audit", "--limit", "2", "--after", page["cursor"])
    assert [row["target"] for row in page["rows"]] == ["q2", "q1"]
    text = shop("audit", "--limit", "3")
    assert [line.split()[4:6] for line in text.stdout.splitlines()[1:]] == [["pause_queue", f"q{n}"] for n in (4, 3, 2)]
    assert "more with --after" in text.stderr
    assert "is not one this listing gave out" in shop("audit", "--after", "x" * 50, code=2).stderr


def test_more_records_than_one_page_of_the_console(shop: Shop) -> None:
    async def much() -> None:
        console = Console(shop.app)
        for n in range(230):
            async with console.acting("test", f"t{n}"):
                pass

    run(shop.app, much)
    assert [row["target"] for row in shop.json("audit", "--limit", "225")["rows"]] == [
        f"t{n}" for n in range(229, 4, -1)
    ]


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert user_name().startswith("uid ")


# -- schema


def test_schemas_of_all_tasks_and_versions(shop: Shop) -> None:
    whole = msgspec.json.decode(shop("schema").stdout)
    assert list(whole) == [f"{MODULE}.charge", f"{MODULE}.clean", f"{MODULE}.send"]
    assert shop.json("schema") == whole, "with --json and without"
    versions = whole[f"{MODULE}.send"]["versions"]
    assert versions["2"]["arguments"]["required"] == ["to"]
    assert versions["2"]["arguments"]["properties"]["copies"] == {"type": "integer", "default": 1}
    assert versions["2"]["result"]["type"] == "string"
    assert versions["1"]["arguments"]["$ref"] == "#/$defs/Old"
    assert list(msgspec.json.decode(shop("schema", "send").stdout)) == [f"{MODULE}.send"]
    assert "did you mean 'send'" in shop("schema", "sent", code=2).stderr


def test_schemas_as_files(shop: Shop, tmp_path: Path) -> None:
    text = shop("schema", "--out", "made/schemas").stdout
    assert f"{MODULE}.send  made/schemas/{MODULE}.send.json" in text
    assert len(list((tmp_path / "made/schemas").iterdir())) == 3
    kept = msgspec.json.decode((tmp_path / f"made/schemas/{MODULE}.send.json").read_bytes())
    assert kept == shop.json("schema", "send")[f"{MODULE}.send"]
    assert list(shop.json("schema", "send", "--out", "made")["written"]) == [f"{MODULE}.send"]
    (tmp_path / "file").write_text("")
    assert "file" in shop("schema", "--out", "file/below", code=2).stderr


def test_a_task_whose_name_is_no_file_name(shop: Shop, tmp_path: Path) -> None:
    shop.app.task(name="shop/a:b")(lambda: None)
    shop("schema", "shop/a:b", "--out", "safe")
    assert [path.name for path in (tmp_path / "safe").iterdir()] == ["shop%2fa%3ab.json"]
