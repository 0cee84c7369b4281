"""The way to the master: through sentinels and clusters, by both connections, over failovers and moving slots."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing, closing
from typing import Any

import pytest

from tests.servers.fixtures import redis_cluster, redis_sentinel
from tests.servers.process import HOST, free_port, wait_until
from tests.servers.redis import RedisServer
from tests.servers.topology import Cluster, Sentinel
from tests.unit.store.redis.kit import LIBRARY, PREFIX, location_of, until
from windlass.errors import StoreError, StoreUnavailable
from windlass.store.redis.blocking import BlockingLink
from windlass.store.redis.link import Link
from windlass.store.redis.location import Address, parse_url
from windlass.store.redis.route import Ask, Dial, Pause, Route, Step

__all__ = ["redis_cluster", "redis_sentinel"]

CHANNEL = f"{{{PREFIX}}}:to:me".encode()


def blocking(url: str, **options: object) -> Any:
    return closing(BlockingLink(location_of(url, **options), LIBRARY))


def port_of(link: BlockingLink) -> int:
    stream = link._seat().stream
    assert stream is not None
    return stream.address.port


# ---- without a server: the steps themselves --------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def hello() -> dict[bytes, bytes]:
    return {b"version": b"7.2.4", b"role": b"master"}


def test_sentinels_are_asked_in_turn_and_the_one_that_knew_comes_first_next_time() -> None:
    route = Route(parse_url("redis+sentinel://a,b/main", "app"), Clock())
    for first in ("a", "b"):
        steps = route.steps()
        step = next(steps)
        assert isinstance(step, Dial)
        assert step.address == Address(first, 26379)
        if first == "a":
            step = steps.throw(StoreUnavailable("down"))
            assert isinstance(step, Dial)
            assert step.address == Address("b", 26379)
        step = steps.send(None)
        assert isinstance(step, Ask)
        assert b"GET-MASTER-ADDR-BY-NAME" in step.request.packed
        step = steps.send([[b"10.0.0.1", b"6379"]])
        assert step[0] == Address("10.0.0.1", 6379)
        assert isinstance(steps.send(None), Ask)
        with pytest.raises(StopIteration):
            steps.send([hello()])


def test_the_search_ends_with_its_time_and_says_what_was_last_in_the_way() -> None:
    clock = Clock()
    steps = Route(parse_url("redis+sentinel://a,b/main?timeout=5", "app"), clock).steps()
    taken = []

    def down(step: Step) -> Step:
        taken.append(type(step))
        if isinstance(step, Pause):
            return steps.send(None)
        clock.now += 1
        return steps.throw(StoreUnavailable("down"))

    step = next(steps)
    for _ in range(6):
        step = down(step)
    with pytest.raises(StoreUnavailable, match=r"no master by redis\+sentinel://a:26379,b:26379/main/0; .*: down"):
        down(step)
    assert taken == [Dial, Dial, Pause, Dial, Dial, Pause, Dial]


def test_a_silent_node_leaves_time_for_the_others() -> None:
    clock = Clock()
    steps = Route(parse_url("redis+cluster://a,b,c?timeout=4", "app"), clock).steps()
    step, times = next(steps), []
    for _ in range(3):
        assert isinstance(step, Dial)
        times.append(step.seconds)
        clock.now += step.seconds
        step = steps.throw(StoreUnavailable("silent"))
    assert times == [2, 1, 0.5]


def test_a_former_master_is_not_taken_for_one() -> None:
    steps = Route(parse_url("redis+sentinel://a/main", "app"), Clock()).steps()
    next(steps)
    steps.send(None)
    steps.send([[b"10.0.0.1", b"6379"]])
    steps.send(None)
    step = steps.send([{b"version": b"7.2.4", b"role": b"replica"}])
    assert isinstance(step, Pause), "and then the sentinel is asked again"


def test_a_sentinel_that_does_not_know_the_name() -> None:
    clock = Clock()
    steps = Route(parse_url("redis+sentinel://a/mian", "app"), clock).steps()
    next(steps)
    steps.send(None)
    clock.now = 10
    with pytest.raises(StoreUnavailable, match="knows no master named 'mian'"):
        steps.send([None])


def test_sentinels_have_a_password_of_their_own() -> None:
    location = parse_url("redis+sentinel://ann:one@a/main?sentinel_user=sue&sentinel_password=two", "app")
    steps = Route(location, Clock()).steps()
    next(steps)
    ask = steps.send(None)
    assert isinstance(ask, Ask)
    assert ask.request.packed.startswith(b"*3\r\n$4\r\nAUTH\r\n$3\r\nsue\r\n$3\r\ntwo\r\n")
    assert b"one" not in ask.request.packed
    with pytest.raises(StoreError, match="the sentinel a:26379 does not accept") as caught:
        steps.send([Exception("WRONGPASS invalid"), Exception("NOAUTH")])
    assert not isinstance(caught.value, StoreUnavailable)


def test_a_sentinel_that_asks_for_a_password() -> None:
    steps = Route(parse_url("redis+sentinel://ann:one@a/main", "app"), Clock()).steps()
    next(steps)
    steps.send(None)
    with pytest.raises(StoreError, match="add sentinel_password="):
        steps.send([Exception("NOAUTH Authentication required.")])


def test_a_node_without_a_name_is_the_one_we_asked() -> None:
    location = parse_url("redis+cluster://seed:7000", "app")
    for nameless in (b"", None, b"?"):
        steps = Route(location, Clock()).steps()
        next(steps)
        steps.send(None)
        step = steps.send([hello(), [[0, 16383, [nameless, 7001, b"id", []]]]])
        assert step[0] == Address("seed", 7001)


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("MOVED 1 10.0.0.9:7009", Address("10.0.0.9", 7009)),
        ("MOVED 1 ::1:7009", Address("::1", 7009)),
        ("MOVED 1 :7009", Address("seed", 7000)),
        ("READONLY You can't write against a read only replica.", Address("seed", 7000)),
    ],
)
def test_the_search_begins_where_the_server_sent_us(words: str, first: Address) -> None:
    route = Route(parse_url("redis+cluster://seed:7000", "app"), Clock())
    route.moved(Exception(words))
    assert next(route.steps())[0] == first


def test_a_slot_nobody_serves_and_a_server_that_is_no_cluster() -> None:
    clock = Clock()
    steps = Route(parse_url("redis+cluster://seed", "app"), clock).steps()
    next(steps)
    steps.send(None)
    clock.now = 10
    with pytest.raises(StoreUnavailable, match="knows nobody who serves slot"):
        steps.send([hello(), []])
    steps = Route(parse_url("redis+cluster://seed", "app"), clock).steps()
    next(steps)
    steps.send(None)
    with pytest.raises(StoreError, match="write a redis:// URL"):
        steps.send([hello(), Exception("ERR This instance has cluster support disabled")])


# ---- sentinels -------------------------------------------------------------------------------------------------


def test_sentinels_lead_to_the_master(redis_sentinel: Sentinel) -> None:
    with blocking(redis_sentinel.url, timeout="10s") as link:
        assert link.call(b"kit_set", b"v") == b"OK"
        assert port_of(link) == redis_sentinel.master.port


def test_a_dead_sentinel_is_passed_over(redis_sentinel: Sentinel) -> None:
    url = redis_sentinel.url.replace("://", f"://{HOST}:{free_port()},")
    with blocking(url) as link:
        assert link.call(b"kit_echo", b"x") == [b"x"]
    nobody, wrong = f"redis+sentinel://{HOST}:{free_port()}/main", redis_sentinel.url + "x"
    with blocking(nobody, timeout="300ms") as link, pytest.raises(StoreUnavailable, match="found no master by"):
        link.open()
    with blocking(wrong, timeout="300ms") as link, pytest.raises(StoreUnavailable, match="no master named 'mainx'"):
        link.open()


async def test_both_links_follow_a_failover(redis_sentinel: Sentinel) -> None:
    link = Link(location_of(redis_sentinel.url, timeout="5s"), LIBRARY)
    heard, returns = [], []
    link.on_return = lambda: returns.append(True)
    with blocking(redis_sentinel.url, timeout="5s") as other:
        try:
            await link.subscribe("me", heard.append)
            await asyncio.to_thread(other.call, b"kit_set", b"v")
            dead = await asyncio.to_thread(redis_sentinel.fail_over)
            await until(lambda: returns, 30)
            assert await link.call(b"kit_say", CHANNEL, b"x") == 1
            assert heard == [b"x"]
            assert await asyncio.to_thread(other.call, b"kit_set", b"w") == b"OK"
            assert port_of(other) == redis_sentinel.master.port != dead.port
            await asyncio.to_thread(redis_sentinel.restart, dead)
        finally:
            await link.close()


# ---- clusters --------------------------------------------------------------------------------------------------


@pytest.fixture
def owner(redis_cluster: Cluster) -> RedisServer:
    return redis_cluster.owner("{kit}:meta")


@pytest.fixture
def moved_back(redis_cluster: Cluster, owner: RedisServer) -> Iterator[None]:
    yield
    give_slot(redis_cluster, owner)


def give_slot(cluster: Cluster, node: RedisServer) -> None:
    """Make a node the owner of our slot, which must be empty, as far as every node knows."""
    slot, id = cluster.nodes[0].command("CLUSTER", "KEYSLOT", "{kit}:meta"), node.command("CLUSTER", "MYID")
    for other in [node, *cluster.nodes]:
        for key in other.command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            other.command("DEL", key)
        other.command("CLUSTER", "SETSLOT", slot, "NODE", id)
    wait_until(lambda: cluster.owner("{kit}:meta") is node, "the slot has moved")


def test_any_seed_leads_to_the_owner_of_our_slot(redis_cluster: Cluster, owner: RedisServer) -> None:
    for node in redis_cluster.nodes:
        with blocking(f"redis+cluster://{HOST}:{node.port}") as link:
            assert link.call(b"kit_set", b"v") == b"OK"
            assert port_of(link) == owner.port
            assert link.location.slot == node.command("CLUSTER", "KEYSLOT", "{kit}:anything")


async def test_both_links_follow_a_slot_that_moves(
    redis_cluster: Cluster, owner: RedisServer, moved_back: None
) -> None:
    heir = next(node for node in redis_cluster.nodes if node is not owner)
    link = Link(location_of(redis_cluster.url), LIBRARY)
    heard: list[bytes] = []
    async with aclosing(Closer(link)):
        with blocking(redis_cluster.url) as other:
            await link.subscribe("me", heard.append)
            await link.call(b"kit_echo")
            other.call(b"kit_echo")
            give_slot(redis_cluster, heir)
            replies = await asyncio.gather(*(call_until_done(link, b"%d" % n) for n in range(10)))
            assert replies == [[b"%d" % n] for n in range(10)]
            assert await link.call(b"kit_say", CHANNEL, b"x") >= 1
            await until(lambda: heard == [b"x"])
            assert other.call(b"kit_echo", b"x") == [b"x"], "and it has loaded the library there"
            assert port_of(other) == heir.port


class Closer:
    def __init__(self, link: Link) -> None:
        self.aclose = link.close


async def call_until_done(link: Link, word: bytes) -> object:
    """As every caller does: the calls that were under way when the first was told to move are lost with it."""
    while True:
        try:
            return await link.call(b"kit_echo", word)
        except StoreUnavailable:
            await asyncio.sleep(0.01)


def test_a_dead_owner_and_its_return(redis_cluster: Cluster, owner: RedisServer) -> None:
    with blocking(redis_cluster.url, timeout="500ms") as link:
        link.call(b"kit_echo")
        owner.kill()
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            link.call(b"kit_echo")
        assert time.monotonic() - began < 3
        redis_cluster.restart(owner)
        assert link.call(b"kit_echo", b"x") == [b"x"]


def test_a_plain_url_to_the_wrong_node_says_what_to_write(redis_cluster: Cluster, owner: RedisServer) -> None:
    wrong = next(node for node in redis_cluster.nodes if node is not owner)
    with blocking(wrong.url) as link, pytest.raises(StoreError, match=r"write redis\+cluster:// URLs"):
        link.call(b"kit_echo")
