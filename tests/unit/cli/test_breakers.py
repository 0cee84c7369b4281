"""``windlass breakers``: shown, opened and closed by hand; and weights on the worker's command line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.unit.cli.test_cli import here
from windlass.cli.main import cli

__all__ = ["here"]

SHOP = """
from windlass import Windlass
app = Windlass("shop", "sqlite:///shop.db")
app.breaker("stripe", errors=3)

@app.task(breaker="mail")
async def send() -> None: ...
"""


@pytest.fixture(autouse=True)
def shop(here: Path) -> None:
    (here / "shop.py").write_text(SHOP)


def windlass(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, args, prog_name="windlass")
    assert result.exit_code == code, result.output
    return result


def states() -> dict[str, str]:
    found = msgspec.json.decode(windlass("breakers", "shop:app", "--json").stdout)
    return {one["name"]: one["state"] for one in found}


def test_those_declared_and_those_tasks_name_are_listed() -> None:
    assert states() == {"mail": "closed", "stripe": "closed"}
    assert "stripe" in windlass("breakers", "shop:app").stdout


def test_open_close_and_auto() -> None:
    assert "open by hand" in windlass("breakers", "open", "shop:app", "stripe").stdout
    assert states()["stripe"] == "open"
    assert "closed by hand" in windlass("breakers", "close", "shop:app", "stripe").stdout
    assert "more" in windlass("breakers", "open", "shop:app", "stripe", "--for", "10m").stdout
    info = msgspec.json.decode(windlass("breakers", "auto", "shop:app", "stripe", "--json").stdout)
    assert (info["state"], info["forced"]) == ("closed", False)
    windlass("breakers", "open", "shop:app", code=2)


def test_a_worker_takes_weights() -> None:
    found = msgspec.json.decode(windlass("worker", "shop:app", "-Q", "critical*5,default*2,low", "--describe").stdout)
    assert found["queues"] == ["critical*5", "default*2", "low*1"]
    assert "weight" in windlass("worker", "shop:app", "-Q", "a*0", code=2).output
