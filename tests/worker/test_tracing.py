"""A program that is traced or profiled can have a worker inside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sys, threading
from windlass import SoftTimeout, Windlass

app = Windlass("traced", "memory://")

@app.task
def plain(x: int) -> int:
    return x

@app.task(soft_timeout=0.05)
def softened() -> str:
    try:
        while True:
            threading.Event().wait(0.001)
    except SoftTimeout:
        return "softened"

ready, leave = threading.Event(), threading.Event()

async def serve() -> None:
    async with app.worker(concurrency=4):
        ready.set()
        await asyncio.to_thread(leave.wait)
    await app.close()

thread = threading.Thread(target=asyncio.run, args=(serve(),))
thread.start()
ready.wait()
sys.setprofile(lambda *_: None)
for _ in range(3):
    assert [handle.get(timeout=20) for handle in [plain.delay(n) for n in range(50)]] == list(range(50))
    assert softened.delay().get(timeout=20) == "softened"
sys.setprofile(None)
leave.set()
thread.join()
"""


def test_tasks_in_threads_leave_profilers_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
