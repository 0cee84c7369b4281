"""Addresses by whose they are: each way to write one that is not public is refused, and each that is public is not."""

from __future__ import annotations

import pytest

from windlass.core.network_addresses import Allowed, host_refusal, is_loopback, parse_allowed, refusal
from windlass.errors import ConfigError

NOBODY = Allowed()
OWN = Allowed(private=True)

HERE = ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"]
OWN_NETWORK = [
    "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fc00::1", "fd12::1", "::ffff:10.0.0.1",
    "64:ff9b::10.0.0.1", "2002:c0a8:101::1",
]  # fmt: skip
KEYS = [
    "169.254.169.254", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::",
    "169.254.170.2", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16",
]  # fmt: skip
SPECIAL = [
    "0.0.0.0", "0.1.2.3", "::", "169.254.1.1", "fe80::1", "fe80::1%eth0", "fec0::1", "192.0.0.1", "192.0.2.1",
    "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255", "ff02::1", "2001:db8::1", "3fff::1", "2001::1", "100::1", "64:ff9b:1::a00:1", "5f00::1",
    "4000::1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1", "169.253.0.1",
    "198.17.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
]  # fmt: skip


@pytest.mark.parametrize("address", [*HERE, *OWN_NETWORK, *KEYS, *SPECIAL])
def test_what_is_not_public_is_refused(address: str) -> None:
    assert refusal(address, NOBODY)
    assert host_refusal(address, NOBODY)


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public_is_not(address: str) -> None:
    assert refusal(address, NOBODY) == host_refusal(address, NOBODY) == ""


@pytest.mark.parametrize("address", [*HERE, *OWN_NETWORK])
def test_own_networks_may_be_allowed_as_a_whole(address: str) -> None:
    assert refusal(address, OWN) == ""


@pytest.mark.parametrize("address", [*KEYS, *SPECIAL])
def test_that_allows_neither_keys_nor_what_is_special(address: str) -> None:
    assert refusal(address, OWN)


def test_a_network_that_is_named_is_allowed_and_no_other() -> None:
    allowed = parse_allowed(["10.1.0.0/16", "169.254.169.254", "fd12::/48"], "here")
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "169.254.169.254", "fd12::7", "1.1.1.1"):
        assert refusal(address, allowed) == "", address
    for address in ("10.2.0.1", "169.254.169.253", "fd13::7", "127.0.0.1"):
        assert refusal(address, allowed), address


@pytest.mark.parametrize(
    "host",
    [
        "2130706433", "0x7f000001", "0x7F.1", "017700000001", "0177.0.0.1", "127.1", "127.0.1", "0x7f.0x0.0x0.0x1",
        "127.0.0.1.", "1.1.1", "256.1.1.1", "0x", "08.8.8.8", "1.1.1.0x1", "example.0x7f", "::1::", "1:2",
    ],
)  # fmt: skip
def test_a_number_that_is_no_ordinary_address_is_refused_whoever_allows_it(host: str) -> None:
    assert "no ordinary way" in host_refusal(host, parse_allowed(["0.0.0.0/0", "::/0"], "here"))


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "x.localhost"])
def test_names_of_this_machine_are_known(host: str) -> None:
    assert host_refusal(host, NOBODY) == "this machine itself"
    for allowed in (True, ["127.0.0.1"], ["::1"]):
        assert host_refusal(host, parse_allowed(allowed, "here")) == ""
    assert host_refusal("hooks.example.com", NOBODY) == ""


@pytest.mark.parametrize("given", ["10.0.0.0/8", None, 1, ["10.0.0.1/8"], ["internal"], [None]])
def test_networks_that_make_no_sense(given: object) -> None:
    with pytest.raises(ConfigError, match="here"):
        parse_allowed(given, "here")


@pytest.mark.parametrize("host", ["localhost", "Localhost.", *HERE])
def test_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "localhost.example", "127.1", "10.0.0.1", "::", "0.0.0.0"])
def test_not_this_machine(host: str) -> None:
    assert not is_loopback(host)
