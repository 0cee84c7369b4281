"""Redis URLs: every form, every option, and nothing secret in what is said about a bad one."""

from __future__ import annotations

import pytest

from windlass.errors import ConfigError
from windlass.store.redis.location import Address, Location, Tls, parse_url

SECRET = "s3cret"


def parse(url: str) -> Location:
    return parse_url(url, "shop")


@pytest.mark.parametrize(
    ("url", "address", "db"),
    [
        ("redis://", Address("localhost", 6379), 0),
        ("redis:///3", Address("localhost", 6379), 3),
        ("redis://cache", Address("cache", 6379), 0),
        ("redis://cache/", Address("cache", 6379), 0),
        ("redis://cache:7000/2", Address("cache", 7000), 2),
        ("redis://cache?db=2", Address("cache", 6379), 2),
        ("redis://cache/2?db=2", Address("cache", 6379), 2),
        ("rediss://cache:7000/2", Address("cache", 7000), 2),
        ("redis://127.0.0.1:1", Address("127.0.0.1", 1), 0),
        ("redis://[::1]", Address("::1", 6379), 0),
        ("redis://[fe80::1%25eth0]:7000/1", Address("fe80::1%eth0", 7000), 1),
        ("unix:///run/redis.sock", Address("", 0, "/run/redis.sock"), 0),
        ("unix:///run/my%20redis.sock?db=4", Address("", 0, "/run/my redis.sock"), 4),
    ],
)
def test_a_single_server(url: str, address: Address, db: int) -> None:
    location = parse(url)
    assert (location.kind, location.nodes, location.db) == ("single", (address,), db)
    assert (location.tls is not None) == url.startswith("rediss")


@pytest.mark.parametrize(
    ("url", "user", "password"),
    [
        (f"redis://:{SECRET}@h", "", SECRET),
        (f"redis://ann:{SECRET}@h:1/2", "ann", SECRET),
        ("redis://ann@h", "ann", ""),
        ("redis://a%40b:p%2Fw%3A%3F%23%40@h", "a@b", "p/w:?#@"),
        ("redis://ann:a:b@h", "ann", "a:b"),
        ("redis://ann:a@b@h", "ann", "a@b"),
        (f"unix://ann:{SECRET}@/run/redis.sock", "ann", SECRET),
        (f"redis+sentinel://ann:{SECRET}@h1,h2/main", "ann", SECRET),
        (f"redis+cluster://ann:{SECRET}@h1,h2", "ann", SECRET),
    ],
)
def test_user_and_password(url: str, user: str, password: str) -> None:
    location = parse(url)
    assert (location.user, location.password) == (user, password)
    assert SECRET not in f"{location!r} {location} {location.shown}"


def test_sentinels() -> None:
    location = parse(f"redis+sentinel://h1:1,h2,[::1]:3/main/2?sentinel_user=sue&sentinel_password={SECRET}")
    assert location.nodes == (Address("h1", 1), Address("h2", 26379), Address("::1", 3))
    assert (location.kind, location.master, location.db, location.tls) == ("sentinel", "main", 2, None)
    assert (location.sentinel_user, location.sentinel_password) == ("sue", SECRET)
    assert location.shown == "redis+sentinel://h1:1,h2:26379,[::1]:3/main/2"
    assert SECRET not in repr(location)
    assert parse("rediss+sentinel://h1/main").tls == Tls()


def test_a_cluster() -> None:
    location = parse("redis+cluster://h1:7000,h2:7001")
    assert (location.kind, location.nodes) == ("cluster", (Address("h1", 7000), Address("h2", 7001)))
    assert parse("rediss+cluster://h1").tls == Tls()


def test_options_and_their_defaults() -> None:
    location = parse("redis://h")
    assert (location.timeout, location.connect_timeout, location.keepalive) == (5.0, 3.0, 5.0)
    assert (location.wait_replicas, location.wait_timeout, location.prefix) == (0, 1.0, "shop")
    location = parse(
        "redis://h?prefix=blog&timeout=2.5&connect_timeout=250ms&keepalive=1m&wait_replicas=2&wait_timeout=100ms"
    )
    assert (location.timeout, location.connect_timeout, location.keepalive) == (2.5, 0.25, 60.0)
    assert (location.wait_replicas, location.wait_timeout, location.prefix) == (2, 0.1, "blog")
    tls = parse("rediss://h?tls_ca=/ca.pem&tls_cert=/c.pem&tls_key=/k.pem&tls_check_hostname=no").tls
    assert tls == Tls("/ca.pem", "/c.pem", "/k.pem", False)


