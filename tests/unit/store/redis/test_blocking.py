"""The blocking connection: the same calls and errors as the async one, from threads and over forks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.servers.fixtures import KINDS, NewRedis, certificates, new_redis, redis7, valkey9
from tests.servers.redis import Certificates, RedisServer
from tests.unit.store.redis.kit import LIBRARY, location_of
from windlass.errors import StoreClosed, StoreError, StoreUnavailable
from windlass.store.redis.blocking import BlockingLink

__all__ = ["certificates", "new_redis", "redis7", "valkey9"]

SECRET = "s3cret"

NewLink = Callable[..., BlockingLink]


@pytest.fixture
def new_link() -> Iterator[NewLink]:
    with ExitStack() as links:

        def make(url: str, **options: object) -> BlockingLink:
            link = BlockingLink(location_of(url, **options), LIBRARY)
            links.callback(link.close)
            return link

        yield make


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> RedisServer:
    found: RedisServer = request.getfixturevalue(request.param)
    return found


def test_calls_and_commands(server: RedisServer, new_link: NewLink) -> None:
    link = new_link(server.url)
    assert link.call(b"kit_key") == b"{kit}:meta"
    assert link.call(b"kit_echo", b"a", 1) == [b"a", b"1"]
    large = os.urandom(3_000_000)
    assert link.call(b"kit_echo", large, large) == [large, large]
    with pytest.raises(StoreError, match="oops"):
        link.call(b"kit_fail", b"ERR oops")
    with pytest.raises(StoreError, match="unknown command"):
        link.command("NONSENSE")
    assert link.command("PING") == b"PONG"


def test_many_threads_share_one_connection(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url, timeout="20s")

    def work(thread: int) -> bool:
        words = [b"%d-%d" % (thread, n) for n in range(200)]
        return all(link.call(b"kit_echo", word) == [word] for word in words)

    before = int(server.info("stats")["total_connections_received"])
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert int(server.info("stats")["total_connections_received"]) == before + 2


def test_a_thread_does_not_wait_for_ever_for_the_others(new_redis: NewRedis, new_link: NewLink) -> None:
    link = new_link(new_redis().url, timeout="300ms")
    link.open()
    seat = link._seat()
    with seat.lock, pytest.raises(StoreUnavailable, match="other threads"):
        link.call(b"kit_echo")
    assert link.call(b"kit_echo", b"x") == [b"x"]


def test_a_connection_the_server_closed_meanwhile_is_replaced(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url)
    assert link.call(b"kit_echo", b"1") == [b"1"]
    server.command("CLIENT", "KILL", "TYPE", "normal")
    assert link.call(b"kit_echo", b"2") == [b"2"]
    server.restart()
    assert link.call(b"kit_echo", b"3") == [b"3"], "and the library was loaded anew"


def test_a_dead_server_and_its_return(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url)
    link.open()
    server.kill()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="cannot connect"):
            link.call(b"kit_echo")
    server.restart()
    assert link.call(b"kit_echo", b"x") == [b"x"]


def test_a_silent_server_is_given_up_after_the_timeout(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url, timeout="300ms", connect_timeout="300ms")
    link.open()
    server.pause()
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"no answer within 0\.3 s"):
        link.call(b"kit_echo", b"late")
    with pytest.raises(StoreUnavailable, match="does not answer in time"):
        link.call(b"kit_echo", b"late")
    assert time.monotonic() - began < 2
    server.resume()
    assert link.call(b"kit_echo", b"x") == [b"x"]


def test_an_interrupted_call_leaves_the_next_one_in_step(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url, timeout="20s")
    link.open()

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        server.pause()
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            link.call(b"kit_echo", b"interrupted")
    finally:
        signal.signal(signal.SIGALRM, before)
        server.resume()
    assert link.call(b"kit_echo", b"x") == [b"x"]


def test_a_closed_link_says_so_and_opens_again(server: RedisServer, new_link: NewLink) -> None:
    link = new_link(server.url)
    link.open()
    link.close()
    link.close()
    with pytest.raises(StoreClosed):
        link.call(b"kit_echo")
    link.open()
    assert link.call(b"kit_echo", b"x") == [b"x"]


def in_child(work: Callable[[], bool]) -> bool:
    pid = os.fork()
    if not pid:
        good = False
        try:
            good = work()
        finally:
            os._exit(0 if good else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_forked_child_makes_its_own_connection(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url)
    mine = link.command("CLIENT", "ID")

    def child() -> bool:
        threads = ThreadPoolExecutor(4)
        theirs = set(threads.map(lambda _: link.command("CLIENT", "ID"), range(20)))
        return len(theirs) == 1 and theirs != {mine} and link.call(b"kit_echo", b"c") == [b"c"]

    assert in_child(child)
    assert link.command("CLIENT", "ID") == mine, "the parent's is as it was"


def test_a_child_forked_while_a_thread_was_calling(new_redis: NewRedis, new_link: NewLink) -> None:
    """The lock is held and a reply under way; neither is the child's business."""
    server = new_redis()
    link = new_link(server.url, timeout="20s")
    link.open()
    server.pause()
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(link.call(b"kit_echo", b"parent")))
    thread.start()
    while not link._seat().lock.locked():
        time.sleep(0.001)

    pid = server.pid

    def child() -> bool:
        os.kill(pid, signal.SIGCONT)
        return link.call(b"kit_echo", b"child") == [b"child"]

    assert in_child(child)
    thread.join()
    assert answers == [[b"parent"]]


def test_the_same_errors_as_the_async_one(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis(acl=[f"user default on >{SECRET} ~* &* +@all"])
    with pytest.raises(StoreError, match="asks for a password"):
        new_link(server.url).open()
    with pytest.raises(StoreError, match="does not accept") as caught:
        new_link(server.url_as("", SECRET + "!")).open()
    assert SECRET not in str(caught.value)
    link = new_link(server.url_as("", SECRET))
    link.call(b"kit_set", b"v")
    server.command("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(StoreUnavailable, match="raise maxmemory"):
        link.call(b"kit_set", b"v")
    server.command("CONFIG", "SET", "maxmemory", "0")
    server.command("REPLICAOF", "127.0.0.1", "1")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="read-only replica"):
            link.call(b"kit_set", b"v")
    server.command("REPLICAOF", "NO", "ONE")
    assert link.call(b"kit_set", b"v") == b"OK"


def test_a_lost_library_is_loaded_again(new_redis: NewRedis, new_link: NewLink) -> None:
    server = new_redis()
    link = new_link(server.url, wait_replicas=1, wait_timeout="50ms")
    assert link.call(b"kit_set", b"v") == b"OK"
    server.command("FUNCTION", "FLUSH")
    with pytest.raises(StoreUnavailable, match="0 of 1 replicas have it: the job may exist"):
        link.call(b"kit_set", b"w", durable=True)
    assert link.call(b"kit_get") == b"w"


def test_a_unix_socket_and_tls(new_redis: NewRedis, new_link: NewLink, certificates: Certificates) -> None:
    server = new_redis(tls=certificates)
    assert new_link(server.socket_url, db=2).call(b"kit_set", b"two") == b"OK"
    link = new_link(server.url + "/2", tls_ca=certificates.ca)
    assert link.call(b"kit_get") == b"two"
    server.command("CLIENT", "KILL", "TYPE", "normal")
    assert link.call(b"kit_get") == b"two"
    with pytest.raises(StoreError, match="certificate is not accepted"):
        new_link(server.url).open()
