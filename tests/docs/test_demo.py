"""The demo runs to its end, proves that nothing was lost, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the demo kills with SIGKILL")


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "examples.demo", "--orders", "24"],
        cwd=ROOT, env={**os.environ, "TMPDIR": str(folder)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_the_demo_proves_that_nothing_was_lost(tmp_path: Path) -> None:
    demo = start(tmp_path)
    output, _ = demo.communicate(timeout=110)
    assert demo.returncode == 0, output
    assert "24 = 22 + 2" in output
    assert "worker crashed, 3 crashes" in output
    assert "examples.demo.tasks.charge charge:7 failed" in " ".join(output.split())
    assert "4 of 4 (1 failed, 1 skipped, 2 succeeded)" in output
    assert "KILLED worker" in output
    assert "Nothing was lost." in output
    assert list(tmp_path.glob("windlass-demo-*")) == []


def test_an_interrupted_demo_stops_its_workers_and_removes_its_files(tmp_path: Path) -> None:
    demo = start(tmp_path)
    try:
        assert demo.stdout is not None
        while "workers are up" not in demo.stdout.readline():
            assert demo.poll() is None
        demo.send_signal(signal.SIGINT)
        output, _ = demo.communicate(timeout=60)
    finally:
        demo.kill()
    assert demo.returncode == 130, output
    assert list(tmp_path.glob("windlass-demo-*")) == []
    wait_for_no_process_of(tmp_path)


def wait_for_no_process_of(folder: Path) -> None:
    if not Path("/proc").is_dir():
        return
    limit = time.monotonic() + 10
    while users := [pid for pid in os.listdir("/proc") if pid.isdigit() and uses(pid, folder)]:
        assert time.monotonic() < limit, f"still running: {users}"
        time.sleep(0.1)


def uses(pid: str, folder: Path) -> bool:
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/environ").read_bytes() and pid != str(os.getpid())
    except OSError:
        return False