def test_every_key_of_an_app_is_in_one_slot() -> None:
    location = parse("redis+cluster://h?prefix=123456789")
    assert location.tag == "{123456789}:"
    assert location.slot == 0x31C3  # the check value of this checksum
    assert parse_url("redis://h", "größe").tag == "{größe}:"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"redis://ann:{SECRET}@h/2?timeout=9", "redis://ann@h:6379/2"),
        (f"rediss://:{SECRET}@[::1]", "rediss://[::1]:6379/0"),
        (f"unix://:{SECRET}@/run/r.sock?db=1", "unix:///run/r.sock?db=1"),
        ("rediss+cluster://a,b:1", "rediss+cluster://a:6379,b:1"),
    ],
)
def test_what_is_shown_has_no_password(url: str, shown: str) -> None:
    assert parse(url).shown == shown


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("reddis://h", r"did you mean 'redis'\?"),
        ("redis+sentinal://h/m", r"did you mean 'redis\+sentinel'\?"),
        (f"redis://:{SECRET}@h?timout=3", r"unknown option 'timout' .*did you mean 'timeout'\?"),
        (f"redis://:{SECRET}@h?timeout=3&timeout=4", "'timeout' is given twice"),
        (f"redis://:{SECRET}@h?timeout=", "'timeout' is empty"),
        (f"redis://:{SECRET}@h?timeout=soon", "timeout is 'soon'"),
        (f"redis://:{SECRET}@h?timeout=0", "timeout is '0'"),
        (f"redis://:{SECRET}@h?keepalive=-1", "keepalive is -1.0"),
        (f"redis://:{SECRET}@h?connect_timeout=nan", "connect_timeout is nan"),
        (f"redis://:{SECRET}@h?wait_replicas=two", "wait_replicas is 'two'"),
        (f"redis://:{SECRET}@h?wait_replicas=1&wait_timeout=5", r"wait_timeout \(5 s\) must be shorter than timeout"),
        (f"redis://:{SECRET}@h?prefix=a%7Bb", "prefix is 'a{b'"),
        (f"redis://:{SECRET}@h?prefix=a+b", "prefix is 'a b'"),
        (f"redis://:{SECRET}@h?prefix=a%0Ab", "prefix is"),
        (f"redis://:{SECRET}@h?prefix={'x' * 65}", "1 to 64 characters"),
        (f"redis://:{SECRET}@h?tls_ca=/ca.pem", "write rediss:// for TLS"),
        (f"unix://:{SECRET}@/run/r.sock?tls_ca=/ca.pem", "has no meaning in a unix:// URL"),
        (f"rediss://:{SECRET}@h?tls_check_hostname=maybe", "tls_check_hostname is 'maybe'"),
        (f"rediss://:{SECRET}@h?tls_key=/k.pem", "without tls_cert"),
        (f"redis://h?sentinel_password={SECRET}", "'sentinel_password' is for"),
        (f"redis://:{SECRET}@h/one", "db is 'one'"),
        (f"redis://:{SECRET}@h/1/2", "too many parts"),
        (f"redis://:{SECRET}@h/1?db=2", "two databases"),
        (f"redis+cluster://:{SECRET}@h/1", "a cluster has only database 0"),
        (f"redis+sentinel://:{SECRET}@h", "does not name the master"),
        (f"redis://:{SECRET}@h:port", "host and port"),
        (f"redis://:{SECRET}@h:99999", "host and port"),
        (f"redis://:{SECRET}@::1:6379", "host and port"),
        (f"redis://:{SECRET}@[::1:6379", "host and port"),
        (f"redis+cluster://:{SECRET}@h1,,h2", "host and port"),
        (f"redis://:x/{SECRET}@h", "%2F"),
        (f"redis://:x#{SECRET}@h", "%23"),
        (f"redis://:x?{SECRET}@h", "no option at all"),
        (f"redis://:{SECRET}/x@h", "%2F"),
        (f"redis://:{SECRET}#x@h", "%23"),
        (f"redis://:{SECRET}?x@h", "host and port|no option at all"),
        (f"unix://:x/{SECRET}@/run/r.sock", "three slashes"),
        (f"unix://:{SECRET}@", "three slashes"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse(url)
    assert SECRET not in str(caught.value)


def test_an_app_whose_name_cannot_be_a_prefix_is_told_of_the_option() -> None:
    with pytest.raises(ConfigError, match=r"the app's name; give another as \?prefix="):
        parse_url("redis://h", "my shop")
    assert parse_url("redis://h?prefix=shop", "my shop").prefix == "shop"
