"""The filter bar: chips and selects that each change one word of the filter's text. The text is the only state."""

from __future__ import annotations

import re

import msgspec

from windlass.console.replies import QueueRow
from windlass.core.filters import Filter, quoted
from windlass.core.job import State

_WORD = re.compile(r'(?:"(?:[^"\\]|\\.)*"|\\.|[^\s"\\])+', re.DOTALL)


_JOINED = re.compile(r"(?:^|\s)(?:[-(]*\(|OR(?=\s|$))")


class Chip(msgspec.Struct, frozen=True, kw_only=True):
    """A state to pick. ``filter``: the filter after the pick. ``count``: how many jobs, where that is known without a
    search.
    """

    text: str
    filter: str
    on: bool
    count: int | None = None


def with_term(text: str, name: str, value: str) -> str:
    """The filter with one name set to a value, or without the name if the value is empty.

    A filter with OR or brackets is put into brackets as it is, with the term beside it.
    """
    if _JOINED.search(text):
        whole = re.sub(rf"(?<=\)) {name}:\S+$", "", text)
        whole = whole if whole != text else f"({text})"
        return f"{whole} {name}:{quoted(value)}" if value else whole if text.startswith("(") else text
    kept = [word for word in _WORD.findall(text) if not word.lower().lstrip("-").startswith(f"{name}:")]
    return " ".join([*kept, f"{name}:{quoted(value)}"] if value else kept)


def picked(filter: Filter) -> dict[str, str]:
    """The single queue and the single task that a filter names."""
    found = {"queue": "", "task": "", "state": ""}
    for term in filter.terms:
        if term.name in found:
            found[term.name] = term.exact
    return found


def chips(text: str, filter: Filter, queues: list[QueueRow]) -> list[Chip]:
    """A chip for every state, with a count if the filter names nothing but a state and a queue."""
    chosen = picked(filter)
    rest = with_term(with_term(text, "state", ""), "queue", "")
    counted = not rest and (not any(term.name == "queue" for term in filter.terms) or bool(chosen["queue"]))
    rows = [row for row in queues if chosen["queue"] in ("", row.name)]
    named = [term for term in filter.terms if term.name == "state"]
    found = [Chip(text="All", filter=with_term(text, "state", ""), on=not named)]
    for state in State:
        count = sum(row.counts.get(state, 0) for row in rows) if counted else None
        on = any((value.text == state) is not term.negated for term in named for value in term.values)
        found.append(Chip(text=state.capitalize(), filter=with_term(text, "state", state), on=on, count=count))
    return found
