"""The proxy's faults, between a client and a server of a few lines."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from tests.servers.process import HOST, wait_until
from tests.servers.proxy import Proxy, request_length


class Server(socketserver.ThreadingTCPServer):
    """Answers each line with `+` and the line, and remembers it."""

    allow_reuse_address = daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), Handler)
        self.port = self.server_address[1]
        self.heard: list[bytes] = []


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        try:
            for line in self.rfile:
                self.server.heard.append(line.strip())
                self.wfile.write(b"+" + line)
        except ConnectionError:
            pass  # the proxy resets connections: that is what it is for


class Client:
    def __init__(self, proxy: Proxy, timeout: float = 5.0) -> None:
        self.socket = socket.create_connection((HOST, proxy.port), timeout)
        self.file = self.socket.makefile("rb")

    def send(self, *lines: str) -> None:
        self.socket.sendall("".join(f"{line}\r\n" for line in lines).encode())

    def read(self) -> str:
        return self.file.readline().decode().strip()

    def ask(self, line: str) -> str:
        self.send(line)
        return self.read()

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server) as proxy:
        yield proxy


@pytest.fixture
def connect(proxy: Proxy) -> Iterator[type[Client]]:
    made: list[Client] = []

    def connect(timeout: float = 5.0) -> Client:
        made.append(Client(proxy, timeout))
        return made[-1]

    yield connect
    for client in made:
        client.close()


def test_it_passes_everything_and_counts(proxy: Proxy, connect) -> None:
    one, two = connect(), connect()
    assert [one.ask("a"), two.ask("b"), one.ask("c")] == ["+a", "+b", "+c"]
    assert (len(proxy.accepted), proxy.requests, proxy.connections) == (2, 3, 2)
    one.close()
    wait_until(lambda: proxy.connections == 1, "the closed one is forgotten")


def test_cut_resets_what_is_open_and_nothing_else(proxy: Proxy, connect) -> None:
    client = connect()
    assert client.ask("a") == "+a"
    assert proxy.cut() == 1
    with pytest.raises(ConnectionResetError):
        client.read()
    assert connect().ask("b") == "+b"


def test_reset_accepts_and_resets_at_the_first_request(proxy: Proxy, server: Server, connect) -> None:
    old = connect()
    assert old.ask("a") == "+a"
    proxy.reset()
    for client in (old, connect()):
        client.send("b")
        with pytest.raises(ConnectionResetError):
            client.read()
    proxy.heal()
    assert connect().ask("c") == "+c"
    assert server.heard == [b"a", b"c"]


def test_refuse_listens_no_more(proxy: Proxy, connect) -> None:
    client = connect()
    assert client.ask("a") == "+a"
    proxy.refuse()
    with pytest.raises(ConnectionResetError):
        client.read()
    with pytest.raises(ConnectionRefusedError):
        connect()
    proxy.heal()
    assert connect().ask("b") == "+b"


def test_a_blackhole_swallows_both_ways_and_healing_resets_what_lost_bytes(
    proxy: Proxy, server: Server, connect
) -> None:
    idle, old = connect(), connect(timeout=0.1)
    assert (idle.ask("a"), old.ask("b")) == ("+a", "+b")
    proxy.blackhole()
    new = connect(timeout=0.1)
    for client in (old, new):
        client.send("lost")
        with pytest.raises(TimeoutError):
            client.read()
    proxy.heal()
    for client in (old, new):
        with pytest.raises(ConnectionResetError):
            client.socket.recv(1)
    assert idle.ask("c") == "+c", "it lost nothing"
    assert server.heard == [b"a", b"b", b"c"]


def test_a_half_open_connection_stays_silent(proxy: Proxy, connect) -> None:
    client = connect(timeout=0.1)
    client.ask("a")
    proxy.blackhole()
    client.send("lost")
    wait_until(lambda: proxy.requests == 2, "the request is swallowed")
    proxy.heal(half_open=True)
    client.send("b")
    with pytest.raises(TimeoutError):
        client.read()
    assert connect().ask("c") == "+c"


def test_drop_replies_lets_requests_through(proxy: Proxy, server: Server, connect) -> None:
    client = connect(timeout=0.1)
    client.ask("a")
    proxy.drop_replies()
    client.send("b")
    with pytest.raises(TimeoutError):
        client.read()
    wait_until(lambda: server.heard == [b"a", b"b"], "the server did it")
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        client.socket.recv(1)


def test_a_delay_keeps_the_order_and_is_a_delay_not_a_bottleneck(proxy: Proxy, connect) -> None:
    client = connect()
    client.ask("a")
    proxy.delay(0.1)
    started = time.monotonic()
    for n in range(20):
        client.send(str(n))
    wait_until(lambda: proxy.requests == 21, "all are on their way")
    proxy.delay(0.0)
    client.send("last")
    assert [client.read() for _ in range(21)] == [*(f"+{n}" for n in range(20)), "+last"]
    assert 0.1 <= time.monotonic() - started < 2.0


def test_a_request_is_cut_before_the_server_sees_it(proxy: Proxy, server: Server, connect) -> None:
    order = proxy.cut_before(b"bad", skip=1, times=2)
    client = connect()
    assert [client.ask("good"), client.ask("bad 1")] == ["+good", "+bad 1"]
    for word in ("bad 2", "bad 3"):
        assert not order.done
        client.send(word)
        with pytest.raises(ConnectionResetError):
            client.read()
        client = connect()
    order.wait()
    assert client.ask("bad 4") == "+bad 4"
    assert server.heard == [b"good", b"bad 1", b"bad 4"]


def test_a_reply_is_lost_and_the_ones_before_it_are_not(proxy: Proxy, server: Server, connect) -> None:
    client = connect()
    order = proxy.lose_reply(b"two")
    assert client.ask("one") == "+one"
    client.send("two", "three")
    with pytest.raises(ConnectionResetError):
        client.read()
    order.wait()
    wait_until(lambda: b"two" in server.heard, "the server did it")
    assert connect().ask("two") == "+two", "once"


def test_a_connection_hangs_after_one_request(proxy: Proxy, server: Server, connect) -> None:
    client = connect(timeout=0.1)
    order = proxy.hang(b"two")
    client.ask("one")
    client.send("two", "three")
    with pytest.raises(TimeoutError):
        client.read()
    wait_until(lambda: server.heard == [b"one", b"two"], "the server did it, and heard no more")
    assert order.done
    assert connect().ask("four") == "+four"


def test_the_servers_end_reaches_the_client(proxy: Proxy, connect) -> None:
    client = connect()
    client.ask("a")
    client.socket.shutdown(socket.SHUT_WR)
    assert client.read() == ""


def test_a_server_that_is_not_there_looks_like_one_that_resets() -> None:
    with Proxy(1) as proxy, pytest.raises(ConnectionResetError):  # seen while connecting or just after
        _connect_and_read(proxy)


def _connect_and_read(proxy: Proxy) -> None:
    with socket.create_connection((HOST, proxy.port), 5) as client:
        client.recv(1)


@pytest.mark.parametrize(
    ("data", "length"),
    [
        (b"", 0),
        (b"PING", 0),
        (b"PING\r\nPING\r\n", 6),
        (b"*1\r\n$4\r\nPING\r\n*1", 14),
        (b"*1\r\n$4\r\nPING\r", 0),
        (b"*2\r\n$3\r\nGET\r\n$4\r\n", 0),
        (b"*2\r\n$3\r\nGET\r\n$4\r\n\r\n\r\n\r\nrest", 23),
        (b"*0\r\n", 4),
    ],
)
def test_where_a_request_ends(data: bytes, length: int) -> None:
    assert request_length(data) == length
