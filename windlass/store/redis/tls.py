"""The TLS settings of a location, as Python's ``ssl`` wants them. The server's certificate is always checked."""

from __future__ import annotations

import ssl

from windlass.errors import ConfigError
from windlass.store.redis.location import Tls


def client_context(tls: Tls) -> ssl.SSLContext:
    """Reads the files named in the URL, and says which one cannot be read."""
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"tls_ca is {tls.ca!r}, which cannot be read as certificates: {error}") from error
    try:
        if tls.cert:
            context.load_cert_chain(tls.cert, tls.key or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"tls_cert and tls_key ({tls.cert!r}, {tls.key!r}) cannot be used: {error}") from error
    context.check_hostname = tls.check_hostname
    return context
