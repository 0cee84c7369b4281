"""Job ids: UUIDv7 as text, sortable by the millisecond they were made in. Time and randomness are arguments."""

from __future__ import annotations

import re

from windlass.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@-]{0,127}")
_VERSION_BITS = 0x7 << 76
_VARIANT_BITS = 0x2 << 62


def uuid7(now_ms: int, random74: int) -> str:
    """The UUIDv7 of a millisecond and 74 random bits."""
    value = (
        (now_ms & 0xFFFF_FFFF_FFFF) << 80
        | _VERSION_BITS
        | (random74 >> 62 & 0xFFF) << 64
        | _VARIANT_BITS
        | random74 & 0x3FFF_FFFF_FFFF_FFFF
    )
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def check_name(kind: str, name: object) -> str:
    """A queue or task name that is safe as a key, a column value and a path part in every engine."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"{kind} name {name!r} is not usable: up to 128 letters, digits and . _ - : / @, starting with a letter, "
            "digit or underscore"
        )
    return name


def check_id(value: object) -> str:
    """An explicit job id: printable text of up to 256 characters."""
    if not isinstance(value, str) or not value or len(value) > 256 or not value.isprintable():
        raise ConfigError(f"job id {value!r} is not usable: give 1 to 256 printable characters")
    return value
