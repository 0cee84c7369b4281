"""Reads keys from a terminal, one by one and without echo, and always restores the terminal."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from windlass.cli.top.model import BACK, DOWN, ENTER, ESCAPE, LEFT, RIGHT, TAB, UP

_SEQUENCES = {
    "[A": UP, "[B": DOWN, "[C": RIGHT, "[D": LEFT, "OA": UP, "OB": DOWN, "OC": RIGHT, "OD": LEFT,
    "[5~": "pageup", "[6~": "pagedown", "[H": "home", "[F": "end", "[1~": "home", "[4~": "end", "[Z": LEFT,
}  # fmt: skip
GONE = "gone"
"""What is heard when there is no terminal any more."""

_SINGLE = {"\r": ENTER, "\n": ENTER, "\t": TAB, "\x7f": BACK, "\x08": BACK, "\x03": "q"}


def split_keys(text: str) -> list[str]:
    """The text that was typed, as keys. An escape that starts no known sequence is the escape key."""
    keys: list[str] = []
    place = 0
    while place < len(text):
        if text[place] == "\x1b":
            known = next((seq for seq in _SEQUENCES if text.startswith(seq, place + 1)), "")
            keys.append(_SEQUENCES[known] if known else ESCAPE)
            place += 1 + len(known)
        else:
            keys.append(_SINGLE.get(text[place], text[place]))
            place += 1
    return keys


@contextmanager
def reading_keys(heard: Callable[[str], None]) -> Iterator[None]:
    """Call ``heard`` with each key, on the running loop, while this lasts."""
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    loop = asyncio.get_running_loop()
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def read() -> None:
        try:
            typed = os.read(number, 1024)
        except OSError:
            typed = b""
        if not typed:  # the terminal was closed
            loop.remove_reader(number)
            heard(GONE)
        for key in split_keys(decode(typed)):
            heard(key)

    tty.setcbreak(number)
    loop.add_reader(number, read)
    try:
        yield
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)
