"""What ``windlass top`` shows and does, without a terminal: the tabs, the cursor, and what each key means.

Pure: a key makes a new state and at most one order for the code that talks to the store.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

TABS = ("queues", "jobs", "workers", "dead", "schedules", "workflows")

ACTIONS: dict[str, dict[str, str]] = {
    "queues": {"p": "pause or resume"},
    "jobs": {"r": "retry", "c": "cancel", "d": "delete", "P": "promote"},
    "workers": {},
    "dead": {"r": "retry all of this fault", "d": "delete all of this fault"},
    "schedules": {"p": "pause or resume", "R": "run now"},
    "workflows": {"r": "retry", "c": "cancel"},
}
"""What can be done in each tab, by key."""

ASKED_FIRST = frozenset({"d", "c"})
"""Keys whose action is asked about before it is done: it cannot be taken back."""

UP, DOWN, LEFT, RIGHT, ENTER, ESCAPE, BACK, TAB = "up", "down", "left", "right", "enter", "escape", "backspace", "tab"


class Row(msgspec.Struct, frozen=True):
    """A line of a table. ``filter``: the jobs it leads to."""

    key: str
    cells: tuple[str, ...]
    style: str = ""
    filter: str = ""
    paused: bool = False


class KeyOrder(msgspec.Struct, frozen=True):
    """What a key asks for: an action of a tab on rows, ``open`` to look at a job, or ``quit``.

    ``paused``: which of the rows were paused, as the user saw them.
    """

    action: str
    tab: str = ""
    keys: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()


class State(msgspec.Struct, kw_only=True):
    """What the user looks at. ``typing``: the filter being typed, None while none is. ``detail``: the job shown in
    full, scrolled down by ``scroll`` lines.
    """

    tab: str = "queues"
    cursor: int = 0
    chosen: frozenset[str] = frozenset()
    filter: str = ""
    typing: str | None = None
    asking: KeyOrder | None = None
    detail: str = ""
    scroll: int = 0
    help: bool = False
    still: bool = False
    said: str = ""


def press(state: State, key: str, rows: Sequence[Row]) -> KeyOrder | None:
    """Change the state for a key. Answers the order that the key gives, if any."""
    if state.typing is not None:
        _type(state, key)
        return None
    if state.asking is not None:
        return _answer(state, key)
    state.said = ""
    if state.help:
        state.help = False
        return None
    if state.detail:
        return _in_detail(state, key)
    if key in _MOVES:
        state.cursor = max(0, min(state.cursor + _MOVES[key], len(rows) - 1))
        return None
    if key in ACTIONS[state.tab]:
        return _act(state, key, rows)
    return _general(state, key, rows)


_MOVES = {UP: -1, "k": -1, DOWN: 1, "j": 1, "pageup": -20, "pagedown": 20, "home": -1_000_000, "end": 1_000_000}


def _general(state: State, key: str, rows: Sequence[Row]) -> KeyOrder | None:
    here = rows[state.cursor] if state.cursor < len(rows) else None
    if key == "q":
        return KeyOrder("quit")
    if key in (TAB, RIGHT, LEFT) or (key.isdigit() and 1 <= int(key) <= len(TABS)):
        _switch(state, _next_tab(state.tab, key))
    elif key == "/":
        state.tab, state.typing = "jobs", state.filter
    elif key == "?":
        state.help = True
    elif key == " ":
        state.still = not state.still
    elif key == "x" and here is not None:
        state.chosen = state.chosen ^ {here.key}
        state.cursor = min(state.cursor + 1, len(rows) - 1)
    elif key == ESCAPE:
        state.chosen, state.filter = frozenset(), ""
    elif key == ENTER and here is not None:
        return _enter(state, here)
    return None


def _next_tab(tab: str, key: str) -> str:
    if key.isdigit():
        return TABS[int(key) - 1]
    return TABS[(TABS.index(tab) + (-1 if key == LEFT else 1)) % len(TABS)]


def _switch(state: State, tab: str) -> None:
    state.tab, state.cursor, state.chosen = tab, 0, frozenset()


def _enter(state: State, here: Row) -> KeyOrder | None:
    if here.filter:
        _switch(state, "jobs")
        state.filter = here.filter
        return None
    if state.tab != "jobs":
        return None
    state.scroll = 0
    return KeyOrder("open", state.tab, (here.key,))


def _act(state: State, key: str, rows: Sequence[Row]) -> KeyOrder | None:
    chosen = [row.key for row in rows if row.key in state.chosen]
    keys = chosen or [row.key for row in rows[state.cursor : state.cursor + 1]]
    if not keys:
        return None
    paused = tuple(row.key for row in rows if row.paused and row.key in keys)
    return _ask(state, KeyOrder(key, state.tab, tuple(keys), paused))


def _ask(state: State, order: KeyOrder) -> KeyOrder | None:
    if order.action in ASKED_FIRST:
        state.asking = order
        return None
    return order


def _answer(state: State, key: str) -> KeyOrder | None:
    order, state.asking = state.asking, None
    if key in ("y", "Y"):
        return order
    state.said = "left alone"
    return None


def _in_detail(state: State, key: str) -> KeyOrder | None:
    """The table's actions, for the one job shown in full."""
    if key in (ESCAPE, ENTER, LEFT, BACK, "q"):
        state.detail = ""
    elif key == "?":
        state.help = True
    elif key in _MOVES:
        state.scroll = max(0, state.scroll + _MOVES[key])
    elif key in ACTIONS["jobs"]:
        return _ask(state, KeyOrder(key, "jobs", (state.detail,)))
    return None


def _type(state: State, key: str) -> None:
    text = state.typing or ""
    if key == ENTER:
        state.filter, state.typing, state.cursor = text.strip(), None, 0
    elif key == ESCAPE:
        state.typing = None
    elif key == BACK:
        state.typing = text[:-1]
    elif len(key) == 1:
        state.typing = text + key


def question(order: KeyOrder) -> str:
    """The question asked before an action that cannot be undone."""
    what = ACTIONS[order.tab][order.action]
    which = order.keys[0] if len(order.keys) == 1 else f"{len(order.keys)} of them"
    return f"{what} {which}? y/n"
