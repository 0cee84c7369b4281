"""A port for Prometheus: answers ``GET /metrics`` with a text, in threads of its own.

It has no password: every client that reaches the port sees the names of queues and tasks. So it listens on this machine
alone unless told otherwise. Whatever clients do, the process must not suffer.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from windlass.errors import ConfigError
from windlass.observe.families import CONTENT_TYPE
from windlass.observe.snapshots import Gathered, describe
from windlass.observe.workers import Meter

log = logging.getLogger("windlass.metrics")

AT_ONCE = 8
SECONDS = 10.0
"""How long a client may take."""


class _Handler(BaseHTTPRequestHandler):
    timeout = SECONDS
    server: _Server

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self._answer(404, "text/plain; charset=utf-8", b"the metrics are at /metrics\n")
            return
        try:
            text = self.server.text()
        except Exception:
            log.exception("the metrics cannot be told")
            self._answer(500, "text/plain; charset=utf-8", b"the metrics cannot be told; see the log\n")
        else:
            self._answer(200, CONTENT_TYPE, text)

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "windlass"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a line for every scrape is of no use."""


class _Server(ThreadingMixIn, TCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], text: Callable[[], bytes]) -> None:
        self.text = text
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._room = threading.BoundedSemaphore(AT_ONCE)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        # Clients that hang may take a few threads of this process and no more.
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away."""
        log.debug("a scrape broke off: %s", client_address)


class Port:
    """Listens from the moment it is made; port 0 takes a free one, which ``url`` tells."""

    def __init__(self, host: str, port: int, text: Callable[[], bytes]) -> None:
        try:
            self._server = _Server((host, port), text)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigError(f"metrics cannot be served at {shown(host, port)}: {why}") from error
        taken = int(self._server.server_address[1])
        self.url = f"http://{shown(host, taken)}/metrics"
        if hasattr(os, "register_at_fork"):
            # A process that user code forks would keep the port from the next worker.
            os.register_at_fork(after_in_child=self._server.socket.close)
        threading.Thread(target=self._server.serve_forever, name="windlass-scrapes", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def serve(host: str, port: int) -> tuple[Port, Gathered]:
    """A port that serves gathered snapshots, and the receiver that takes them in."""
    gathered = Gathered()
    found = Port(host, port, lambda: describe(gathered.total()))
    log.info("metrics are at %s", found.url)
    return found, gathered


def meter_of_one(gathered: Gathered) -> Meter:
    """The meter of a worker that serves its own port: it is the only process."""
    return Meter(lambda words: gathered.heard(os.getpid(), words))
