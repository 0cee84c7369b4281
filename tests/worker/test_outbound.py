"""Requests to where somebody else says: what a server may do to us, and where we do not go whatever its name means."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.servers.redis import Certificates
from windlass import ConfigError, Notice, Webhook
from windlass.core.network_addresses import Allowed, parse_allowed
from windlass.errors import WindlassError
from windlass.support import outbound
from windlass.support.outbound import Answer, OutboundError, post

OWN = Allowed(private=True)
PATIENCE = 20.0

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def talking(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that reads a request's head and then does as the test says: its port, and the heads it got."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()


def saying(answer: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return talk


def endless(start: bytes, part: bytes, pause: float = 0.0) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)

    return talk


async def send(port: int, allowed: Allowed = OWN, timeout: float = PATIENCE, host: str = "127.0.0.1") -> Answer:
    return await post(f"http://{host}:{port}/in", b"{}", {}, allowed=allowed, timeout=timeout)


def point(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """What names mean, one answer after the other; the list of those that were asked for."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    monkeypatch.setattr(outbound, "resolve", resolve)
    return asked


# -- what a server may do


HEAD = b"HTTP/1.1 %s\r\ncontent-type: text/plain\r\n"


async def test_a_success_is_not_read() -> None:
    async with talking(endless(HEAD % b"200 OK" + b"\r\n", b"x" * 65_536)) as (port, heads):
        assert await send(port) == Answer(200)
    assert b"accept-encoding: identity" in heads[0].lower()


async def test_of_an_answer_without_end_a_little_is_read() -> None:
    tracemalloc.start()
    try:
        async with talking(endless(HEAD % b"500 No" + b"\r\n", b"x" * 1_000_000)) as (port, _):
            answer = await send(port)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (answer.status, answer.text) == (500, "x" * outbound.MOST_BYTES)
    assert peak < 50_000_000


@pytest.mark.parametrize(
    ("start", "part"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"H", b""),
    ],
    ids=["silence", "headers", "interim answers", "one byte"],
)
async def test_who_trickles_has_the_time_given_and_no_more(start: bytes, part: bytes) -> None:
    async with asyncio.timeout(PATIENCE), talking(endless(start, part, 0.02)) as (port, _):
        with pytest.raises(OutboundError, match=r"no answer within 0\.3 s"):
            await send(port, timeout=0.3)


async def test_a_trickling_body_does_not_hide_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "BODY_SECONDS", 0.2)
    async with asyncio.timeout(PATIENCE), talking(endless(HEAD % b"503 Busy" + b"\r\n", b"x", 0.01)) as (port, _):
        answer = await send(port)
    assert answer.status == 503
    assert set(answer.text) == {"x"}


async def test_headers_without_end_are_an_error() -> None:
    async with talking(endless(b"HTTP/1.1 200 OK\r\nx: ", b"x" * 65_536)) as (port, _):
        with pytest.raises(OutboundError):
            await send(port)


async def test_nothing_is_decompressed() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    head = HEAD % b"500 No" + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb)
    async with talking(saying(head + bomb)) as (port, _):
        assert await send(port) == Answer(500)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(status: int) -> None:
    async with talking(saying(HEAD % b"200 OK" + b"\r\n")) as (inner, asked):
        to = f"http://127.0.0.1:{inner}/secret"
        answer = HEAD % f"{status} Moved".encode() + f"location: {to}\r\ncontent-length: 0\r\n\r\n".encode()
        async with talking(saying(answer)) as (port, _):
            assert await send(port) == Answer(status, location=to)
            hook = Webhook(f"http://127.0.0.1:{port}/in", allow_private=True)
            with pytest.raises(WindlassError, match="redirects are not followed"):
                await hook.send(NOTICE)
    assert asked == []


@pytest.mark.parametrize("answer", [b"", b"\x00" * 500, b"HTTP/1.1 2000 Odd\r\n\r\n", b"SSH-2.0-x\r\n"])
async def test_an_answer_that_is_none_is_an_error(answer: bytes) -> None:
    async with talking(saying(answer)) as (port, _):
        with pytest.raises(OutboundError):
            await send(port)


