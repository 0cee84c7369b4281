"""The async connection against real servers: order, deadlines, loss and return, messages, errors as sentences."""

from __future__ import annotations

import asyncio
import logging
import os
import time

import pytest

from tests.servers.fixtures import KINDS, NewRedis, certificates, new_redis, redis7, valkey9
from tests.servers.redis import RedisServer
from tests.unit.store.redis.kit import LIBRARY, fake_server, location_of, until
from tests.unit.store.redis.link_kit import CHANNEL, SECRET, NewLink, new_link, server
from windlass.errors import StoreClosed, StoreError, StoreUnavailable
from windlass.store.redis.commands import Library
from windlass.store.redis.link import Link

__all__ = ["certificates", "new_link", "new_redis", "redis7", "server", "valkey9"]


def connections(server: RedisServer) -> int:
    return int(server.info("stats")["total_connections_received"])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "windlass.redis"]


# ---- calls ---------------------------------------------------------------------------------------------------


async def test_a_call_names_the_key_of_the_app_and_returns_the_reply(server: RedisServer, new_link: NewLink) -> None:
    link = new_link(server.url)
    await link.open()
    await link.open()
    assert await link.call(b"kit_key") == b"{kit}:meta"
    assert await link.call(b"kit_echo", b"a", b"\x00\r\n\xff") == [b"a", b"\x00\r\n\xff"]
    assert await link.call(b"kit_echo") == []
    assert b"redis_version" in await link.command("INFO", "server")


async def test_replies_come_in_order_among_errors_messages_and_calls_nobody_waits_for(
    server: RedisServer, new_link: NewLink
) -> None:
    link = new_link(server.url)
    heard: list[bytes] = []
    await link.subscribe("me", heard.append)
    await link.call(b"kit_echo")  # loads the library: nobody would send a call again that was given up

    async def one(n: int) -> bool:
        word = b"%d" % n
        if n % 3 == 0:
            return await link.call(b"kit_echo", word) == [word]
        if n % 3 == 1:
            with pytest.raises(StoreError, match=f"oops {n}$"):
                await link.call(b"kit_fail", b"ERR oops " + word)
            return True
        return await link.call(b"kit_say", CHANNEL, word) == 1

    tasks = [asyncio.create_task(one(n)) for n in range(900)]
    await asyncio.sleep(0)
    for task in tasks[::10]:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(result is True for n, result in enumerate(done) if n % 10)
    assert heard == [b"%d" % n for n in range(900) if n % 3 == 2]


async def test_a_large_reply_and_a_large_request_pass(server: RedisServer, new_link: NewLink) -> None:
    link = new_link(server.url)
    large = os.urandom(3_000_000)
    assert await link.call(b"kit_echo", large, large) == [large, large]


async def test_what_the_server_does_not_read_holds_the_callers_up(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url, timeout="20s")
    await link.open()
    server.pause()
    calls = [asyncio.create_task(link.call(b"kit_echo", bytes(1_000_000))) for _ in range(30)]
    stream = link._stream
    assert stream is not None
    await until(lambda: stream.full)
    held = asyncio.create_task(link.call(b"kit_echo", b"later"))
    server.resume()
    assert await held == [b"later"]
    assert len(await asyncio.gather(*calls)) == 30
    assert not stream.full
    assert link._stream is stream


async def test_callers_share_one_attempt_to_connect(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url)
    before = connections(server)
    replies = await asyncio.gather(*(link.call(b"kit_echo", b"%d" % n) for n in range(50)))
    assert replies == [[b"%d" % n] for n in range(50)]
    assert connections(server) - before == 2, "the link's one and that of the test itself"


