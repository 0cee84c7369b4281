"""Requests to addresses that somebody else chose: the one way out for webhooks, guarded and bounded.

A host is resolved once, each address is judged, and the connection goes to the very address that was: a name that means
something else a moment later gains nothing. TLS is still asked for the name. Redirects are not followed, proxies of the
environment are not used (what they would connect to could not be judged), and neither an answer without end nor one
that trickles costs more than a few kilobytes and the time given. Needs the extra ``webhooks``.
"""

from __future__ import annotations

import asyncio
import socket
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

import msgspec

from windlass.core.network_addresses import Allowed, refusal
from windlass.errors import WindlassError

if TYPE_CHECKING:
    import httpcore2

MOST_BYTES = 2_000
"""So much of an answer is read, for the error that tells of it; a success is not read at all."""
BODY_SECONDS = 2.0
"""So long at most: what it answered is known by then, and only its words are not."""


class OutboundError(WindlassError):
    """A request that was refused here, or that nobody answered."""


class Answer(msgspec.Struct, frozen=True):
    """``text``: how the answer to a request that failed begins. ``location``: where it would have sent us."""

    status: int
    text: str = ""
    location: str = ""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


async def post(url: str, body: bytes, headers: Mapping[str, str], *, allowed: Allowed, timeout: float) -> Answer:
    """Send ``body`` and answer what came of it, all within ``timeout`` seconds."""
    import httpcore2

    try:
        async with asyncio.timeout(timeout):
            return await _post(url, body, headers, allowed)
    except TimeoutError:
        raise OutboundError(f"no answer within {timeout:g} s") from None
    except _failures(httpcore2) as error:
        raise OutboundError(f"{type(error).__name__}: {error}") from None


def _failures(core: Any) -> tuple[type[Exception], ...]:
    return (core.NetworkError, core.ProtocolError, core.TimeoutException, core.UnsupportedProtocol, OSError)


async def _post(url: str, body: bytes, headers: Mapping[str, str], allowed: Allowed) -> Answer:
    import httpcore2
    import httpx2

    # Built by httpx2, which knows how to write hosts and paths of any language.
    request = httpx2.Request("POST", url, content=body, headers={**_plain(), **_login(httpx2.URL(url)), **headers})
    target = httpcore2.URL(
        scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
    )
    tls = httpx2.create_ssl_context()
    async with (
        httpcore2.AsyncConnectionPool(ssl_context=tls, network_backend=_guarded(allowed)) as pool,
        pool.stream("POST", target, headers=request.headers.raw, content=body) as response,
    ):
        if 200 <= response.status < 300:
            return Answer(response.status)
        found = {name.lower(): value for name, value in response.headers}
        text = await _beginning(response)
        location = found.get(b"location", b"").decode("latin-1")
        return Answer(response.status, text if b"content-encoding" not in found else "", location[:MOST_BYTES])


def _plain() -> dict[str, str]:
    # An answer is not decompressed: a few bytes could become gigabytes.
    return {"accept": "*/*", "accept-encoding": "identity", "connection": "close", "user-agent": "windlass"}


def _login(url: Any) -> dict[str, str]:
    """A name and password in the URL, as every client sends them."""
    user, colon, password = url.userinfo.partition(b":")
    if not user and not colon:
        return {}
    login = b":".join((unquote_to_bytes(user), unquote_to_bytes(password)))
    return {"authorization": f"Basic {b64encode(login).decode()}"}


async def _beginning(response: httpcore2.Response) -> str:
    read = bytearray()
    with suppress(TimeoutError):
        async with asyncio.timeout(BODY_SECONDS):
            async for part in response.aiter_stream():
                read += part[:MOST_BYTES]
                if len(read) >= MOST_BYTES:
                    break
    return read[:MOST_BYTES].decode("utf-8", "replace")


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system knows them."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OutboundError(f"the host {host!r} is not known: {error}") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def checked(host: str, port: int, allowed: Allowed) -> list[str]:
    """Those addresses of a host that may be reached; ``OutboundError`` where that is none."""
    addresses = await resolve(host, port)
    refused = {address: reason for address in addresses if (reason := refusal(address, allowed))}
    good = [address for address in addresses if address not in refused]
    if not good:
        address, reason = next(iter(refused.items()), (host, "not to be found"))
        raise OutboundError(
            f"{host} is at {address}, which is {reason}; where that is meant, write "
            f"allow_private=[{address.partition('%')[0]!r}] or a network that has it"
        )
    return good


def _guarded(allowed: Allowed) -> httpcore2.AsyncNetworkBackend:
    """A way to connect that judges where to, and goes only there. Made here, as the library is not always installed."""
    import httpcore2

    direct = httpcore2.AnyIOBackend()

    class Guarded(httpcore2.AsyncNetworkBackend):
        async def connect_tcp(
            self, host: str, port: int, timeout: float | None = None, local_address: str | None = None,
            socket_options: Iterable[Any] | None = None,
        ) -> httpcore2.AsyncNetworkStream:  # fmt: skip
            failed: Exception | None = None
            for address in await checked(host, port, allowed):
                try:
                    return await direct.connect_tcp(address, port, timeout, local_address, socket_options)
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                    failed = error
            raise failed or OutboundError(f"{host} has no address")

        async def connect_unix_socket(self, path: str, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
            raise OutboundError("only hosts are reached from here, no sockets of this machine")

        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(seconds)

    return Guarded()
