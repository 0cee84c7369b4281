"""``windlass schedules``: what it lists, previews and changes, in words and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from windlass.cli.main import cli

MODULE = "cli_schedules_app"
SOURCE = """
from windlass import Windlass, every
app = Windlass("shop", "sqlite:///jobs.db?durability=normal", tz="Europe/Berlin")

@app.task(name="shop.clean")
async def clean(days: int = 1) -> int:
    return days

if not app.sync.schedules.get("nightly"):
    app.sync.schedules.put("nightly", every("day at 02:30"), clean, args=[7], jitter="30s")
    app.sync.schedules.put("often", every("10 minutes"), clean, limit=5)
"""

Run = Callable[..., Result]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def call(command: str, *args: str, code: int = 0, app: bool = True) -> Result:
        words = [command, MODULE, *args] if app else [command, *args]
        result = CliRunner().invoke(cli, ["schedules", *words], prog_name="windlass")
        assert result.exit_code == code, result.output
        return result

    yield call
    module = sys.modules.pop(MODULE, None)
    if module is not None:
        module.app.sync.close()


def read(result: Result) -> Any:
    return msgspec.json.decode(result.stdout)


def test_the_list(shop: Run) -> None:
    text = shop("list").stdout
    assert "nightly" in text
    assert "every day at 02:30 (Europe/Berlin)" in text
    assert [info["name"] for info in read(shop("list", "--json"))] == ["nightly", "often"]
    assert CliRunner().invoke(cli, ["schedules", MODULE]).stdout.startswith("schedule")


def test_one(shop: Run) -> None:
    text = shop("show", "nightly").stdout
    for said in ('{"days":7}', "every day at 02:30", "30s", "app.schedules.put()", "Next runs"):
        assert said in text
    assert read(shop("show", "often", "--json"))["limit"] == 5
    assert "there is no schedule 'never'" in shop("show", "never", code=1).stderr


def test_acting(shop: Run) -> None:
    assert "paused" in shop("pause", "nightly", "--reason", "holidays").stdout
    assert read(shop("show", "nightly", "--json"))["paused"] == "holidays"
    assert "paused: holidays" in shop("list").stdout
    assert "resumed, next" in shop("resume", "nightly").stdout
    assert len(shop("run", "nightly").stdout.strip()) == 20
    assert read(shop("run", "nightly", "--json"))["existing"] is False
    assert "removed" in shop("remove", "nightly").stdout
    for command in ("remove", "pause", "resume", "run", "preview"):
        assert "there is no schedule 'nightly'" in shop(command, "nightly", code=1).stderr
    assert "give one schedule's NAME" in shop("pause", code=2).stderr


def test_previews_mark_changes_of_the_clock(shop: Run) -> None:
    lines = shop("preview", "nightly", "--year", "2026").stdout.splitlines()
    assert len(lines) == 365
    assert [line for line in lines if line.endswith(("exist", "two"))] == [
        "Sun 2026-03-29 03:00:00 CEST  moved: the local time does not exist",
        "Sun 2026-10-25 02:30:00 CEST  the first of two",
    ]
    assert len(shop("preview", "nightly").stdout.splitlines()) == 10


def test_previews_of_expressions_need_no_app(shop: Run) -> None:
    args = ("30 2 25 10 *", "--year", "2026", "--tz", "Europe/Berlin", "--repeat", "both", "--json")
    assert [(run["at"], run["remark"]) for run in read(shop("preview", *args, app=False))] == [
        ("2026-10-25T02:30:00+02:00", "the first of two"), ("2026-10-25T02:30:00+01:00", "the second of two"),
    ]  # fmt: skip
    assert shop("preview", "day at 03:00", "-n", "2", app=False).stdout.count("03:00:00 UTC") == 2
    assert shop("preview", "day at 03:00", "-n", "2").stdout.count("03:00:00 CE") == 2, "the app's own zone"
    assert "did you mean 'weekday'" in shop("preview", "wekday at 9:00", app=False, code=2).stderr
    assert "bad hour" in shop("preview", "0 25 * * *", app=False, code=2).stderr
    assert "did you mean '@daily'" in shop("preview", "@dayly", app=False, code=2).stderr
    assert "unknown time zone" in shop("preview", "day at 9:00", "--tz", "Mars", app=False, code=2).stderr