async def test_a_caller_that_gives_up_does_not_take_the_attempt_with_it(server: RedisServer, new_link: NewLink) -> None:
    link = new_link(server.url)
    first, second = (asyncio.create_task(link.call(b"kit_echo", b"x")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == [b"x"]


async def test_a_closed_link_says_so_and_opens_again(server: RedisServer, new_link: NewLink) -> None:
    link = new_link(server.url)
    await link.close()
    with pytest.raises(StoreClosed):
        await link.call(b"kit_echo")
    await link.open()
    waiting = asyncio.create_task(link.command("WAIT", 1, 1000))
    await asyncio.sleep(0)
    await link.close()
    await link.close()
    with pytest.raises(StoreUnavailable, match="we closed it"):
        await waiting
    with pytest.raises(StoreClosed):
        await link.command("PING")


async def test_closing_ends_an_attempt_to_connect(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    server.pause()
    link = new_link(server.url, connect_timeout="60s")
    opening = asyncio.create_task(link.open())
    await until(lambda: link._connecting)
    await link.close()
    with pytest.raises(StoreClosed):
        await opening


# ---- the library ---------------------------------------------------------------------------------------------


async def test_a_lost_library_is_loaded_again_and_the_calls_are_made(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url)
    assert await link.call(b"kit_echo", b"1") == [b"1"]
    server.command("FUNCTION", "FLUSH")
    replies = await asyncio.gather(*(link.call(b"kit_echo", b"%d" % n) for n in range(20)))
    assert replies == [[b"%d" % n] for n in range(20)]


async def test_a_function_that_is_not_in_the_library_is_an_error(server: RedisServer, new_link: NewLink) -> None:
    with pytest.raises(StoreError, match="Function not found") as caught:
        await new_link(server.url).call(b"kit_nonsense")
    assert not isinstance(caught.value, StoreUnavailable)


async def test_a_library_that_does_not_load_is_an_error(server: RedisServer, new_link: NewLink) -> None:
    link = new_link(server.url, Library("bad", b"#!lua name=bad\nthis is not Lua"))
    with pytest.raises(StoreError, match="Error compiling function"):
        await link.call(b"bad_call")
    assert await link.command("PING") == b"PONG", "and the connection is in step"


# ---- deadlines and loss --------------------------------------------------------------------------------------


async def test_a_silent_server_is_given_up_after_the_timeout(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url, timeout="300ms")
    await link.call(b"kit_set", b"before")
    server.pause()
    began = time.monotonic()
    first, second = (asyncio.create_task(link.call(b"kit_set", word)) for word in (b"first", b"second"))
    with pytest.raises(StoreUnavailable, match=r"no answer within 0\.3 s"):
        await first
    assert 0.25 < time.monotonic() - began < 2
    with pytest.raises(StoreUnavailable):
        await second
    server.resume()
    assert await link.call(b"kit_echo", b"x") == [b"x"]


async def test_a_slow_stream_of_replies_is_not_late(new_redis: NewRedis, new_link: NewLink) -> None:
    """Each call has its own time, although one timer looks at them all."""
    server = new_redis()
    link = new_link(server.url, timeout="1s")
    stream = await link._ready()
    for _ in range(4):
        assert await link.command("WAIT", 1, 400) == 0
    assert link._stream is stream


async def test_a_server_that_takes_the_connection_and_is_silent(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    server.pause()
    link = new_link(server.url, connect_timeout="200ms")
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="does not answer in time"):
        await link.open()
    assert time.monotonic() - began < 2
    server.resume()
    await link.open()


async def test_nobody_there(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    server.stop()
    for url in (server.url, server.socket_url, "redis://no-such-host.invalid"):
        with pytest.raises(StoreUnavailable, match=r"cannot connect to .*(is the server running there|is it misspelt)"):
            await new_link(url).open()


async def test_a_killed_connection_fails_what_is_under_way_and_the_next_call_makes_another(
    new_redis: NewRedis, new_link: NewLink, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_redis()
    link = new_link(server.url)
    await link.open()
    server.command("CLIENT", "KILL", "TYPE", "normal")
    await until(lambda: link._stream is None)
    assert link._returning is None, "nobody listens"
    assert await link.call(b"kit_echo", b"x") == [b"x"]
    assert warnings(caplog) == [], "it was idle: nothing was lost"
    waiting = [asyncio.create_task(link.command("WAIT", 1, 5000)) for _ in range(3)]
    await until(lambda: int(server.info("clients")["blocked_clients"]) == 1)
    server.command("CLIENT", "KILL", "TYPE", "normal")
    for task in waiting:
        with pytest.raises(StoreUnavailable, match="was lost"):
            await task
    assert await link.call(b"kit_echo", b"y") == [b"y"]
    assert len(warnings(caplog)) == 2


async def test_what_is_not_redis_is_dropped(new_link: NewLink) -> None:
    async with fake_server({b"HELLO": b"HTTP/1.1 400 Bad Request\r\n\r\n"}) as url:
        with pytest.raises(StoreUnavailable, match="not the Redis protocol"):
            await new_link(url).open()


# ---- messages ------------------------------------------------------------------------------------------------


async def test_messages_reach_who_listens(server: RedisServer, new_link: NewLink) -> None:
    link, other = new_link(server.url), new_link(server.url)
    mine, theirs = [], []
    await asyncio.gather(link.subscribe("me", mine.append), link.subscribe("them", theirs.append))
    await other.call(b"kit_say", CHANNEL, b"1")
    await other.call(b"kit_say", b"{kit}:to:them", b"2")
    await until(lambda: mine and theirs)
    assert (mine, theirs) == ([b"1"], [b"2"])
    await link.unsubscribe("me")
    await link.unsubscribe("me")
    assert await other.call(b"kit_say", CHANNEL, b"3") == 0
    assert mine == [b"1"]


async def test_a_receiver_that_fails_harms_nobody(
    server: RedisServer, new_link: NewLink, caplog: pytest.LogCaptureFixture
) -> None:
    link = new_link(server.url)

    def fail(data: bytes) -> None:
        raise ValueError(data)

    await link.subscribe("me", fail)
    assert await link.call(b"kit_say", CHANNEL, b"1") == 1
    assert await link.call(b"kit_echo", b"x") == [b"x"]
    assert "could not be taken in" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
async def test_a_link_that_listens_returns_after_a_restart(
    new_redis: NewRedis, new_link: NewLink, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_redis(kind)
    link, returns, heard = new_link(server.url), [], []
    link.on_return = lambda: returns.append(time.monotonic())
    await link.subscribe("me", heard.append)
    await link.subscribe("them", heard.append)
    attempts = count_attempts(link)
    server.kill()
    await until(lambda: len(attempts) >= 5)
    assert attempts[-1] - attempts[0] > 0.3, "they come less and less often"
    with pytest.raises(StoreUnavailable):
        await link.call(b"kit_echo")
    assert returns == []
    server.restart()
    await until(lambda: returns)
    assert await link.call(b"kit_say", CHANNEL, b"1") == 1, "the library was loaded anew"
    assert heard == [b"1"]
    assert len(returns) == 1
    lost, back = warnings(caplog)
    assert lost.startswith(f"lost the connection to {server.url}/0: ")
    assert back.startswith(f"connected to {server.url}/0 again after ")


def count_attempts(link: Link) -> list[float]:
    times: list[float] = []
    steps = link._route.steps

    def counted(*args: object) -> object:
        times.append(time.monotonic())
        return steps(*args)

    link._route.steps = counted
    return times


async def test_a_half_open_connection_is_found_by_one_that_listens(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link, returns = new_link(server.url, keepalive="200ms", timeout="200ms", connect_timeout="200ms"), []
    link.on_return = lambda: returns.append(True)
    await link.subscribe("me", lambda data: None)
    stream = link._stream
    began = time.monotonic()
    server.pause()
    await until(lambda: link._stream is not stream)
    assert time.monotonic() - began < 1.5
    server.resume()
    await until(lambda: returns)


async def test_a_connection_that_listens_lives_through_silence(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url, keepalive="50ms", timeout="1s")
    await link.subscribe("me", lambda data: None)
    stream = link._stream
    before = pings(server)
    await until(lambda: pings(server) >= before + 3)
    assert link._stream is stream
    await link.unsubscribe("me")
    assert stream is not None
    assert stream._probe is None, "nobody listens, so that nobody need know"


def pings(server: RedisServer) -> int:
    line = server.info("commandstats").get("cmdstat_ping", "calls=0,")
    return int(line.removeprefix("calls=").partition(",")[0])


async def test_a_link_that_cannot_return_says_why_once(
    new_redis: NewRedis, new_link: NewLink, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_redis(acl=["user default off", f"user ann on >{SECRET} ~* &* +@all"])
    link, returns = new_link(server.url_as("ann", SECRET)), []
    link.on_return = lambda: returns.append(True)
    await link.subscribe("me", lambda data: None)
    attempts = count_attempts(link)
    server.command("ACL", "SETUSER", "ann", "resetpass", ">other")
    server.command("CLIENT", "KILL", "USER", "ann")
    await until(lambda: len(attempts) >= 4)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    with pytest.raises(StoreError, match="does not accept"):
        await link.call(b"kit_echo")
    server.command("ACL", "SETUSER", "ann", f">{SECRET}")
    await until(lambda: returns)
    assert SECRET not in caplog.text


def test_uvloop_does_it_all_too(new_redis: NewRedis) -> None:
    """The loops differ in when they tell of a loss, and in how they hold writes back."""
    uvloop = pytest.importorskip("uvloop")
    server = new_redis()

    async def all_of_it() -> None:
        link = Link(location_of(server.url, timeout="1s", keepalive="200ms"), LIBRARY)
        heard, returns = [], []
        link.on_return = lambda: returns.append(True)
        await link.subscribe("me", heard.append)
        assert await asyncio.gather(*(link.call(b"kit_say", CHANNEL, b"%d" % n) for n in range(100))) == [1] * 100
        server.restart()
        await until(lambda: len(returns) == 1)
        server.pause()
        calls = [asyncio.create_task(link.call(b"kit_echo", bytes(1_000_000))) for _ in range(30)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(result) for result in results} == {StoreUnavailable}
        server.resume()
        await until(lambda: len(returns) == 2)
        assert await link.call(b"kit_say", CHANNEL, b"100") == 1
        assert heard == [b"%d" % n for n in range(101)]
        await link.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(all_of_it())
