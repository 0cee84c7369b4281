"""Where the app's keys are: the URL of a Redis or Valkey server, of Sentinels or of a Cluster, and its options.

It only reads text; nobody is asked and nothing is opened. No message made here may show a password, not even that of
a URL that cannot be read: hence it echoes only what cannot be part of one.
"""

from __future__ import annotations

import binascii
import contextlib
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from windlass.core.duration import to_ms
from windlass.core.hints import did_you_mean
from windlass.errors import ConfigError

Kind = Literal["single", "sentinel", "cluster"]

KINDS: dict[str, Kind] = {
    "redis": "single",
    "rediss": "single",
    "unix": "single",
    "redis+sentinel": "sentinel",
    "rediss+sentinel": "sentinel",
    "redis+cluster": "cluster",
    "rediss+cluster": "cluster",
}
FORMS: dict[Kind, str] = {
    "single": "redis://user:password@host:6379/0 or unix:///path/to.sock?db=0",
    "sentinel": "redis+sentinel://user:password@host:26379,host:26379/name-of-the-master/0",
    "cluster": "redis+cluster://user:password@host:7000,host:7001",
}
PORTS: dict[Kind, int] = {"single": 6379, "sentinel": 26379, "cluster": 6379}

TLS_OPTIONS = ("tls_ca", "tls_cert", "tls_key", "tls_check_hostname")
SENTINEL_OPTIONS = ("sentinel_user", "sentinel_password")
TIME_OPTIONS = ("timeout", "connect_timeout", "keepalive", "wait_timeout")
OPTIONS = ("prefix", "db", "wait_replicas", *TIME_OPTIONS, *TLS_OPTIONS, *SENTINEL_OPTIONS)

TRUTH = {"true": True, "yes": True, "1": True, "on": True, "false": False, "no": False, "0": False, "off": False}
PREFIX_MAX = 64
TIMEOUT, WAIT_TIMEOUT = 5.0, 1.0
SLOTS = 16_384


class Address(NamedTuple):
    """A server: a host and a port, or the path of a Unix socket."""

    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Tls(msgspec.Struct, frozen=True):
    """How to check the server's certificate and which one to show; empty paths mean the system's and none."""

    ca: str = ""
    cert: str = ""
    key: str = ""
    check_hostname: bool = True


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed URL. Times are in seconds. ``nodes`` are the server, the sentinels, or the seeds of a cluster."""

    kind: Kind
    nodes: tuple[Address, ...]
    prefix: str
    user: str = ""
    password: str = ""
    db: int = 0
    master: str = ""
    sentinel_user: str = ""
    sentinel_password: str = ""
    tls: Tls | None = None
    timeout: float = TIMEOUT
    connect_timeout: float = 3.0
    keepalive: float = 5.0
    wait_replicas: int = 0
    wait_timeout: float = WAIT_TIMEOUT

    @property
    def tag(self) -> str:
        """What every key and channel of the app begins with: one hash tag, hence one slot of a cluster."""
        return "{" + self.prefix + "}:"

    @property
    def slot(self) -> int:
        """The cluster slot of every key of the app."""
        return binascii.crc_hqx(self.prefix.encode(), 0) % SLOTS

    @property
    def shown(self) -> str:
        """The location for messages and logs, without password or options."""
        scheme = "rediss" if self.tls else "redis"
        user = f"{self.user}@" if self.user else ""
        where = ",".join(map(str, self.nodes))
        if self.kind == "cluster":
            return f"{scheme}+cluster://{user}{where}"
        if self.kind == "sentinel":
            return f"{scheme}+sentinel://{user}{where}/{self.master}/{self.db}"
        return f"unix://{user}{where}?db={self.db}" if self.nodes[0].path else f"{scheme}://{user}{where}/{self.db}"

    def __repr__(self) -> str:
        """For tracebacks and debuggers: the fields would show the passwords."""
        return f"Location({self.shown}, prefix={self.prefix!r})"


def parse_url(url: str, name: str) -> Location:
    """Read a Redis URL; ``name`` is the app's, the prefix of its keys unless the URL gives another.

    Options: ``prefix``, ``timeout`` (of one call, 5 s), ``connect_timeout`` (3 s), ``keepalive`` (silence after which a
    listening connection is probed, 5 s), ``wait_replicas`` and ``wait_timeout`` (how many replicas must have an
    accepted job before it counts as accepted, and for how long to wait for them), ``tls_ca``, ``tls_cert``,
    ``tls_key``, ``tls_check_hostname``, ``sentinel_user``, ``sentinel_password``.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in KINDS:
        known = ", ".join(f"{known}://" for known in KINDS)
        raise ConfigError(f"not a Redis URL{did_you_mean(scheme, KINDS)}; it begins with one of {known}")
    kind = KINDS[scheme]
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    if "#" in url or ("@" in path and scheme != "unix"):
        raise ConfigError(f"in a {scheme}:// URL write / ? # and @ of a user or password as %2F %3F %23 and %40")
    options = _options(query, scheme)
    credentials, _, hosts = authority.rpartition("@")
    user, _, password = credentials.partition(":")
    steps = [unquote(step) for step in path.split("/") if step] if scheme != "unix" else []
    return Location(
        kind=kind,
        nodes=_nodes(kind, scheme, hosts, path),
        prefix=_prefix(options.get("prefix"), name),
        user=unquote(user),
        password=unquote(password),
        master=_master(kind, steps),
        db=_db(kind, steps, options),
        tls=_tls(options) if scheme.startswith("rediss") else None,
        sentinel_user=options.get("sentinel_user", ""),
        sentinel_password=options.get("sentinel_password", ""),
        wait_replicas=_whole("wait_replicas", options.get("wait_replicas", "0"), 100),
        **_times(options),
    )


