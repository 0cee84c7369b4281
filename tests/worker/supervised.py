"""A stand-in for a worker process under a supervisor: does what its arguments say, and notes it in a file.

    python -m tests.worker.supervised JOURNAL [word ...]

Every line of the journal is "<event> <pid>". The leash is the real one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from windlass.worker.supervisor_link import SupervisorLink


def note(journal: Path, event: str) -> None:
    with journal.open("a") as file:
        file.write(f"{event} {os.getpid()}\n")


async def serve(journal: Path, words: set[str], leash: SupervisorLink) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_stop(event: str) -> None:
        note(journal, event)
        if "deaf" not in words:
            stop.set()

    loop.add_signal_handler(signal.SIGTERM, on_stop, "sigterm")
    loop.add_signal_handler(signal.SIGINT, on_stop, "sigint")
    leash.on_orphaned(loop, lambda: on_stop("orphaned"))
    leash.report({"worker": f"w-{os.getpid()}"})
    note(journal, "ready")
    leash.report({"ready": True})
    load = journal.with_suffix(".load")
    while not stop.is_set():
        if load.exists():
            running, slots, waiting = load.read_text().split()
            leash.report({"load": {"running": int(running), "slots": int(slots), "waiting": waiting == "yes"}})
        code = journal.with_suffix(f".exit-{os.getpid()}")
        if code.exists():
            return int(code.read_text())
        await asyncio.sleep(0.02)
    if "slow" in words:
        await asyncio.sleep(0.5)
    note(journal, "drained")
    return 0


def main() -> int:
    journal, words = Path(sys.argv[1]), set(sys.argv[2:])
    leash = SupervisorLink.from_environment()
    assert leash is not None
    note(journal, "start")
    broken = journal.with_suffix(".broken")
    if "misconfigured" in words or broken.exists():
        leash.failed("the app has no tasks")
        return 2
    if "dies" in words:
        os._exit(9)
    if "done" in words:
        leash.report({"ready": True})
        return 0
    if "forever-importing" in words:
        time.sleep(60)
    return asyncio.run(serve(journal, words, leash))


if __name__ == "__main__":
    code = main()
    os._exit(code) if code < 0 else sys.exit(code)
