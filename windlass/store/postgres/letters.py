"""What is sent to who listens, as text for NOTIFY: names, and the news for each."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec

from windlass.core.job import Finished

LETTER_MAX = 7_900
"""A notice of PostgreSQL is less than 8,000 bytes. A longer letter is sent in parts."""
PART_MAX = 1_900
"""So many characters of a part, each of which may be four bytes."""
WHOLE_MAX = 60_000
"""News beyond this is cut into several letters."""
PART = "\x02"
"""A part begins with this, and says of which letter it is, how many parts that has, and which one this is."""

News = tuple[str, list[Finished]]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[News]).decode


def pack(news: Sequence[News]) -> list[str]:
    """Notices of bounded size, to be sent in this order."""
    whole = _encode(news)
    if len(whole) <= LETTER_MAX:
        return [whole.decode()]
    if len(whole) > WHOLE_MAX and (cut := _halves(news)):
        return pack(cut[0]) + pack(cut[1])
    text, number = whole.decode(), secrets.token_hex(6)
    size = LETTER_MAX - 50 if text.isascii() else PART_MAX
    parts = [text[i : i + size] for i in range(0, len(text), size)]
    return [f"{PART}{number} {len(parts)} {i} {part}" for i, part in enumerate(parts)]


def _halves(news: Sequence[News]) -> tuple[Sequence[News], Sequence[News]] | None:
    if len(news) > 1:
        half = len(news) // 2
        return news[:half], news[half:]
    ((name, items),) = news
    half = len(items) // 2
    return ([(name, items[:half])], [(name, items[half:])]) if half else None


class Parts:
    """Parts of letters that have come, until they are whole."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def whole(self, notice: str) -> str:
        """The letter that a notice is, or completes; empty while parts are missing."""
        if notice[:1] != PART:
            return notice
        number, many, _, text = notice[1:].split(" ", 3)
        found = self._found.setdefault(number, [])
        found.append(text)
        if len(found) < int(many):
            return ""
        return "".join(self._found.pop(number))


def unpack(letter: str) -> list[News]:
    """What was packed; nothing of what is not ours."""
    try:
        return _decode(letter)
    except msgspec.MsgspecError:
        return []
