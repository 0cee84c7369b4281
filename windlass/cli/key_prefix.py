"""Whose jobs a store's URL means: a Redis server may keep many apps, told apart by the prefix of their keys."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl, quote

from windlass.cli.errors import CliError
from windlass.core.packages import pip_install
from windlass.core.store_url import redact_url
from windlass.errors import StoreError
from windlass.store import REDIS


def need_prefix(url: str) -> None:
    """Refuse a Redis URL that does not say which app is meant: a nameless one would be looked for in vain.

    What else is wrong with the URL is for the store to say.
    """
    options = dict(parse_qsl(url.partition("?")[2], keep_blank_values=True))
    if url.partition("://")[0] not in REDIS or "prefix" in options:
        return
    option = ("&" if options else "?") + "prefix=NAME"
    raise CliError(
        f"{redact_url(url)} does not say which app is meant, and a Redis server may keep several: add {option} to it, "
        f"where NAME is the app's name, or give the app itself, such as shop:app\n{_found_there(url)}"
    )


def _found_there(url: str) -> str:
    """The apps that have keys on the server, as text."""
    try:
        from windlass.store.redis.apps import find_prefixes

        prefixes, whole = asyncio.run(find_prefixes(url))
    except ImportError as error:
        return f"The apps there cannot be listed without the Redis extra: {pip_install('redis')} ({error})"
    except StoreError as error:
        return f"The apps there cannot be listed: {error}"
    if not prefixes:
        return "No app has jobs there." if whole else "No app was found in the time for looking."
    names = ", ".join(f"prefix={quote(prefix, safe=':/')}" for prefix in prefixes)
    return f"Found there: {names}" + ("" if whole else ", and perhaps more")
