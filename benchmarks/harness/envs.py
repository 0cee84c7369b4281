"""One virtual environment per peer, made once and reused until its pins change."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import paths
from benchmarks.peers.model import Peer


class Unavailable(Exception):
    """A peer cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Environment:
    """Where a peer's interpreter and scripts are."""

    python: Path

    @property
    def bin(self) -> Path:
        """The folder of scripts."""
        return self.python.parent


def prepare(peer: Peer) -> Environment:
    """The peer's environment, created if need be. Windlass runs in the one that runs the benchmarks."""
    pins = paths.REQUIREMENTS / f"{peer.name}.txt"
    if not pins.exists():
        here = Environment(Path(sys.executable))
        _probe(here)
        return here
    folder = paths.ENVIRONMENTS / f"{peer.name}-{sys.version_info.major}.{sys.version_info.minor}"
    environment = Environment(folder / "bin" / "python")
    stamp = folder / "pins.txt"
    if not stamp.exists() or stamp.read_text() != pins.read_text():
        shutil.rmtree(folder, ignore_errors=True)
        _create(folder, pins)
        stamp.write_text(pins.read_text())
    return environment


def _probe(environment: Environment) -> None:
    command = [str(environment.python), "-c", "import windlass.app"]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=paths.REPOSITORY, check=False)
    if answer.returncode:
        raise Unavailable(_last_line(answer.stderr))


def _create(folder: Path, pins: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    python = folder / "bin" / "python"
    if uv:
        steps = [
            [uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
            [uv, "pip", "install", "--quiet", "--python", str(python), "-r", str(pins)],
        ]
        if _run(steps) is None:
            return
        shutil.rmtree(folder, ignore_errors=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(pins)]
    reason = _run([[sys.executable, "-m", "venv", str(folder)], pip])
    if reason is not None:
        shutil.rmtree(folder, ignore_errors=True)
        raise Unavailable(f"not installed: {reason}")


def _run(steps: list[list[str]]) -> str | None:
    for step in steps:
        try:
            answer = subprocess.run(step, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            return "installing took more than five minutes"
        if answer.returncode:
            return _last_line(answer.stderr)
    return None


def _last_line(text: str) -> str:
    errors = [line for line in text.strip().splitlines() if not line.startswith(("WARNING", "hint"))]
    return errors[-1].strip() if errors else "no message"
