"""One environment per peer, made once and reused until its pins change: a virtual one, or a folder of Node modules."""

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
    """Where a peer's interpreter and scripts are; `modules` are those of Node."""

    program: Path
    modules: Path | None = None

    @property
    def places(self) -> dict[str, str]:
        """What a command may name in braces."""
        program = str(self.program)
        return {"python": program, "node": program, "bin": str(self.program.parent), "apps": str(paths.APPS)}

    def client(self, app: str) -> list[str]:
        """The command that runs one operation of a peer's client."""
        if self.modules:
            return [str(self.program), str(paths.APPS / f"{app}.cjs")]
        return [str(self.program), "-m", "benchmarks.apps.client", app]

    def variables(self) -> dict[str, str]:
        """What its processes need to find their modules."""
        return {"NODE_PATH": str(self.modules)} if self.modules else {"PYTHONPATH": str(paths.REPOSITORY)}


def prepare(peer: Peer) -> Environment:
    """The peer's environment, created if need be. Windlass runs in the one that runs the benchmarks."""
    if peer.runtime == "node":
        return _node(peer)
    pins = paths.REQUIREMENTS / f"{peer.pins or peer.name}.txt"
    if not pins.exists():
        here = Environment(Path(sys.executable))
        _probe(here)
        return here
    folder = paths.ENVIRONMENTS / f"{pins.stem}-{sys.version_info.major}.{sys.version_info.minor}"
    if not _current(folder, pins):
        _create(folder, pins)
        _stamp(folder, pins)
    return Environment(folder / "bin" / "python")


def _node(peer: Peer) -> Environment:
    """Node modules from a package.json with exact versions; no lock file, since that would record addresses."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        raise Unavailable("needs Node: no node or no npm on the PATH")
    pins = paths.REQUIREMENTS / peer.pins / "package.json"
    folder = paths.ENVIRONMENTS / peer.pins
    if not _current(folder, pins):
        folder.mkdir(parents=True)
        shutil.copy(pins, folder)
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel", "error"]
        reason = _run([[npm, "install", "--prefix", str(folder), *quiet]])
        if reason is not None:
            shutil.rmtree(folder, ignore_errors=True)
            raise Unavailable(f"not installed: {reason}")
        _stamp(folder, pins)
    return Environment(Path(node), folder / "node_modules")


def _current(folder: Path, pins: Path) -> bool:
    """Whether the folder was made from these pins; if not, it is removed."""
    stamp = folder / "pins.txt"
    if stamp.exists() and stamp.read_text() == pins.read_text():
        return True
    shutil.rmtree(folder, ignore_errors=True)
    return False


def _stamp(folder: Path, pins: Path) -> None:
    (folder / "pins.txt").write_text(pins.read_text())


def _probe(environment: Environment) -> None:
    command = [str(environment.program), "-c", "import windlass.app"]
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
