"""The servers that other tests rely on: they start, die, come back, and never outlive the tests."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import hiredis
import pytest

from tests.servers.fixtures import KINDS, NewRedis, certificates, new_redis
from tests.servers.process import HOST, wait_until
from tests.servers.proxy import Proxy
from tests.servers.redis import BINARIES, Certificates, Connection, RedisServer
from tests.servers.topology import Cluster, Sentinel

ROOT = Path(__file__).parents[2]

__all__ = ["certificates", "new_redis"]

both = pytest.mark.parametrize("kind", KINDS)


@both
def test_a_server_keeps_its_port_and_its_synced_data_over_a_kill(new_redis: NewRedis, kind: str) -> None:
    server = new_redis(kind, fsync="always")
    port = server.port
    assert server.command("SET", "k", "v") == "OK"
    server.kill()
    assert not server.alive
    server.restart()
    assert (server.port, server.command("GET", "k")) == (port, "v")


def test_a_server_without_a_file_forgets(new_redis: NewRedis) -> None:
    server = new_redis()
    server.command("SET", "k", "v")
    assert server.restart().command("GET", "k") is None


@both
def test_a_paused_server_answers_nobody_until_it_goes_on(new_redis: NewRedis, kind: str) -> None:
    server = new_redis(kind)
    server.pause()
    with pytest.raises(TimeoutError):
        server.command("PING", timeout=0.1)
    server.resume()
    assert server.command("PING") == "PONG"


def test_a_paused_server_can_be_stopped(new_redis: NewRedis) -> None:
    server = new_redis()
    server.pause()
    server.stop()
    assert not server.alive


@both
def test_full_memory_refuses_writes(new_redis: NewRedis, kind: str) -> None:
    server = new_redis(kind, maxmemory="4mb")
    with pytest.raises(hiredis.ReplyError, match="OOM"):
        _fill(server)


def _fill(server: RedisServer) -> None:
    for n in range(100):
        server.command("SET", n, "x" * 100_000)


def test_users_of_the_acl_and_the_one_for_administration(new_redis: NewRedis) -> None:
    server = new_redis(acl=["user default off", "user ann on >p@ss ~a:* +@all"])
    assert server.command("ACL", "WHOAMI") == "windlass-tests"
    assert server.url_as("ann", "p@ss") == f"redis://ann:p%40ss@{HOST}:{server.port}"
    with server.connect() as connection:
        connection.command("AUTH", "ann", "p@ss")
        with pytest.raises(hiredis.ReplyError, match="NOPERM"):
            connection.command("GET", "b:1")


def test_a_replica_follows_and_can_be_turned(new_redis: NewRedis) -> None:
    master = new_redis()
    replica = new_redis(replicaof=master)
    master.command("SET", "k", "v")
    wait_until(lambda: replica.command("GET", "k") == "v", "the replica has it")
    with pytest.raises(hiredis.ReplyError, match="READONLY"):
        replica.command("SET", "k", "w")
    replica.command("REPLICAOF", "NO", "ONE")
    assert replica.command("SET", "k", "w") == "OK"


def test_tls_with_a_certificate_of_the_tests_own_authority(new_redis: NewRedis, certificates: Certificates) -> None:
    server = new_redis(tls=certificates)
    assert server.url.startswith("rediss://")
    context = ssl.create_default_context(cafile=str(certificates.ca))
    with (
        socket.create_connection((HOST, server.port), 5) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(b"PING\r\n")
        assert secure.recv(100) == b"+PONG\r\n"


def test_a_server_that_cannot_start_says_why(new_redis: NewRedis) -> None:
    with pytest.raises(Exception, match="no-such-setting"):
        new_redis(config={"no-such-setting": 1})


HOLDER = """
import sys, time
from tests.servers.redis import BINARIES, RedisServer
server = RedisServer(BINARIES[sys.argv[1]]()).start()
print(server.pid, server.folder, flush=True)
time.sleep(60)
"""


@both
def test_a_server_dies_with_the_tests_that_started_it(kind: str) -> None:
    BINARIES[kind]()  # skips where there is none
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, kind], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert holder.stdout
    pid, folder = holder.stdout.readline().split()
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    wait_until(lambda: _gone(int(pid)) and not Path(folder).exists(), "the server and its folder are gone")


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # Where nobody reaps orphans it stays a zombie, which is gone enough.
    return Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z"


def test_a_server_of_the_tests_is_not_bound_to_the_thread_that_started_it(new_redis: NewRedis) -> None:
    import threading

    started: list[RedisServer] = []
    thread = threading.Thread(target=lambda: started.append(new_redis()))
    thread.start()
    thread.join()
    assert started[0].command("PING") == "PONG"


@both
def test_a_cluster_serves_every_slot_and_takes_a_killed_node_back(kind: str) -> None:
    with Cluster(BINARIES[kind](), fsync="always") as cluster:
        keys = [f"k{n}" for n in range(30)]
        owners = {key: cluster.owner(key) for key in keys}
        assert len({node.port for node in owners.values()}) == 3
        for key, node in owners.items():
            assert node.command("SET", key, "v") == "OK"
        victim = owners["k0"]
        victim.kill()
        cluster.restart(victim)
        assert victim.command("GET", "k0") == "v"


@both
def test_sentinels_replace_a_killed_master_and_take_it_back_as_a_replica(kind: str) -> None:
    with Sentinel(BINARIES[kind]()) as sentinel:
        first = sentinel.master
        first.command("SET", "k", "v")
        assert first.command("WAIT", 2, 5000, timeout=10) == 2
        assert sentinel.failovers == 0
        dead = sentinel.fail_over()
        assert dead is first
        assert sentinel.failovers == 1
        assert sentinel.master.command("GET", "k") == "v"
        sentinel.restart(dead)
        assert dead.info("replication")["role"] == "slave"
        assert dead.command("GET", "k") == "v"


def test_the_proxy_tells_replies_from_messages(new_redis: NewRedis) -> None:
    """On one connection that also listens: exactly the reply that was ordered is lost."""
    server = new_redis()
    heard: list[object] = []
    with Proxy(server) as proxy, Connection((HOST, proxy.port)) as client:
        order = proxy.lose_reply(b"lose me")
        for words in [("HELLO", 3), ("SUBSCRIBE", "a", "b"), ("PUBLISH", "a", "news"), ("ECHO", "kept")]:
            heard.append(client.command(*words))
        with pytest.raises(ConnectionResetError):  # what is heard may be earlier replies, until it ends
            heard += [client.command(*words) for words in [("SET", "k", "lose me"), *[("ECHO", "late")] * 10]]
        assert order.done
    assert "OK" not in heard
    assert server.command("GET", "k") == "lose me"
