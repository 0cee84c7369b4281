"""The command line as a whole: help for everything, how the app is named, and errors without tracebacks."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from windlass.calls.context import JobIdFilter
from windlass.cli.main import COMMANDS, cli
from windlass.support.logs import JsonFormatter, TextFormatter

SHOP = """
from windlass import Windlass
app = Windlass("shop", "sqlite:///shop.db")

@app.task
async def add(x: int, y: int) -> int:
    return x + y
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    for name in ("WINDLASS_APP", "WINDLASS_URL"):
        monkeypatch.delenv(name, raising=False)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)):
            del sys.modules[name]


def windlass(*args: str, input: str | None = None, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, args, input=input, prog_name="windlass")
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


# -- help


def every_command() -> Iterator[tuple[str, click.Command]]:
    root = click.Context(cli, info_name="windlass")
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            for inner, subcommand in command.commands.items():
                yield f"{name} {inner}", subcommand


@pytest.mark.parametrize(
    ("name", "command"), list(every_command()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_and_option_is_documented(name: str, command: click.Command) -> None:
    assert command.help, f"{name} has no help"
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, f"{name} {param.opts[0]} has no help"
    text = windlass(*name.split(), "--help").output
    assert "Usage: windlass " + name in text
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize(
    ("name", "command"), list(every_command()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_on_an_app_takes_it_in_the_same_forms(name: str, command: click.Command) -> None:
    if isinstance(command, click.Group) or name == "completion" or name.startswith("celery "):
        return  # the last ones take it as Celery does
    options = {opt for param in command.params for opt in param.opts}
    assert {"-A", "--app", "--debug"} <= options
    assert "--json" in options or name in ("worker", "web", "top", "grafana")  # the last is JSON anyway
    words = [param for param in command.params if param.name == "words"]
    assert words[0].metavar is not None
    assert words[0].metavar.startswith("[APP]")


def test_the_list_of_commands_is_in_the_help() -> None:
    text = windlass("--help").output
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert "$WINDLASS_APP" in text


def test_a_mistyped_command_gets_a_hint() -> None:
    assert "did you mean 'worker'" in windlass("wroker", code=2).stderr


def test_the_version_is_told() -> None:
    assert windlass("--version").output.startswith("windlass 0.")


@pytest.mark.parametrize("shell", ["zsh", "fish", "bash"])
def test_completion_scripts(shell: str) -> None:
    assert "_WINDLASS_COMPLETE" in windlass("completion", shell).stdout


def test_commands_tasks_and_queues_are_completed(here: Path) -> None:
    (here / "shop.py").write_text(SHOP, encoding="utf-8")

    def complete(line: str) -> str:
        env = {"_WINDLASS_COMPLETE": "zsh_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()))}
        return CliRunner().invoke(cli, prog_name="windlass", env=env).output

    assert "queues" in complete("windlass ")
    assert "shop.add" in complete("windlass enqueue shop:app ")
    assert "shop.add" in complete("windlass jobs list shop:app --task ")
    assert "default" in complete("windlass tail shop:app --queue ")
    assert "shop.add" not in complete("windlass enqueue nope:app ")


def test_commands_stay_small() -> None:
    """A worker imports neither rich nor the other commands."""
    code = "import sys, windlass.cli, windlass.cli.worker, windlass.worker.service; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {name for name in loaded if name.partition(".")[0] == "rich"}
    assert "windlass.cli.dead" not in loaded


# -- naming the app


def test_every_form_of_an_app(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "shop.py").write_text(SHOP, encoding="utf-8")
    for form in (
        ["shop:app"],
        ["shop"],
        ["shop.py"],
        ["./shop.py:app"],
        ["-A", "shop"],
        ["--url", "sqlite:///shop.db"],
    ):
        assert windlass("queues", *form, "--json").stdout == "[]\n"
    assert windlass("-A", "shop", "queues", "--json").stdout == "[]\n"
    monkeypatch.setenv("WINDLASS_URL", "sqlite:///shop.db")
    assert windlass("queues", "--json").stdout == "[]\n"
    monkeypatch.setenv("WINDLASS_APP", "shop:app")
    assert windlass("queues", "--json").stdout == "[]\n"


def test_own_arguments_are_told_from_the_app(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "shop.py").write_text(SHOP, encoding="utf-8")
    windlass("enqueue", "shop:app", "add", "x=1", "y=2", "--id", "user:anna")
    monkeypatch.setenv("WINDLASS_APP", "shop:app")
    assert '"id": "user:anna"' in windlass("jobs", "show", "user:anna", "--json").stdout
    assert '"id": "user:anna"' in windlass("jobs", "show", "shop:app", "user:anna", "--json").stdout
    assert '"id": "user:anna"' in windlass("jobs", "show", "shop", "user:anna", "--json").stdout


def test_a_missing_or_doubled_app_is_said() -> None:
    assert "which app?" in windlass("queues", code=2).stderr
    assert "--url" in windlass("queues", code=2).stderr
    assert "--url" not in windlass("worker", code=2).stderr
    assert "not both" in windlass("queues", "-A", "shop", "--url", "memory://", code=2).stderr
    assert "unexpected argument 'b'" in windlass("queues", "a", "b", code=2).stderr


def test_a_file_in_a_package_is_imported_by_its_full_name(here: Path) -> None:
    package = here / "deep" / "market"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "shop.py").write_text(SHOP, encoding="utf-8")
    windlass("enqueue", "deep/market/shop.py", "market.shop.add", "x=1", "y=2")


# -- errors


@pytest.mark.parametrize(
    ("source", "spec", "texts"),
    [
        (SHOP, "shpo", ["no module 'shpo'", "did you mean 'shop'"]),
        (SHOP, "nothing_like_it:app", ["no module 'nothing_like_it'", "found there: shop"]),
        (SHOP, "shop.inner", ["no module 'shop.inner'"]),
        (SHOP, "shop:ap", ["no 'ap'", "did you mean 'app'"]),
        (SHOP, "shop:add", ["is an AsyncTask, not a Windlass app", "shop:app"]),
        (SHOP, "sh op", ["names no module"]),
        (SHOP, "shap.py", ["no file shap.py", "did you mean 'shop.py'"]),
        ("def make_app(): ...\n", "shop", ["no Windlass app", "make_app (function)"]),
        (SHOP.replace("app", "one") + "two = Windlass('b')", "shop", ["2 apps", "shop:one or shop:two"]),
        ("import nothing_here", "shop", ["import nothing_here", "could not be imported"]),
        ("1 / 0", "shop", ["ZeroDivisionError", 'shop.py", line 1']),
        ("import sys; sys.exit('bye')", "shop", ["SystemExit: bye"]),
        ("def broken(:", "shop", ["SyntaxError"]),
        ("from windlass import Windlass\napp = Windlass('a', 'redos://x')", "shop", ["shop.py:2: no store engine"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_app_is_said(here: Path, source: str, spec: str, texts: list[str]) -> None:
    (here / "shop.py").write_text(source, encoding="utf-8")
    text = windlass("queues", spec, code=2).stderr
    for part in texts:
        assert part in text
    assert "windlass/cli" not in text


def test_debug_shows_the_traceback(here: Path) -> None:
    url = f"sqlite:///{here}/no/such/folder/x.db"
    assert "no directory" in windlass("queues", "--url", url, code=2).stderr
    result = CliRunner().invoke(cli, ["queues", "--url", url, "--debug"])
    assert isinstance(result.exception, Exception)
    assert not isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["worker", "shop", "--autoscale", "many"], "write MIN,MAX"),
        (["worker", "shop", "--autoscale", "1,2", "--processes", "2"], "not both"),
        (["worker", "shop", "--grace", "soon"], "is no duration"),
        (["worker", "shop", "-c", "0"], "-c"),
        (["worker", "shop", "-Q", "a b"], "queue name 'a b'"),
        (["worker", "shop", "--log-level", "loud"], "loud"),
        (["enqueue", "shop"], "missing TASK"),
        (["enqueue", "shop", "ad"], "did you mean 'add'"),
        (["enqueue", "shop", "add", "3"], "write KEY=VALUE"),
        (["enqueue", "shop", "add", "x=1"], "missing a required argument: 'y'"),
        (["enqueue", "shop", "add", "x=a", "y=2"], "Expected `int`, got `str`"),
        (["enqueue", "shop", "add", "--args", "{"], "is no JSON"),
        (["enqueue", "shop", "add", "--args", "3"], "neither a JSON object nor an array"),
        (["enqueue", "shop", "add", "--at", "tomorrow"], "no ISO time"),
        (["enqueue", "shop", "add", "--at", "2030-01-01T00:00"], "names no zone"),
        (["enqueue", "shop", "add", "--wait", "x=1"], "put --wait last"),
        (["enqueue", "shop", "add", "--delay", "1s", "--at", "2030-01-01T00:00Z"], "not both"),
        (["enqueue", "--url", "memory://", "a.b", "--args", "[1]"], "need names"),
        (["queues", "--url", "redos://x"], "no store engine"),
        (["tail", "shop", "--since", "then"], "event cursor"),
        (["tail", "shop", "--kind", "nothing"], "nothing"),
        (["jobs", "list", "shop", "--state", "dead"], "dead"),
        (["jobs", "show", "shop"], "give one job ID"),
        (["cancel", "shop"], "missing job IDs"),
        (["dead", "replay", "shop"], "say which"),
        (["dead", "purge", "shop", "a", "--all"], "not both"),
        (["dead", "purge", "shop", "--all", "--json"], "add --yes"),
    ],
)
def test_bad_values_are_said(here: Path, args: list[str], text: str) -> None:
    (here / "shop.py").write_text(SHOP, encoding="utf-8")
    assert text in windlass(*args, code=2).stderr


def test_a_worker_of_a_memory_store_or_without_tasks_refuses(here: Path) -> None:
    (here / "shop.py").write_text(SHOP.replace("sqlite:///shop.db", "memory://"), encoding="utf-8")
    assert "never see a job" in windlass("worker", "shop", code=2).stderr
    (here / "empty.py").write_text("from windlass import Windlass\napp = Windlass('empty')", encoding="utf-8")
    assert "declares no task" in windlass("worker", "empty", code=2).stderr


def test_doctor_finds_what_is_wrong(here: Path) -> None:
    (here / "shop.py").write_text(SHOP, encoding="utf-8")
    assert windlass("doctor").stdout.startswith("✓ windlass")
    good = msgspec.json.decode(windlass("doctor", "shop", "--json").stdout)
    assert good["ok"]
    assert {"python", "sqlite", "store", "durability", "workers"} <= {check["name"] for check in good["checks"]}
    assert "no directory" in windlass("doctor", "--url", f"sqlite:///{here}/no/x.db", code=1).stdout
    bad = msgspec.json.decode(windlass("doctor", "nope", "--json", code=1).stdout)
    assert not bad["ok"]
    windlass("enqueue", "shop", "add", "x=1", "y=2")
    assert "no live worker serves it" in windlass("doctor", "shop").stdout
    assert "no live worker serves it" in windlass("doctor", "shop", "--strict", code=1).stdout
    assert not msgspec.json.decode(windlass("doctor", "shop", "--strict", "--json", code=1).stdout)["ok"]


# -- logs


def record(**extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "shop", "levelname": "INFO", "levelno": 20, "msg": "sent %d", "args": (3,)})
    JobIdFilter().filter(made)
    for name, value in extra.items():
        setattr(made, name, value)
    return made


def test_text_logs_name_the_job() -> None:
    assert TextFormatter().format(record()).endswith("INFO    shop: sent 3")
    line = TextFormatter().format(record(job_id="j1", task="shop.add", attempt=2))
    assert line.endswith("shop: sent 3  [shop.add j1 attempt 2]")


def test_json_logs_carry_the_job_and_extras() -> None:
    try:
        raise ValueError("oops")
    except ValueError:
        failed = record(exc_info=sys.exc_info(), order=7, where=Path("/x"), job_id="j1", task="t", queue="q", attempt=1)
    line = JsonFormatter().format(failed)
    assert "\n" not in line
    fields = msgspec.json.decode(line)
    assert fields["message"] == "sent 3"
    assert fields["job_id"] == "j1"
    assert fields["order"] == 7
    assert "ValueError: oops" in fields["exception"]
    assert fields["pid"] == os.getpid()
    assert "job_id" not in msgspec.json.decode(JsonFormatter().format(record()))
