"""The worker processes of the demo: real ones, started by the command a user would type."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SLOTS = 4
PATIENCE = 10.0


@dataclass
class Member:
    """One worker process. ``killed`` by us, on purpose."""

    process: subprocess.Popen[bytes]
    log: Path
    killed: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


class Fleet:
    """Starts and ends worker processes; ``folder`` takes their logs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.members: list[Member] = []

    def start(self) -> Member:
        log = self._folder / f"worker-{len(self.members) + 1}.log"
        command = [
            sys.executable, "-m", "windlass", "worker", "examples.demo.tasks:app",
            "--concurrency", str(SLOTS), "--children", "1", "--grace", "5",
        ]  # fmt: skip
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, "WINDLASS_DEMO": "1"},
                start_new_session=True,  # Ctrl-C is for the demo, which stops its workers in order
            )
        member = Member(process, log)
        self.members.append(member)
        return member

    def alive(self) -> list[Member]:
        return [member for member in self.members if member.alive]

    def freeze(self, member: Member) -> None:
        """Hold a process still, so that it can be looked at before it is killed."""
        member.process.send_signal(signal.SIGSTOP)

    def thaw(self, member: Member) -> None:
        member.process.send_signal(signal.SIGCONT)

    def kill(self, member: Member) -> None:
        member.killed = True
        member.process.kill()
        member.process.wait()

    def unexpected(self) -> str:
        """What a worker that ended by itself left in its log; empty when none did."""
        for member in self.members:
            if not member.alive and not member.killed:
                tail = member.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
                return f"worker {member.pid} ended by itself with code {member.process.returncode}:\n" + "\n".join(tail)
        return ""

    async def stop(self) -> None:
        """Ask all to drain; kill those that do not."""
        for member in self.alive():
            self.thaw(member)
            member.process.terminate()
        waits = [asyncio.to_thread(member.process.wait, PATIENCE) for member in self.alive()]
        await asyncio.gather(*waits, return_exceptions=True)
        self.end()

    def end(self) -> None:
        """Leave nothing behind, at once. Harmless after ``stop``."""
        for member in self.members:
            if member.alive:
                member.process.kill()
                member.process.wait()
            if member.process.stdin is not None:
                member.process.stdin.close()
