"""What the figures were taken on: cores, processor, system, versions. No host name, no path."""

import os
import platform
import sqlite3
import subprocess
from datetime import UTC, datetime
from pathlib import Path


def describe() -> dict[str, str]:
    """The machine and the date, for the head of a report."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "cpu": _cpu_model(),
        "memory": _memory(),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "load": f"{os.getloadavg()[0]:.2f}",
    }


def _line(path: str, prefix: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(prefix)), "")


def _cpu_model() -> str:
    return _line("/proc/cpuinfo", "model name") or platform.processor() or "unknown"


def _memory() -> str:
    kilobytes = _line("/proc/meminfo", "MemTotal").removesuffix(" kB")
    return f"{int(kilobytes) / 1024 / 1024:.0f} GB" if kilobytes else "unknown"


def server(binary: str) -> str:
    """The name and version of a server program."""
    answer = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
    name = "Valkey" if answer.startswith("Valkey") else "Redis"
    return f"{name} {next((word[2:] for word in answer.split() if word.startswith('v=')), 'unknown')}"
