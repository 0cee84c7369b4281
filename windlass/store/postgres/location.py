"""Where the app's tables are: the URL of a PostgreSQL server, and its options. Nothing is opened here."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from windlass.core.hints import did_you_mean
from windlass.core.store_url import redact_url
from windlass.errors import ConfigError

FORM = "postgresql://user:password@host:5432/database?schema=name"
OPTIONS = ("schema", "listen", "timeout", "connect_timeout")
NAME_MAX = 50
"""Longer names of schemas leave no room for those of the functions, which end in a hash."""
SECONDS = re.compile(r"\d{1,5}(\.\d+)?")


class Location(NamedTuple):
    """A parsed URL. ``server``: what libpq is told. ``listen``: the same for the connection that listens, which must
    not go through a pooler; empty where nobody listens and everybody polls. ``timeout``: seconds a call may take."""

    url: str
    server: dict[str, str]
    listen: dict[str, str]
    schema: str
    timeout: float

    @property
    def shown(self) -> str:
        return f"{redact_url(self.url.partition('?')[0])} (schema {self.schema})"


def parse_url(url: str, app: str) -> Location:
    """``postgresql://user:password@host/database``, with what libpq knows and these options besides:

    ``schema``: where the app's tables are, ``windlass_APP`` unless given. ``listen``: the address of the server itself
    where the URL's is a pooler's, or ``poll``. ``timeout``: how many seconds a call may take.
    """
    address, _, query = url.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    own = {name: options.pop(name) for name in OPTIONS if name in options and name != "connect_timeout"}
    server = _libpq(f"{address}?{urlencode(options)}" if options else address, url)
    listen = own.get("listen", "")
    schema = own.get("schema") or schema_of(app)
    if len(schema) > NAME_MAX:
        raise ConfigError(f"the schema's name {schema!r} in {redact_url(url)!r} is longer than {NAME_MAX} characters")
    timeout = own.get("timeout", "10")
    if not SECONDS.fullmatch(timeout) or float(timeout) <= 0:
        raise ConfigError(f"timeout is {timeout!r} in {redact_url(url)!r}: give seconds, more than 0")
    heard = {} if listen == "poll" else _libpq(listen, url) if listen else server
    return Location(url, server, heard, schema, float(timeout))


def _libpq(address: str, url: str) -> dict[str, str]:
    try:
        found = conninfo_to_dict(address)
    except ProgrammingError as error:
        wrong = re.search(r'query parameter: "([^"]*)"', str(error))
        hint = did_you_mean(wrong[1], OPTIONS) if wrong else ""
        raise ConfigError(
            f"{redact_url(url)!r} is no PostgreSQL URL: {str(error).strip()}{hint}; write {FORM}"
        ) from error
    return {name: str(value) for name, value in found.items() if value is not None}


def schema_of(app: str) -> str:
    """The schema of an app that says nothing of one."""
    return f"windlass_{re.sub('[^a-z0-9_]', '_', app.lower())}"[:NAME_MAX]


def quoted(name: str) -> str:
    """A name as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'
