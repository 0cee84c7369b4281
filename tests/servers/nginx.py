"""The nginx of the distribution, on a free port, with a configuration of the test's own."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.servers.process import HOST, GuardedProcess, ServerFailed, free_port, wait_until

CONFIG = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen {listen};
        location / {{ proxy_pass {to}; {more} }}
    }}
}}
"""


def binary() -> str:
    """It is not on the path of everybody."""
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if not found:
        pytest.skip("missing nginx: apt-get install nginx")
    return found


@contextmanager
def nginx(folder: Path, to: str, more: str = "", host: str = HOST) -> Iterator[int]:
    """A proxy to ``to`` while the block runs: its port. ``more``: what else its location says."""
    program, port = binary(), free_port()
    listen = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=folder, listen=listen, to=to, more=more))
    log = folder / "error.log"
    process = GuardedProcess([program, "-p", str(folder), "-c", str(config), "-e", str(log)], folder, folder / "out")
    try:
        wait_until(lambda: _listens(host, port) or not process.alive, "nginx listens")
        if not process.alive:
            raise ServerFailed(log.read_text(errors="replace"))
        yield port
    finally:
        process.end()


def _listens(host: str, port: int) -> bool:
    with closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as probe:
        return probe.connect_ex((host, port)) == 0