async def test_a_login_in_the_url_is_sent() -> None:
    async with talking(saying(HEAD % b"204 No Content" + b"\r\n")) as (port, heads):
        await post(
            f"http://ann:p%40ss@127.0.0.1:{port}/a%20b?q=1", b"{}", {"x-own": "1"}, allowed=OWN, timeout=PATIENCE
        )
    assert heads[0].startswith(b"POST /a%20b?q=1 HTTP/1.1\r\n")
    assert b"authorization: Basic YW5uOnBAc3M=" in heads[0]
    assert b"x-own: 1" in heads[0]
    assert b"content-length: 2" in heads[0].lower()


# -- where we do not go


NOTICE = Notice(id="n1", kind="dead", app="shop", title="t", text="x")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fe80::1%lo", "::"],
)
async def test_a_name_of_an_inner_address_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    point(monkeypatch, [address])
    with pytest.raises(OutboundError, match=r"hooks\.example\.com is at .* write allow_private=\["):
        await send(80, Allowed(), host="hooks.example.com")
    with pytest.raises(WindlassError, match="allow_private"):
        await Webhook("https://hooks.example.com/T0/secret").send(NOTICE)


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "017700000001", "127.1", "localhost", "[::ffff:127.0.0.1]"])
async def test_however_an_address_is_written_it_is_what_it_means(host: str) -> None:
    """Also where nobody looked at the URL before: the resolver of this machine says what it is."""
    async with talking(saying(HEAD % b"200 OK" + b"\r\n")) as (port, heads):
        with pytest.raises(OutboundError):
            await send(port, Allowed(), host=host)
    assert heads == []


async def test_a_name_is_resolved_once_and_what_was_judged_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that means another address a moment later (rebinding) gains nothing, nor does a mixture."""
    asked = point(monkeypatch, ["169.254.169.254", "127.0.0.1"], ["169.254.169.254"])
    async with talking(saying(HEAD % b"204 No Content" + b"\r\n")) as (port, heads):
        answer = await send(port, parse_allowed(["127.0.0.1"], "here"), host="hooks.example.com")
    assert answer == Answer(204)
    assert asked == ["hooks.example.com"]
    assert f"Host: hooks.example.com:{port}".encode() in heads[0]


async def test_the_next_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    point(monkeypatch, ["127.0.0.2", "127.0.0.1"])  # nobody listens at the first
    async with talking(saying(HEAD % b"204 No Content" + b"\r\n")) as (port, _):
        assert await send(port, host="hooks.example.com") == Answer(204)


async def test_the_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(saying(HEAD % b"204 No Content" + b"\r\n")) as (port, heads):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        with pytest.raises(OutboundError, match="this machine itself"):
            await send(port, Allowed())
    assert heads == []


async def test_tls_is_asked_for_the_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = Certificates(tmp_path_factory.mktemp("tls"))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(made.cert, made.key)
    names: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: names.append(name)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.ca))
    point(monkeypatch, ["127.0.0.1"])
    async with talking(saying(HEAD % b"204 No Content" + b"\r\n"), server) as (port, _):
        answer = await post(f"https://localhost:{port}/in", b"{}", {}, allowed=OWN, timeout=PATIENCE)
        assert answer == Answer(204)
        with pytest.raises(OutboundError, match=r"hooks\.example\.com"):
            await post(f"https://hooks.example.com:{port}/in", b"{}", {}, allowed=OWN, timeout=PATIENCE)
    assert names == ["localhost", "hooks.example.com"]


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "10.1.2.3", "169.254.169.254", "[::1]", "0x7f.1", "2130706433", "[fd00:ec2::254]"],
)
def test_a_webhook_says_at_once_that_its_address_is_an_inner_one(host: str) -> None:
    with pytest.raises(ConfigError, match="allow_private=") as told:
        Webhook(f"http://{host}/T0/secret")
    assert "secret" not in str(told.value)


def test_an_inner_webhook_is_allowed_by_word() -> None:
    Webhook("http://10.1.2.3/in", allow_private=True)
    Webhook("http://10.1.2.3/in", allow_private=["10.1.0.0/16"])
    for network in ("10.2.0.0/16", "10.1.2.4"):
        with pytest.raises(ConfigError):
            Webhook("http://10.1.2.3/in", allow_private=[network])
    with pytest.raises(ConfigError, match="give True, False or a list"):
        Webhook("http://10.1.2.3/in", allow_private="10.1.0.0/16")
