"""A worker inside a program."""

from __future__ import annotations

import textwrap

import pytest

from tests.worker.helpers import eventually
from windlass import ConfigError, Windlass


async def test_a_worker_that_breaks_signs_off_and_leaves_its_jobs_to_others() -> None:
    app = Windlass("shop", "memory://")

    @app.task(name="add")
    async def add(x: int) -> int:
        return x + 1

    async def gone() -> bool:
        return not await app.workers()

    async with app, app.worker() as worker:

        def fail(claims: object) -> None:
            raise RuntimeError("a bug in the worker")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(worker.executor, "take", fail)
            handle = await add.enqueue(1)
            await eventually(gone)
        assert await app.queue("default").counts() == {"ready": 1}
        async with app.worker():
            assert await handle.result(timeout=10) == 2


async def test_modules_named_in_include_are_imported(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "included_tasks.py").write_text(
        "from windlass import Windlass\n"
        "app = Windlass('shop', 'memory://', include=['included_tasks'])\n"
        "@app.task\nasync def one() -> int:\n    return 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import importlib

    module = importlib.import_module("included_tasks")
    async with module.app, module.app.worker():
        assert await (await module.one.enqueue()) == 1


async def test_a_process_task_that_a_child_would_import_as_a_plain_function_is_refused() -> None:
    app = Windlass("shop", "memory://")
    app.task(runs_in="process", name="length")(textwrap.dedent)
    with pytest.raises(ConfigError, match="textwrap:dedent, and finds the plain function there"):
        async with app.worker():
            pass
