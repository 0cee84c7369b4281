"""Store URLs as people may see them: without the password."""

from __future__ import annotations

import re

_SECRET_OPTION = re.compile(r"([?&]\w*password=)[^&]*")


def redact_url(url: str) -> str:
    """A store's URL without its passwords, to be shown.

    The URL may be one that cannot be parsed, with a ``/``, ``?`` or ``#`` in its password. So everything before the
    last ``@`` is treated as secret, and rather too much is hidden.
    """
    scheme, mark, rest = url.partition("://")
    before, at, behind = rest.rpartition("@")
    user, colon, _ = before.partition(":")
    if mark and at and colon and not rest.startswith("/"):
        rest = f"{user}:***@{behind}"
    return _SECRET_OPTION.sub(r"\1***", f"{scheme}{mark}{rest}")
