"""The async connection against real servers: order, deadlines, loss and return, messages, errors as sentences."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from tests.servers.fixtures import KINDS, NewRedis, certificates, new_redis, redis7, valkey9
from tests.servers.redis import Certificates, RedisServer
from tests.unit.store.redis.kit import LIBRARY, PREFIX, fake_server, hello_of, location_of, until
from windlass.errors import StoreClosed, StoreError, StoreUnavailable
from windlass.store.redis import errors
from windlass.store.redis.commands import Library
from windlass.store.redis.link import Link

__all__ = ["certificates", "new_redis", "redis7", "valkey9"]

CHANNEL = f"{{{PREFIX}}}:to:me".encode()
SECRET = "s3cret"

NewLink = Callable[..., Link]


@pytest.fixture
async def new_link() -> AsyncIterator[NewLink]:
    """``new_link(url, timeout=1)``: a link of the test's own, not opened."""
    async with AsyncExitStack() as links:

        def make(url: str, library: Library = LIBRARY, **options: object) -> Link:
            link = Link(location_of(url, **options), library)
            links.push_async_callback(link.close)
            return link

        yield make


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> RedisServer:
    found: RedisServer = request.getfixturevalue(request.param)
    return found


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


# ---- where it connects ---------------------------------------------------------------------------------------


