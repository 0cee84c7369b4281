"""Job ids: 20 characters that sort by the millisecond of their making. Time and randomness are arguments.

The bits are those of a UUIDv7 less two. The 36 characters of a UUID would make every index of every store half as large
again.
"""

from __future__ import annotations

import re
import string
from binascii import b2a_base64

from windlass.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@-]{0,127}")
_BASE64 = f"{string.ascii_uppercase}{string.ascii_lowercase}{string.digits}+/".encode()
# Safe in a URL, a file name and a shell, and in the order of their codes, so that ids sort like the numbers they are.
_IN_ORDER = bytes.maketrans(
    _BASE64, f"{string.digits}{string.ascii_uppercase}_{string.ascii_lowercase}~".encode()
)  # fmt: skip


def make_id(now_ms: int, random72: int) -> str:
    """The id for a millisecond and 72 random bits."""
    packed = ((now_ms & 0xFFFF_FFFF_FFFF) << 72 | random72).to_bytes(15)
    return b2a_base64(packed, newline=False).translate(_IN_ORDER).decode()


def check_name(kind: str, name: object) -> str:
    """A queue or task name that is safe as a key, a column value and a path part in every engine."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"{kind} name {name!r} is not usable: up to 128 letters, digits and . _ - : / @, starting with a letter, "
            "digit or underscore"
        )
    return str.__str__(name)


def check_id(value: object) -> str:
    """An explicit job id: printable text of up to 256 characters."""
    if not isinstance(value, str) or not value or len(value) > 256 or not value.isprintable():
        raise ConfigError(f"job id {value!r} is not usable: give 1 to 256 printable characters")
    return str.__str__(value)
