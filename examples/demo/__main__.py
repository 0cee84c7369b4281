"""``python -m examples.demo``: about twenty seconds, nothing to install, nothing left behind.

It must set the environment before it imports the tasks, since they and their workers read the store's place from it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description="Windlass at work, in your terminal.")
    parser.add_argument("--orders", type=int, default=60, help="how many orders to put through (at least 20)")
    parser.add_argument("--plain", action="store_true", help="print lines instead of a live picture")
    chosen = parser.parse_args()
    if chosen.orders < 20:
        parser.error("--orders must be at least 20, or there is not enough to lose")
    return chosen


def main() -> int:
    chosen = options()
    if sys.platform == "win32":
        print("The demo kills a worker with SIGKILL, which needs Linux or macOS.", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="windlass-demo-", ignore_cleanup_errors=True) as folder:
        os.environ["WINDLASS_URL"] = f"sqlite:///{folder}/demo.windlass.db"
        os.environ["WINDLASS_DEMO_LEDGER"] = f"{folder}/ledger.db"
        from examples.demo.show import run

        try:
            return asyncio.run(run(Path(folder), chosen.orders, chosen.plain))
        except (KeyboardInterrupt, asyncio.CancelledError):
            print("\nInterrupted; the workers are stopped and the files removed.", file=sys.stderr)
            return 130


if __name__ == "__main__":
    sys.exit(main())
