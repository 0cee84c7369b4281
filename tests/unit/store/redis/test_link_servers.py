"""A link and its servers: addresses, TLS, users, replicas, servers that are full, busy, old or moving."""

from __future__ import annotations

import asyncio

import pytest

from tests.servers.fixtures import NewRedis, certificates, new_redis, redis7, valkey9
from tests.servers.redis import Certificates, RedisServer
from tests.unit.store.redis.kit import fake_server, hello_of, until
from tests.unit.store.redis.link_kit import CHANNEL, SECRET, NewLink, new_link, server
from windlass.errors import StoreError, StoreUnavailable
from windlass.store.redis import errors

__all__ = ["certificates", "new_link", "new_redis", "redis7", "server", "valkey9"]


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
