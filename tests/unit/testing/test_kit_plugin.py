"""The pytest plugin and the failing store: what they do when used, and that they do nothing otherwise."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.core.job import NewJob
from windlass.errors import ConfigError, StoreError, StoreUnavailable
from windlass.store import make_store
from windlass.store.answers import Accept
from windlass.store.base import Store
from windlass.testing import FailingStore
from windlass.testing.failing import OPERATIONS

APP = """
from windlass import Windlass
app = Windlass("shop", "memory://")
@app.task
async def add(x: int, y: int = 1) -> int:
    return x + y
"""
TESTS = """
import shop
async def test_async(windlass_harness):
    handle = await shop.add.options(delay="1h").enqueue(1)
    await windlass_harness.advance("1h")
    assert await handle == 2
def test_sync(windlass_harness, windlass_clock):
    before = windlass_clock.now()
    handle = shop.add.options(delay="1h").delay(2)
    windlass_harness.advance_sync("2h")
    assert handle.get(timeout=5) == 3 and (windlass_clock.now() - before).seconds == 7200
    windlass_harness.assert_enqueued(shop.add, x=2, y=1)
def test_clean(windlass_harness): assert not windlass_harness.jobs() and not windlass_harness.enqueued
"""
INI = """
[pytest]
windlass_app = shop:app
pythonpath = .
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
IMPORTS = """
import sys
def test_nothing_is_loaded_unused():
    loaded = [name for name in sys.modules if name.startswith(("windlass.testing.", "windlass.worker"))]
    assert loaded == ["windlass.testing.plugin"], loaded
"""


def run_pytest(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", *options]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def test_the_harness_fixture_serves_async_and_sync_tests(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    (tmp_path / "test_shop.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "test_imports.py").write_text(IMPORTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(INI, encoding="utf-8")
    out = run_pytest(tmp_path)
    assert re.search(r"\b4 passed", out), out


@pytest.mark.parametrize(("ini", "says"), [("", "define a fixture named"), ("os:path", "not a Windlass app")])
def test_a_missing_or_wrong_app_is_said_with_the_remedy(tmp_path: Path, ini: str, says: str) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(windlass_harness): pass", encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nwindlass_app = {ini}\n", encoding="utf-8")
    out = run_pytest(tmp_path)
    assert says in out
    assert "1 error" in out


def test_an_unknown_name_of_the_kit_is_an_attribute_error() -> None:
    import windlass.testing

    assert all(hasattr(windlass.testing, name) for name in windlass.testing.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Harnes'"):
        _ = windlass.testing.Harnes


# -- the failing store


def job(id: str) -> NewJob:
    return NewJob(id=id, task="t", queue="q", payload=b"{}")


def test_the_failing_store_has_every_operation_as_the_contract_has_it() -> None:
    for name in OPERATIONS:
        assert inspect.signature(getattr(FailingStore, name)) == inspect.signature(getattr(Store, name)), name


async def test_orders_are_obeyed_once_each_and_in_order() -> None:
    store = FailingStore(make_store("memory://"))
    store.orders.fail("insert", StoreError("no"))
    store.orders.lose_reply("insert")
    store.orders.duplicate("insert")
    store.orders.delay("insert", 0.001)
    with pytest.raises(StoreError, match="no"):
        await store.insert([job("a")])
    with pytest.raises(StoreUnavailable, match="reply to insert"):
        await store.insert([job("a")])
    (answer,) = await store.insert([job("b")])
    assert answer.status is Accept.DUPLICATE, "the second of two"
    (answer,) = await store.insert([job("c")])
    assert answer.status is Accept.ACCEPTED
    assert [one.id for one in await store.get(["a", "b", "c"]) if one] == ["a", "b", "c"]
    assert store.orders.calls == {"insert": 4, "get": 1}


async def test_orders_can_be_repeated_and_withdrawn() -> None:
    store = FailingStore(make_store("memory://"))
    store.orders.fail("get", times=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.get(["a"])
    assert await store.get(["a"]) == [None]
    store.orders.fail("sweep", times=9)
    store.orders.clear()
    await store.sweep()
    with pytest.raises(ConfigError, match="no operation 'settle'"):
        store.orders.fail("settle")
