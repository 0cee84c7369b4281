"""Where user code's words enter Windlass: what user code raises, says or names becomes plain data here first.

A message may contain half a character, an exception may raise when its text is read, a number may be one that JSON does
not know. Text that only informs people is repaired (``text``, ``kind``; these two never raise). Text with a meaning for
code is refused, with its place (``plain``, ``place_of_bad``): repaired it would be wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

MAX_REASON = 1_000
MAX_KIND = 256
MAX_LINE = 4_000
MAX_LEVEL = 32

_not_finite = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]").search
_pack = msgspec.msgpack.Encoder


def text(value: object, limit: int, *, keep_end: bool = False) -> str:
    """``value`` as text that every store can keep, of at most ``limit`` characters. Never raises.

    Bytes that are no character are written the way Python shows them: ``\\udcff`` for a byte that could not be decoded.
    """
    try:
        said = value if type(value) is str else str(value)
        if not (type(said) is str and said.isascii() and "\0" not in said):
            said = _repaired(said)
    except BaseException as error:  # also SystemExit: reading a text must not end the reader
        return f"<no message: str() of {kind(value)} raised {kind(error)}>"
    if len(said) <= limit:
        return said
    return "[…]\n" + said[-limit:] if keep_end else said[: limit - 1] + "…"


def _repaired(said: str) -> str:
    # These are str's own methods, as a subclass may override them.
    return str.encode(said, "utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def kind(value: object) -> str:
    """The name of an object's type, with its module unless that is builtins. Never raises."""
    try:
        of = type(value)
        module, name = of.__module__, of.__qualname__
        return text(name if module == "builtins" else f"{module}.{name}", MAX_KIND)
    except BaseException:
        return "<a type without a name>"


def plain(value: str, what: str, error: type[Exception]) -> str:
    """A text with a meaning, as a plain ``str``; ``error`` is raised, with the place, for one that cannot be kept."""
    said = str.__str__(value)
    if said.isascii():
        return said
    try:
        said.encode()
    except UnicodeEncodeError as bad:
        raise error(
            f"{what} is {said[:80]!a}: character {bad.start} is half of a character, as undecodable file names have "
            "them; encode it yourself, for example with os.fsencode() and base64"
        ) from None
    return said


# -- numbers


def bad_number(value: Any, hook: Any) -> str:
    """Where a value has a number that JSON turned into null, as ``place_of_bad``. Fast where all is well: no item is
    visited.
    """
    try:
        if _not_finite(_pack(enc_hook=hook).encode(value)) is None:
            return ""
    except OverflowError:  # a whole number beyond 64 bits, which JSON can hold
        pass
    return place_of_bad(value, hook)


def place_of_bad(value: Any, hook: Any) -> str:
    """Where in a value there is something that JSON cannot carry, and what: ``"['prices'][3] is nan"``; else ""."""
    return next(_bad_parts(msgspec.to_builtins(value, enc_hook=hook, builtin_types=(bytes,)), ""), "")


def _bad_parts(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, float):
        if not math.isfinite(value):
            yield f"{where or 'it'} is {value!r}"
    elif isinstance(value, str):
        if not value.isascii() and _has_half(value):
            yield f"{where or 'it'} is {value[:80]!a}, with half of a character"
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str) and _has_half(key):
                yield f"{where or 'it'} has the key {key[:80]!a}, with half of a character"
            yield from _bad_parts(item, f"{where}[{key!r}]")
    elif isinstance(value, (list, tuple, set, frozenset)):
        for number, item in enumerate(value):
            yield from _bad_parts(item, f"{where}[{number}]")


def _has_half(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False
