"""Whose a network address is: this machine's, a private network's, a cloud's credential service's, or the public
internet's.

Pure: names are resolved elsewhere, and every address they resolve to is judged here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import msgspec

from windlass.errors import ConfigError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(map(ip_network, texts))


LOOPBACK = _networks("127.0.0.0/8", "::1/128")
PRIVATE = _networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
METADATA = _networks(
    "169.254.169.254", "169.254.170.2", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192",
    "168.63.129.16",
)  # fmt: skip
"""Where clouds hand out a machine's credentials. Some of these lie in networks of one's own, and one is public."""
PUBLIC_6 = ip_network("2000::/3")
"""All of IPv6 that was ever given out; what is outside is for some special purpose."""
SPECIAL = _networks(
    "0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
    "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "3fff::/20",
)  # fmt: skip
"""Not to be reached over the public internet, by the registries of special addresses. Not left to ``ipaddress``: what
it says differs between versions of Python.
"""
CARRIERS = (
    (ip_network("::ffff:0:0/96"), 0), (ip_network("::/96"), 0), (ip_network("64:ff9b::/96"), 0),
    (ip_network("2002::/16"), 80),
)  # fmt: skip
"""IPv6 networks whose addresses mean an IPv4 address (mapped, compatible, NAT64, 6to4), and how many bits follow it."""

_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.IGNORECASE)


class Allowed(msgspec.Struct, frozen=True):
    """The addresses allowed besides the public internet. ``private``: this machine and private networks."""

    private: bool = False
    networks: tuple[Network, ...] = ()


def parse_allowed(given: object, where: str) -> Allowed:
    """Read the option: ``True``, ``False`` or a list of networks such as ``["10.1.0.0/16"]``."""
    if isinstance(given, bool):
        return Allowed(private=given)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"{where} is {given!r}; give True, False or a list of networks such as ['10.1.0.0/16']")
    try:
        return Allowed(networks=tuple(ip_network(each) for each in given))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}; give networks such as '10.1.0.0/16' or '10.1.2.3'") from None


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return _within(meant(ip_address(host)), LOOPBACK)
    except ValueError:
        return False


def meant(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv6Address) and int(address) > 1:  # not :: and ::1
        for network, shift in CARRIERS:
            if address in network:
                return IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return address


def refusal(text: str, allowed: Allowed) -> str:
    """The reason why this address may not be reached; empty where it may."""
    written = ip_address(text.partition("%")[0])
    address = meant(written)
    if _within(written, allowed.networks) or _within(address, allowed.networks):
        return ""
    if _within(address, METADATA):
        return "where a cloud keeps the keys of its machines"
    if _within(address, LOOPBACK):
        return "" if allowed.private else "this machine itself"
    if _within(address, PRIVATE):
        return "" if allowed.private else "in a private network"
    if _within(address, SPECIAL) or (isinstance(address, IPv6Address) and address not in PUBLIC_6):
        return "not on the public internet"
    return ""


def host_refusal(host: str, allowed: Allowed) -> str:
    """The reason why a URL's host may not be reached, as far as the text tells; empty where it may.

    A host that is an unusual number is always refused: resolvers read ``0x7f.1`` and ``2130706433`` as 127.0.0.1, but
    not all of them do.
    """
    if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]) or ":" in host:
        try:
            return refusal(host, allowed)
        except ValueError:
            return "no ordinary way to write an address: write it like 203.0.113.7"
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return refusal("127.0.0.1", allowed) and refusal("::1", allowed)
    return ""


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)