async def test_a_unix_socket_and_a_database(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    assert await new_link(server.socket_url, db=3).call(b"kit_set", b"three") == b"OK"
    assert await new_link(server.url + "/3").call(b"kit_get") == b"three"
    assert await new_link(server.url).call(b"kit_get") is None
    with pytest.raises(StoreError, match="DB index is out of range"):
        await new_link(server.url, db=99).open()


async def test_the_connection_has_a_name(server: RedisServer, new_link: NewLink) -> None:
    link = new_link(server.url, prefix="gr%C3%B6%C3%9Fe")
    await link.open()
    assert "name=windlass:gr%C3%B6%C3%9Fe " in server.command("CLIENT", "LIST")


async def test_tls(new_redis: NewRedis, new_link: NewLink, certificates: Certificates) -> None:
    server = new_redis(tls=certificates)
    link, heard = new_link(server.url, tls_ca=certificates.ca), []
    await link.subscribe("me", heard.append)
    assert await link.call(b"kit_say", CHANNEL, b"x") == 1
    assert heard == [b"x"]
    own = new_link(server.url, tls_ca=certificates.ca, tls_cert=certificates.cert, tls_key=certificates.key)
    assert await own.command("PING") == b"PONG"
    with pytest.raises(StoreError, match=r"certificate is not accepted .* tls_ca") as caught:
        await new_link(server.url).open()
    assert not isinstance(caught.value, StoreUnavailable)


async def test_tls_on_one_side_only(
    redis7: RedisServer, new_redis: NewRedis, new_link: NewLink, certificates: Certificates
) -> None:
    with pytest.raises(StoreUnavailable, match="if and only if it speaks TLS"):
        await new_link(redis7.url.replace("redis://", "rediss://"), connect_timeout="1s").open()
    plain = new_redis(tls=certificates).url.replace("rediss://", "redis://")
    with pytest.raises(StoreUnavailable, match="cannot connect"):
        await new_link(plain, connect_timeout="1s").open()


# ---- errors as sentences -------------------------------------------------------------------------------------


async def test_a_user_with_just_the_rights_we_name(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis(acl=["user default off"])
    link = new_link(server.url_as("ann", SECRET))
    words = errors.rights(link.location).split()
    server.command(*words, "on", f">{SECRET}")
    heard: list[bytes] = []
    await link.subscribe("me", heard.append)
    assert await link.call(b"kit_say", CHANNEL, b"x") == 1
    assert await link.call(b"kit_set", b"v") == b"OK"
    assert len(await link.call(b"kit_time")) == 2
    assert await link.command("CONFIG", "GET", "maxmemory")
    assert heard == [b"x"]
    stranger = new_link(server.url_as("ann", SECRET), prefix="other")
    with pytest.raises(StoreError, match=r"does not allow this .* ACL SETUSER ann ~\{other\}:\*"):
        await stranger.call(b"kit_set", b"v")
    with pytest.raises(StoreError, match="channel"):
        await stranger.subscribe("me", heard.append)
    assert not stranger._delivers


async def test_wrong_and_missing_passwords(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis(acl=["user default on >right ~* &* +@all"])
    cases = {
        server.url: "asks for a password",
        server.url_as("", SECRET): "does not accept the user or the password",
        server.url_as("ann", SECRET): "does not accept the user or the password",
    }
    for url, says in cases.items():
        with pytest.raises(StoreError, match=says) as caught:
            await new_link(url).open()
        assert not isinstance(caught.value, StoreUnavailable)
        assert SECRET not in str(caught.value)
    assert await new_link(server.url_as("", "right")).command("PING") == b"PONG"


async def test_a_replica_is_not_written_to(new_redis: NewRedis, new_link: NewLink) -> None:
    master, server = new_redis(), new_redis()
    link = new_link(server.url)
    await link.call(b"kit_set", b"v")
    server.command("REPLICAOF", "127.0.0.1", master.port)
    with pytest.raises(StoreUnavailable, match="read-only replica"):
        await link.call(b"kit_set", b"w")
    with pytest.raises(StoreUnavailable, match=r"read-only replica; .* point the URL at the master"):
        await new_link(server.url).open()
    server.command("REPLICAOF", "NO", "ONE")
    assert await link.call(b"kit_set", b"w") == b"OK"


async def test_a_full_server_names_its_setting(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url)
    await link.call(b"kit_set", b"v")
    server.command("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(StoreUnavailable, match="raise maxmemory"):
        await link.call(b"kit_set", b"v")


async def test_too_few_replicas_for_the_server(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url)
    await link.call(b"kit_set", b"v")
    server.command("CONFIG", "SET", "min-replicas-to-write", "1")
    with pytest.raises(StoreUnavailable, match="min-replicas-to-write"):
        await link.call(b"kit_set", b"v")


async def test_a_busy_server(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis(config={"busy-reply-threshold": 10})
    link, other = new_link(server.url, timeout="20s"), new_link(server.url, timeout="20s")
    await other.call(b"kit_echo")
    spinning = asyncio.create_task(link.call(b"kit_spin"))

    async def until_refused() -> None:
        while not spinning.done():  # it may take a moment to begin
            await other.call(b"kit_echo")

    with pytest.raises(StoreUnavailable, match="long script; FUNCTION KILL"):
        await until_refused()
    server.command("FUNCTION", "KILL")
    with pytest.raises(StoreError, match="killed"):
        await spinning
    assert await other.call(b"kit_echo") == []


@pytest.mark.parametrize("code", ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "EXECABORT", "ASK"])
async def test_what_passes_by_itself_is_unavailable(new_link: NewLink, code: str) -> None:
    answers = {b"HELLO": hello_of("7.0.15"), b"FCALL": f"-{code} the server's words\r\n".encode()}
    async with fake_server(answers) as url:
        with pytest.raises(StoreUnavailable, match=rf"{errors.PASSING[code]} \({code} the server's words\)"):
            await new_link(url).call(b"f")


async def test_a_slot_that_is_moving_is_unavailable(new_link: NewLink) -> None:
    words = b"-ERR Script attempted to access a non local key in a cluster node script: f\r\n"
    async with fake_server({b"HELLO": hello_of("7.2.4"), b"FCALL": words}) as url:
        with pytest.raises(StoreUnavailable, match="handing our keys to another node"):
            await new_link(url).call(b"f")


async def test_a_node_of_a_cluster_behind_a_plain_url(new_link: NewLink) -> None:
    async with fake_server({b"HELLO": hello_of("7.2.4"), b"FCALL": b"-MOVED 1 10.0.0.1:7000\r\n"}) as url:
        with pytest.raises(StoreError, match=r"redis\+cluster://") as caught:
            await new_link(url).call(b"f")
        assert not isinstance(caught.value, StoreUnavailable)


@pytest.mark.parametrize(
    "hello", [hello_of("6.2.14"), b"-ERR unknown command `HELLO`\r\n", b"-NOPROTO sorry\r\n", b"+OK\r\n"]
)
async def test_an_old_server_is_refused(new_link: NewLink, hello: bytes) -> None:
    async with fake_server({b"HELLO": hello}) as url:
        with pytest.raises(StoreError, match=r"needs Redis 7\.0 or later") as caught:
            await new_link(url).open()
        assert not isinstance(caught.value, StoreUnavailable)


# ---- replicas ------------------------------------------------------------------------------------------------


async def test_a_durable_call_waits_for_replicas(new_redis: NewRedis, new_link: NewLink) -> None:
    master = new_redis()
    replica = new_redis(replicaof=master)
    await until(lambda: replica.info("replication")["master_link_status"] == "up")
    link = new_link(master.url, wait_replicas=1, wait_timeout="1s")
    assert await link.call(b"kit_set", b"v", durable=True) == b"OK"
    assert replica.command("GET", "{kit}:meta") == "v"
    master.command("FUNCTION", "FLUSH")
    assert await link.call(b"kit_set", b"w", durable=True) == b"OK"
    more = new_link(master.url, wait_replicas=2, wait_timeout="50ms")
    with pytest.raises(StoreUnavailable, match="1 of 2 replicas have it: the job may exist"):
        await more.call(b"kit_set", b"x", durable=True)
    assert await more.call(b"kit_get", durable=False) == b"x"
    with pytest.raises(StoreError, match="oops"):
        await more.call(b"kit_fail", b"ERR oops", durable=True)
    assert await more.call(b"kit_echo", b"in step") == [b"in step"]