def _options(query: str, scheme: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in OPTIONS:
            if not name.isidentifier():
                raise ConfigError(
                    f"what follows the ? of a {scheme}:// URL is no option at all; write a ? of a password as %3F"
                )
            raise ConfigError(f"unknown option {name!r} in a {scheme}:// URL{did_you_mean(name, OPTIONS)}")
        if name in options:
            raise ConfigError(f"option {name!r} is given twice in a {scheme}:// URL")
        if not value:
            raise ConfigError(f"option {name!r} is empty in a {scheme}:// URL; leave it out or give it a value")
        if name in TLS_OPTIONS and not scheme.startswith("rediss"):
            raise ConfigError(_needs_tls(name, scheme))
        if name in SENTINEL_OPTIONS and not scheme.endswith("+sentinel"):
            raise ConfigError(f"option {name!r} is for redis+sentinel:// URLs only")
        options[name] = value
    return options


def _needs_tls(name: str, scheme: str) -> str:
    secure = scheme.replace("redis", "rediss", 1)
    hint = f"; write {secure}:// for TLS" if secure != scheme else ""
    return f"option {name!r} has no meaning in a {scheme}:// URL, which is not encrypted{hint}"


def _nodes(kind: Kind, scheme: str, hosts: str, path: str) -> tuple[Address, ...]:
    if scheme == "unix":
        if hosts or not path:
            raise ConfigError(f"a unix:// URL has three slashes and no host: write {FORMS['single']}")
        return (Address("", 0, "/" + unquote(path)),)
    parts = hosts.split(",") if kind != "single" else [hosts or "localhost"]
    return tuple(_address(part, kind) for part in parts)


def _address(text: str, kind: Kind) -> Address:
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        good = bool(bracket) and (not port or port.startswith(":"))
        port = port[1:]
    else:
        host, _, port = text.partition(":")
        good = ":" not in port
    number = int(port) if port.isascii() and port.isdigit() else (0 if port else PORTS[kind])
    if not good or not host or not 0 < number < 65_536:
        raise ConfigError(f"cannot read the host and port of a Redis URL: write {FORMS[kind]} (IPv6 as [::1]:6379)")
    return Address(unquote(host), number)


def _master(kind: Kind, steps: list[str]) -> str:
    if kind != "sentinel":
        return ""
    if not steps:
        raise ConfigError(f"the URL does not name the master the sentinels watch: write {FORMS['sentinel']}")
    return steps.pop(0)


def _db(kind: Kind, steps: list[str], options: Mapping[str, str]) -> int:
    if len(steps) > 1:
        raise ConfigError(f"the path of a Redis URL has too many parts: write {FORMS[kind]}")
    given = [*steps, *([options["db"]] if "db" in options else [])]
    if len(set(given)) > 1:
        raise ConfigError("a Redis URL names two databases, one in its path and one as option 'db'; give one")
    if given and not given[0].isdigit():
        hint = "the path of a Redis URL is the number of a database; an app's name is given as ?prefix=…"
        raise ConfigError(f"db is {given[0]!r}, but {hint}")
    db = _whole("db", given[0], 1_000_000) if given else 0
    if db and kind == "cluster":
        raise ConfigError(f"db is {db}, but a cluster has only database 0; tell apps apart by option 'prefix'")
    return db


def _prefix(given: str | None, name: str) -> str:
    prefix = name if given is None else given
    bad = not prefix or len(prefix) > PREFIX_MAX or not prefix.isprintable() or set(prefix) & set("{} ")
    if bad or any(map(str.isspace, prefix)):
        hint = "" if given is not None else ", which is the app's name; give another as ?prefix=… in the URL"
        raise ConfigError(
            f"prefix is {prefix!r}{hint}; it must have 1 to {PREFIX_MAX} characters, no blanks, braces or control "
            "characters, since every key of the app begins with it"
        )
    return prefix


def _tls(options: Mapping[str, str]) -> Tls:
    text = options.get("tls_check_hostname", "true")
    check = TRUTH.get(text.lower())
    if check is None:
        raise ConfigError(f"tls_check_hostname is {text!r}; give true or false")
    if "tls_key" in options and "tls_cert" not in options:
        raise ConfigError("tls_key is given without tls_cert; give the certificate it belongs to")
    return Tls(options.get("tls_ca", ""), options.get("tls_cert", ""), options.get("tls_key", ""), check)


def _whole(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > most:
        raise ConfigError(f"{name} is {text!r} in a Redis URL; give a whole number from 0 to {most}")
    return int(text)


def _times(options: Mapping[str, str]) -> dict[str, float]:
    times = {name: _seconds(name, options[name]) for name in TIME_OPTIONS if name in options}
    timeout, wait = times.get("timeout", TIMEOUT), times.get("wait_timeout", WAIT_TIMEOUT)
    if wait >= timeout and "wait_replicas" in options:
        # The replies to later calls come behind that of WAIT: it would take the connection down with it.
        raise ConfigError(f"wait_timeout ({wait:g} s) must be shorter than timeout ({timeout:g} s)")
    return times


def _seconds(name: str, text: str) -> float:
    value: float | str = text
    with contextlib.suppress(ValueError):  # "250ms"
        value = float(text)
    seconds = to_ms(value, name) / 1000
    if not 0 < seconds < 86_400:
        raise ConfigError(f"{name} is {text!r} in a Redis URL; give more than 0 and less than a day")
    return seconds
