"""The commands that call, show and change jobs, on a SQLite file with jobs in every state."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from windlass import every
from windlass.app import Windlass
from windlass.cli import output
from windlass.cli.main import cli
from windlass.cli.target import run
from windlass.core.job import State
from windlass.operate.standing import slots_of
from windlass.store.jobs import Presence
from windlass.store.reads import WorkerInfo

MODULE = "cli_jobs_app"
SOURCE = """
from windlass import Windlass, current
app = Windlass("shop", "sqlite:///shop.db")

@app.task
async def add(x: int, y: int) -> int:
    return x + y

@app.task(queue="emails", retries=1, backoff=0.01)
def send(to: str, subject: str = "Hi") -> str:
    current().log("connecting")
    current().progress(50, "half way", step=2)
    if "@" not in to:
        raise ValueError(f"{to!r} is no [address]")
    return f"sent to {to}"

@app.task(name="elsewhere.add", queue="never")
async def other(x: int) -> int:
    return x
"""


class Shop:
    """The app of a test, and its command line."""

    def __init__(self, app: Windlass) -> None:
        self.app = app

    def __call__(self, *args: str, code: int = 0, input: str | None = None) -> Result:
        command = args[:2] if args[0] in ("jobs", "dead") else args[:1]
        whole = [*command, MODULE, *args[len(command) :]]
        result = CliRunner().invoke(cli, whole, prog_name="windlass", input=input)
        assert result.exit_code == code, result.output
        return result

    def json(self, *args: str, code: int = 0) -> Any:
        return msgspec.json.decode(self(*args, "--json", code=code).stdout)

    def work(self) -> None:
        """Run what is ready to its end."""

        async def until_idle() -> None:
            async with asyncio.timeout(20), self.app.worker(queues=["default", "emails"]):
                while await self._busy():
                    pass

        run(self.app, until_idle)

    async def _busy(self) -> int:
        await asyncio.sleep(0.02)
        queues = ("default", "emails")
        counts = [await self.app.queue(name).counts() for name in queues]
        due = len([job for job in (await self.app.jobs(state="scheduled")).jobs if job.attempts])
        return due + sum(count.get("ready", 0) + count.get("running", 0) for count in counts)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    (tmp_path / f"{MODULE}.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("WINDLASS_APP", raising=False)
    monkeypatch.delenv("WINDLASS_URL", raising=False)
    yield Shop(importlib.import_module(MODULE).app)
    del sys.modules[MODULE]


def test_enqueue_takes_words_json_and_options(shop: Shop) -> None:
    shop("enqueue", f"{MODULE}.add", "x=1", "y=2", "--id", "a")
    shop(
        "enqueue", "send", "to=a@b.c", "--args", '{"subject": "Yo"}', "--queue", "mail", "--priority", "9", "--id", "b"
    )
    shop("enqueue", "send", "--args", '["007", "1"]', "--delay", "10m", "--id", "c")
    shop("enqueue", "elsewhere.add", "x=3", "--at", "2100-01-01T00:00Z", "--id", "d")
    jobs = {job["id"]: job for job in shop.json("jobs", "list")["jobs"]}
    assert jobs["a"]["args"] == {"x": 1, "y": 2}
    assert jobs["b"]["args"] == {"to": "a@b.c", "subject": "Yo"}
    assert (jobs["b"]["queue"], jobs["b"]["priority"]) == ("mail", 9)
    assert jobs["c"]["args"] == {"to": "007", "subject": "1"}
    assert jobs["c"]["state"] == "scheduled"
    assert jobs["d"]["due_at"].startswith("2100-01-01T00:00:00")


def test_a_short_name_must_be_unique(shop: Shop) -> None:
    text = shop("enqueue", "add", "x=1", code=2).stderr
    assert f"any of {MODULE}.add, elsewhere.add" in text


def test_enqueue_by_url_takes_any_name(shop: Shop) -> None:
    result = CliRunner().invoke(cli, ["enqueue", "--url", "sqlite:///shop.db", "un.known", "a=[1]", "--json"])
    id = msgspec.json.decode(result.stdout)["id"]
    job = shop.json("jobs", "show", id)
    assert (job["task"], job["args"], job["queue"]) == ("un.known", {"a": [1]}, "default")


def test_the_same_id_is_the_same_job_or_an_error(shop: Shop) -> None:
    for _ in range(2):
        shop("enqueue", "send", "to=a@b.c", "--id", "once")
    assert len(shop.json("jobs", "list")["jobs"]) == 1
    assert "once" in shop("enqueue", "send", "to=x@y.z", "--id", "once", code=2).stderr


def test_waiting_ends_with_a_result_an_error_or_in_time(shop: Shop) -> None:
    shop("enqueue", f"{MODULE}.add", "x=1", "y=2", "--id", "good")
    shop("enqueue", "send", "to=anna", "--id", "bad")
    shop.work()
    again = ("enqueue", f"{MODULE}.add", "x=1", "y=2", "--id", "good", "--wait")
    assert shop(*again).stdout == "3\n"
    assert shop.json(*again[:-1], "--wait=5")["result"] == 3
    failed = shop("enqueue", "send", "to=anna", "--id", "bad", "--wait", "5", code=1)
    assert "raise ValueError" in failed.stderr
    assert failed.stdout == ""
    late = shop("enqueue", "elsewhere.add", "x=1", "--wait", "50ms", code=1)
    assert "no worker serves queue never" in late.stderr
    assert "gave no result" in late.stderr


def test_listing_filters_and_pages(shop: Shop) -> None:
    for n in range(5):
        shop("enqueue", "send", f"to=a{n}@b.c", "--id", f"job-{n}")
    shop("enqueue", "elsewhere.add", "x=1")
    first = shop.json("jobs", "list", "--queue", "emails", "--limit", "3")
    assert [job["id"] for job in first["jobs"]] == ["job-4", "job-3", "job-2"]
    rest = shop.json("jobs", "list", "--queue", "emails", "--limit", "3", "--after", first["cursor"])
    assert [job["id"] for job in rest["jobs"]] == ["job-1", "job-0"]
    assert len(shop.json("jobs", "list", "--task", "elsewhere.add")["jobs"]) == 1
    assert shop.json("jobs", "list", "--state", "failed", "--state", "running")["jobs"] == []
    text = shop("jobs", "list", "--limit", "2").output
    assert "job-4" in text
    assert "--after" in text
    assert "no jobs" in shop("jobs", "list", "--state", "failed").output


def test_a_job_is_shown_with_everything(shop: Shop) -> None:
    shop("enqueue", "send", "to=anna", "--id", "bad")
    shop("enqueue", f"{MODULE}.add", "x=1", "y=2", "--id", "good")
    shop.work()
    text = shop("jobs", "show", "bad").stdout
    for part in ("failed", "2 failed attempts", '"to": "anna"', "Traceback", "'anna' is no [address]", "connecting",
                 "50% half way", '"step": 2', "earlier attempts"):  # fmt: skip
        assert part in text
    shown = shop.json("jobs", "show", "bad")
    assert shown["error"]["type"] == "ValueError"
    assert [line["text"] for line in shown["logs"]] == ["connecting", "connecting"]
    assert re.search(r"result\n  3\n", shop("jobs", "show", "good").stdout)
    assert "no [address]" in shop("jobs", "list").stdout
    assert "no job 'nope'" in shop("jobs", "show", "nope", code=1).stderr


def test_cancel_and_retry_say_what_they_did(shop: Shop) -> None:
    shop("enqueue", "send", "to=a@b.c", "--id", "one")
    shop("enqueue", "send", "to=a@b.c", "--id", "later", "--delay", "1h")
    text = shop("cancel", "one", "nope", "--reason", "changed my mind", code=1).stdout
    assert re.search("one  cancelled", text)
    assert re.search("nope  not cancelled: no such job", text)
    assert shop.json("jobs", "show", "one")["reason"] == "changed my mind"
    assert shop.json("cancel", "one", code=1) == {"cancelled": [], "skipped": {"one": "cancelled"}}
    assert shop.json("retry", "one", "later") == {"retried": ["one", "later"], "skipped": {}}
    assert shop.json("jobs", "show", "later")["state"] == "ready"
    assert "it is ready" in shop("retry", "one", code=1).stdout


def test_dead_letters_are_grouped_edited_replayed_and_purged(shop: Shop) -> None:
    assert "no dead letters" in shop("dead", "list").output
    for n in range(3):
        shop("enqueue", "send", f"to=anna{n}", "--id", f"bad-{n}")
    shop.work()
    assert len(shop.json("dead", "list")["jobs"]) == 3
    (group,) = shop.json("dead", "list", "--group")
    assert (group["count"], group["error"], group["tasks"]) == (3, "ValueError", [f"{MODULE}.send"])
    assert group["fingerprint"] in shop("dead", "list", "--group").stdout
    assert "anna2" in shop("dead", "list").stdout
    assert "Traceback" in shop("dead", "show", "bad-0").stdout

    assert shop.json("dead", "edit", "bad-0", "to=anna@b.c")["args"] == {"to": "anna@b.c"}
    assert "Expected `str`" in shop("dead", "edit", "bad-0", "to=3", code=2).stderr
    assert "no job" in shop("dead", "edit", "nope", "to=a@b.c", code=1).stderr
    assert shop.json("dead", "replay", "bad-0") == {"replayed": 1}
    shop.work()
    assert shop.json("jobs", "show", "bad-0")["result"] == "sent to anna@b.c"
    assert "not a dead letter" in shop("dead", "edit", "bad-0", "to=a@b.c", code=1).stderr
    assert "not a dead letter" in shop("dead", "replay", "bad-0", code=1).stderr
    assert shop("dead", "replay", "--fingerprint", group["fingerprint"]).stdout == "replayed 2 dead letters\n"
    shop.work()

    refused = shop("dead", "purge", "--all", input="n\n", code=1)
    assert "Delete all dead letters for good?" in refused.output
    assert shop("dead", "purge", "bad-1", input="y\n").stdout.endswith("purged 1 dead letter\n")
    assert shop.json("dead", "purge", "--task", f"{MODULE}.send", "--yes") == {"purged": 1}
    assert shop.json("dead", "list")["jobs"] == []


def test_an_editor_edits_a_dead_letter(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop("enqueue", "send", "to=anna", "--id", "bad")
    shop.work()
    edited: list[str | None] = ['{"to": "anna@b.c"}', "[1]", None]
    monkeypatch.setattr("click.edit", lambda text, extension: edited.pop(0))
    assert "anna@b.c" in shop("dead", "edit", "bad").stdout
    assert "no JSON object" in shop("dead", "edit", "bad", code=2).stderr
    assert "nothing was changed" in shop("dead", "edit", "bad", code=1).stderr


def test_queues_and_workers_are_shown(shop: Shop) -> None:
    assert "no queue" in shop("queues").output
    assert "no worker" in shop("workers").output
    shop("enqueue", "send", "to=a@b.c")
    (info,) = shop.json("queues")
    assert (info["name"], info["counts"]["ready"]) == ("emails", 1)
    assert re.search(r"emails +1 +0", shop("queues").stdout)

    def ask(*more: str) -> str:
        return CliRunner().invoke(cli, ["workers", MODULE, *more]).stdout

    async def look() -> tuple[str, str]:
        async with shop.app.worker(queues=["default"]):
            return await asyncio.to_thread(ask), await asyncio.to_thread(ask, "--json")

    text, document = run(shop.app, look)
    assert re.search(r"idle +0/100 .*default", text)
    assert msgspec.json.decode(document)[0]["alive"] is True


def test_events_are_told_and_resumed(shop: Shop) -> None:
    shop("enqueue", "send", "to=anna", "--id", "bad")
    shop.work()
    lines = [msgspec.json.decode(line) for line in shop("tail", "--no-follow", "--json").stdout.splitlines()]
    kinds = [line["kind"] for line in lines if line.get("job") == "bad"]
    assert kinds[:2] == ["enqueued", "started"]
    assert kinds[-1] == "failed"
    rest = shop("tail", "--no-follow", "--json", "--since", lines[-2]["cursor"]).stdout.splitlines()
    assert [msgspec.json.decode(line) for line in rest] == lines[-1:]
    text = shop("tail", "--no-follow", "--task", f"{MODULE}.send", "--kind", "retried", "--kind", "progress").stdout
    assert "50% half way" in text
    assert "again in" in text
    assert "started" not in text


def test_rarer_changes(shop: Shop) -> None:
    shop("enqueue", "send", "to=a@b.c", "--id", "one", "--delay", "1h")
    assert shop.json("jobs", "move", "one", "--to", "bulk") == {"moved": ["one"], "skipped": {}}
    assert shop.json("jobs", "reprioritise", "one", "--to", "9") == {"reprioritised": ["one"], "skipped": {}}
    assert "one  promoted" in shop("jobs", "promote", "one").stdout
    job = shop.json("jobs", "show", "one")
    assert (job["queue"], job["priority"], job["state"]) == ("bulk", 9, "ready")
    assert "it is ready" in shop("jobs", "promote", "one", code=1).stdout
    assert "add --yes" in shop("jobs", "delete", "one", "--json", code=2).stderr
    assert "Delete 1 job for good?" in shop("jobs", "delete", "one", input="n\n", code=1).output
    assert "one  deleted" in shop("jobs", "delete", "one", "-y").stdout
    assert "no such job" in shop("jobs", "delete", "one", "-y", code=1).stdout


def test_a_listing_takes_the_language_of_filters(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for x in range(4):
        shop("enqueue", "cli_jobs_app.add", f"x={x}", "y=1", "--id", f"add-{x}")
    shop("enqueue", "elsewhere.add", "x=9", "--id", "other")

    def found(*filter: str) -> list[str]:
        return [job["id"] for job in shop.json("jobs", "list", *filter)["jobs"]]

    assert found("args.x:>1 -queue:never") == ["add-3", "add-2"]
    assert found("args.x:0", "OR", "args.x:>8") == ["other", "add-0"]
    assert found("args.x:0 OR args.x:>8", "--queue", "never") == ["other"]
    assert found("'add-2'") == ["add-2"]
    assert found("NOT task:cli_jobs_app.add") == ["other"]
    wrong = shop("jobs", "list", "state:ready arg.x:1", code=2).output
    assert "did you mean 'args'" in wrong
    assert "state:ready arg.x:1\n            ^^^\n" in wrong
    monkeypatch.setenv("WINDLASS_APP", MODULE)  # a word that looks like an app is the filter's
    assert CliRunner().invoke(cli, ["jobs", "list", "queue:never"]).output.count("other") == 1


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["queues", "pause", "emial"], "nobody knows queue 'emial' (did you mean 'emails'?)"),
        (["queues", "resume", "emial"], "did you mean 'emails'"),
        (["queues", "tune", "emial", "--limit", "3"], "did you mean 'emails'"),
        (["queues", "untune", "emial"], "did you mean 'emails'"),
        (["queues", "drain", "emial"], "did you mean 'emails'"),
        (["queues", "purge", "emial", "--yes"], "did you mean 'emails'"),
        (["queues", "move", "emails", "nevr", "--yes"], "nobody knows queue 'nevr' (did you mean 'never'?)"),
        (["tasks", "pause", "elswhere.add"], "nobody knows task 'elswhere.add' (did you mean 'elsewhere.add'?)"),
    ],
)
def test_a_name_nobody_knows_is_done_and_doubted(shop: Shop, command: list[str], says: str) -> None:
    """It may be meant: a queue can be paused before its first job."""
    result = CliRunner().invoke(cli, [*command[:2], MODULE, *command[2:]])
    assert result.exit_code == 0
    assert says in result.stderr
    assert "warning" not in result.stdout
    known = [{"emial": "emails", "nevr": "never", "elswhere.add": "elsewhere.add"}.get(word, word) for word in command]
    assert "warning" not in CliRunner().invoke(cli, [*known[:2], MODULE, *known[2:]]).stderr


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["schedules", "pause", "nihgtly"], "there is no schedule 'nihgtly' (did you mean 'nightly'?)"),
        (["workers", "quiet", "nobody:1"], "there is no live worker 'nobody:1'"),
        (["breakers", "open", "bnak"], "there is no breaker 'bnak' (did you mean 'bank'?)"),
    ],
)
def test_what_must_be_there_is_refused_with_a_hint(shop: Shop, command: list[str], says: str) -> None:
    async def put() -> None:
        await shop.app.schedules.put("nightly", every("day at 03:00"), "elsewhere.add", args=[1])

    run(shop.app, put)
    shop.app.breaker("bank")
    result = CliRunner().invoke(cli, [*command[:2], MODULE, *command[2:]])
    assert result.exit_code == 1
    assert says in result.stderr


def test_queues_as_json_have_numbers(shop: Shop) -> None:
    shop("enqueue", "cli_jobs_app.send", "to=ann")
    shop.app.queue("emails", limit=3)
    run(shop.app, lambda: shop.app.queue("emails").tune(limit=3, rate="10/m"))
    result = CliRunner().invoke(cli, ["queues", "list", MODULE, "--json"])
    (queue,) = msgspec.json.decode(result.stdout)
    assert "null" not in result.stdout
    assert queue.pop("oldest_ready") >= 0
    assert queue == {
        "name": "emails", "counts": {str(state): int(state == "ready") for state in State}, "lanes": 0,
        "paused": False, "draining": False, "limits": {"limit": 3, "rate": "10/m"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("taken", "load", "shown"),
    [
        (0, {}, "0/20"),
        (20, {"running": 3}, "20/20"),
        (23, {"running": 20}, "20/20 +3"),
        (23, {}, "20/20 +3"),
        (500, {"running": 5, "held": 500}, "5/20"),  # members of batches
        (23, {"running": "?"}, "20/20 +3"),
    ],
)
def test_slots_and_what_was_taken_besides(taken: int, load: dict[str, Any], shown: str) -> None:
    who = Presence(id="w", queues=[], declares={}, concurrency=20, load=load)
    busy, ahead = slots_of(WorkerInfo(presence=who, beat_age=0, alive=True, running=taken, idle=False))
    assert output.slots(busy, 20, ahead) == shown
