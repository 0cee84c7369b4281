"""The commands that hold queues and tasks back, show limits, and say why a job does not run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from windlass.app import Windlass
from windlass.cli.main import cli
from windlass.cli.target import run

MODULE = "cli_flow_app"
SOURCE = """
from windlass import Windlass
app = Windlass("shop", "sqlite:///shop.db?durability=normal")

@app.task(queue="emails", limit=3)
async def send(to: str) -> str:
    return to
"""


class Shop:
    """The app of a test, and its command line."""

    def __init__(self, app: Windlass) -> None:
        self.app = app

    def __call__(self, *args: str, code: int = 0, input: str | None = None) -> Result:
        result = CliRunner().invoke(cli, ["-A", MODULE, *args], prog_name="windlass", input=input)
        assert result.exit_code == code, result.output
        return result

    def json(self, *args: str, code: int = 0) -> Any:
        return msgspec.json.decode(self(*args, "--json", code=code).stdout)

    def send(self, *to: str, **options: Any) -> list[str]:
        """Enqueue some, and their ids."""
        task = self.app.tasks[f"{MODULE}.send"]

        async def all() -> list[str]:
            return [(await task.options(**options).enqueue(one)).id for one in to]

        return run(self.app, all)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield Shop(importlib.import_module(MODULE).app)
    sys.modules.pop(MODULE, None)


def test_queues_are_paused_and_resumed(shop: Shop) -> None:
    (id,) = shop.send("a")
    assert "queue emails  paused" in shop("queues", "pause", "emails").stdout
    assert "paused" in shop("queues").stdout
    assert "paused" in shop("queues", "list").stdout
    assert shop("jobs", "why", id).stdout.splitlines()[0] == f"{id}  queue 'emails' is paused"
    assert shop.json("jobs", "why", id)[id][0]["code"] == "paused_queue"
    assert shop.json("queues", "resume", "emails")["paused"] is False
    assert "paused" not in shop("queues").stdout
    assert shop.json("jobs", "why", id)[id][0]["code"] == "no_worker"
    assert "no record" in shop("jobs", "why", "unknown", code=1).stdout


def test_queues_are_tuned(shop: Shop) -> None:
    shop("queues", "tune", "emails", "--rate", "5/s", "--limit", "10", "--key-limit", "2", "--max-ready", "7")
    (info,) = shop.json("limits")
    assert (info["kind"], info["name"], info["limit"], info["key_limit"], info["max_ready"]) == (
        "queue",
        "emails",
        10,
        2,
        7,
    )
    text = shop("limits").stdout
    assert "queue emails" in text
    assert "5/s" in text
    assert "2 per key, at most 7 ready, tuned: limit, rate, key_limit, max_ready" in text
    shop.send("a")
    assert "limit 10, 5/s, 2 per key, at most 7 ready" in shop("queues").stdout
    assert shop.json("queues", "tune", "emails", "--rate", "none", "--limit", "none")["limit"] is None
    shop("queues", "untune", "emails")
    assert "nothing is limited" in shop("limits").output
    assert "say what to tune: --limit, --rate" in shop("queues", "tune", "emails", code=2).stderr
    assert "neither a whole number" in shop("queues", "tune", "emails", "--limit", "few", code=2).stderr
    assert "rate is 'fast'" in shop("queues", "tune", "emails", "--rate", "fast", code=2).stderr


def test_tasks_are_paused_and_tuned(shop: Shop) -> None:
    assert shop.json("tasks", "pause", "far.away")["paused"] is True
    assert "task far.away  tuned: paused, limit 2" in shop("tasks", "tune", "far.away", "--limit", "2").stdout
    shop("tasks", "untune", "far.away")
    assert "paused" in shop("limits").stdout
    shop("tasks", "resume", "far.away")
    assert "nothing is limited" in shop("limits").output
    assert "one task" in shop("tasks", "pause", code=2).stderr


def test_a_queue_is_drained(shop: Shop) -> None:
    shop.send("a")
    assert "1 ready" in shop("queues", "drain", "emails", "--timeout", "10ms", code=1).stderr
    assert "draining" in shop("queues").stdout
    shop("queues", "purge", "emails", "--yes")
    assert "drained" in shop("queues", "drain", "emails").stdout
    shop("queues", "resume", "emails")
    shop.send("b")


def test_purge_and_move_ask_for_the_name(shop: Shop) -> None:
    shop.send("a", "b")
    shop.send("c", delay="1h")
    assert "another name" in shop("queues", "purge", "emails", input="email\n", code=1).stderr
    assert "add --yes" in shop("queues", "purge", "emails", "--json", code=2).stderr
    assert shop("queues", "move", "emails", "slow", "--state", "scheduled", input="emails\n").stdout == "moved 1 job\n"
    assert shop.json("queues", "purge", "emails", "--yes") == {"purged": 2}
    assert shop.json("queues", "move", "slow", "emails", "--yes") == {"moved": 1}
    assert "other queue" in shop("queues", "move", "emails", code=2).stderr
    assert "already" in shop("queues", "move", "emails", "emails", "--yes", code=2).stderr


def test_jobs_get_another_time(shop: Shop) -> None:
    (id,) = shop.send("a")
    assert "rescheduled" in shop("jobs", "reschedule", id, "--delay", "1h").stdout
    assert "it is due in 59m" in shop("jobs", "why", id).stdout
    assert shop.json("jobs", "reschedule", id, "--at", "2040-01-01T00:00Z")["rescheduled"] == [id]
    assert shop.json("jobs", "show", id)["due_at"] == "2040-01-01T00:00:00Z"
    assert "--delay or --at" in shop("jobs", "reschedule", id, code=2).stderr
    assert "promoted" in shop("jobs", "promote", id).stdout


def test_a_group_lists_when_no_command_is_named(shop: Shop) -> None:
    shop.send("a")
    direct = CliRunner().invoke(cli, ["queues", MODULE, "--json"]).stdout
    assert msgspec.json.decode(direct)[0]["name"] == "emails"
    assert "purge" in CliRunner().invoke(cli, ["queues", "--help"]).stdout
