"""The filter language: one line of text that says which jobs, as it stands in an address bar.

``state:failed,running -tag:vip args.n:>10 (task:mail.* OR age:>1h) timeout``: all parts must hold; a comma and ``OR``
mean or, ``-`` means not, brackets group; a word without a name is searched for in arguments, errors and task names.
Pure: time is an argument. ``filter_matching`` applies a filter to a record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from urllib.parse import unquote

import msgspec

from windlass.core.duration import to_ms
from windlass.core.hints import did_you_mean
from windlass.core.job import State
from windlass.errors import ConfigError

LONGEST = 2_000
"""Characters of a filter."""

DEEPEST = 20
"""Brackets in brackets."""

NAMES = {
    "state": "waiting, scheduled, ready, running, succeeded, failed, cancelled or skipped",
    "queue": "the queue",
    "task": "the task's name",
    "key": "the key of its lane",
    "tag": "one of its tags",
    "worker": "the worker that runs it, or ran it last: its id, the beginning of one, or HOST:PID",
    "workflow": "the id of its workflow",
    "schedule": "the schedule that made it",
    "id": "its id",
    "fingerprint": "the fault, as dead letters are grouped by it",
    "error": "part of the type or message of its error",
    "attempts": "how many of its attempts failed: 3, >=3 or 1..3",
    "crashes": "how often its process died: the same",
    "priority": "its priority: the same",
    "age": "since it was accepted: >1h, <=5m or 1h..2h",
    "duration": "for how long it has run, or ran the last time: the same",
    "since": "accepted at or after: 1h (ago), or 2026-11-01T10:00 (UTC unless it says otherwise)",
    "until": "accepted before: the same",
    "args": "an argument, as in args.user.id:7 or args.amount:>10",
}
"""What a filter can ask, with what it means."""

COUNTS = ("attempts", "crashes", "priority")
TIMES = ("age", "duration")
INSTANTS = ("since", "until")
COMPARED = ("args", *COUNTS, *TIMES)
"""Names whose values have an order."""

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_WORD = re.compile(r'(?:"(?:[^"\\]|\\.)*"|\\.|[^\s"\\])+', re.DOTALL)
_WORD_IN_BRACKETS = re.compile(r'(?:"(?:[^"\\]|\\.)*"|\\.|[^\s"\\)])+', re.DOTALL)
_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"|((?:\\.|[^",\\])+)', re.DOTALL)
_NAME = re.compile(r"([A-Za-z_]+)((?:\.[^\s:.\"\\]+)*):")
_UNNAMED = re.compile(r"([A-Za-z_]+)(?:\.[^\s:=<>\"\\]+)?(>=|<=|!=|==?|>|<)(.*)", re.DOTALL)
_COMPARED = re.compile(r"(>=|<=|>|<)(.*)", re.DOTALL)
_PAGE = re.compile(r"https?://\S+/(jobs|workflows)/([^/?#\s]+)(?:[?#]\S*)?")


class FilterError(ConfigError):
    """A filter that cannot be read. ``column``: where the fault is, from 1; ``width``: how many characters."""

    def __init__(self, why: str, text: str = "", start: int = 0, width: int = 1) -> None:
        super().__init__(f"filter: {why}" + (f" (column {start + 1})" if text else ""))
        self.column, self.width, self._text = start + 1, max(width, 1), text

    @property
    def shown(self) -> str:
        """The filter with a mark below the faulty place; empty where there is none."""
        if not self._text:
            return ""
        line = "".join(" " if char.isspace() else char for char in self._text)
        return f"{line}\n{' ' * (self.column - 1)}{'^' * min(self.width, len(line) - self.column + 2)}"


class Span(msgspec.Struct, frozen=True):
    """A range of numbers or texts. None: no bound on that side. ``open_low``, ``open_high``: the bound itself is
    excluded.
    """

    low: float | str | None = None
    high: float | str | None = None
    open_low: bool = False
    open_high: bool = False


class Wanted(msgspec.Struct, frozen=True):
    """One value asked for. ``glob``: ``*`` and ``?`` are wildcards, never inside quotes. ``span``: any value in the
    range.
    """

    text: str
    glob: bool = False
    span: Span | None = None


class Term(msgspec.Struct, frozen=True):
    """A name with the values it may have, any of them. The name ``text`` stands for bare words, ``ident`` for bare
    words that can only be ids; ``path`` is the path below ``args``. ``negated``: none of the values.
    """

    name: str
    values: tuple[Wanted, ...]
    path: tuple[str, ...] = ()
    negated: bool = False

    @property
    def exact(self) -> str:
        """The one value the term asks for; empty for a term of another form."""
        if self.negated or len(self.values) != 1 or self.values[0].glob or self.values[0].span is not None:
            return ""
        return self.values[0].text


class Either(msgspec.Struct, frozen=True):
    """Brackets, or parts joined by OR: all parts of one of the branches must hold. ``negated``: no branch may hold."""

    branches: tuple[tuple[Term | Either, ...], ...]
    negated: bool = False


Part = Term | Either


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Every part must hold. ``since`` and ``until`` are instants of acceptance, 0 for no bound."""

    text: str = ""
    parts: tuple[Part, ...] = ()
    since: int = 0
    until: int = 0

    @property
    def terms(self) -> tuple[Term, ...]:
        """The single terms that must hold."""
        return tuple(part for part in self.parts if isinstance(part, Term))

    @property
    def leaves(self) -> Iterator[Term]:
        """Every term of the filter, at any depth."""
        return _leaves(self.parts)


def _leaves(parts: Sequence[Part]) -> Iterator[Term]:
    for part in parts:
        if isinstance(part, Term):
            yield part
        else:
            for branch in part.branches:
                yield from _leaves(branch)


def parse_filter(text: str, now: int) -> Filter:
    """Read a filter. A FilterError says which word is wrong, and where."""
    if len(text) > LONGEST:
        raise FilterError(f"it is a text of at most {LONGEST:,} characters")
    times = {"since": 0, "until": 0}
    kept: list[Part] = []
    for part in _Reader(text, now).read():
        if isinstance(part, Term) and not part.negated and (bounds := _instants(part, now)):
            for name, instant in bounds:
                pick = max if name == "since" else min
                times[name] = pick(times[name], instant) if times[name] else instant
        else:
            kept.append(part)
    return Filter(text=text.strip(), parts=tuple(kept), since=times["since"], until=times["until"])


def _instants(term: Term, now: int) -> list[tuple[str, int]]:
    """The instants of acceptance a term asks for, which an index answers; empty for any other term."""
    if term.name in INSTANTS:
        return [(term.name, int(term.values[0].text))]
    span = term.values[0].span if term.name == "age" and len(term.values) == 1 else None
    if span is None:
        return []
    found = []
    if isinstance(span.low, float):  # "older than" means accepted before
        found.append(("until", max(now - int(span.low) + (0 if span.open_low else 1), 1)))
    if isinstance(span.high, float):
        found.append(("since", max(now - int(span.high) + (1 if span.open_high else 0), 1)))
    return found


class _Reader:
    """Reads a filter from left to right."""

    def __init__(self, text: str, now: int) -> None:
        self._text, self._now, self._at = text, now, 0

    def read(self) -> tuple[Part, ...]:
        branches = self._branches(0)
        if len(branches) == 1:
            return branches[0]
        return (Either(branches),) if branches else ()

    def _wrong(self, why: str, start: int, width: int = 1) -> FilterError:
        return FilterError(why, self._text, start, width)

    def _branches(self, depth: int) -> tuple[tuple[Part, ...], ...]:
        """Read up to the end or to the closing bracket."""
        branches: list[tuple[Part, ...]] = []
        parts: list[Part] = []
        last_or = -1
        while self._skip_space():
            start = self._at
            if depth and self._text[start] == ")":
                break
            word = self._peek(depth)
            if word == "OR":
                self._at += 2
                if not parts:
                    raise self._wrong("OR has nothing before it", start, 2)
                branches.append(tuple(parts))
                parts, last_or = [], start
            elif word == "AND":
                self._at += 3  # AND means the same as a space
            else:
                parts.append(self._part(depth))
        if last_or >= 0 and not parts:
            raise self._wrong("OR has nothing behind it", last_or, 2)
        return (*branches, tuple(parts)) if parts else tuple(branches)

    def _skip_space(self) -> bool:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._at < len(self._text)

    def _peek(self, depth: int) -> str:
        found = (_WORD_IN_BRACKETS if depth else _WORD).match(self._text, self._at)
        return found[0] if found else ""

    def _part(self, depth: int) -> Part:
        start = self._at
        negated = self._text[start] == "-" or self._peek(depth) == "NOT"
        if negated:
            self._at += 1 if self._text[start] == "-" else 3
            dash = self._text[start] == "-"
            if not self._skip_space() or (dash and (self._at > start + 1 or self._text[self._at] == "-")):
                raise self._wrong('nothing stands behind what is to say "not"; a dash alone goes in quotes', start)
        if self._text[self._at] == "(":
            return self._bracket(depth, negated)
        if self._text[self._at] == ")":
            raise self._wrong("this bracket closes none; as text it goes in quotes", self._at)
        at, word = self._at, self._word(depth)
        return self._term(word, at, negated)

    def _bracket(self, depth: int, negated: bool) -> Part:
        start = self._at
        if depth >= DEEPEST:
            raise self._wrong(f"there are more than {DEEPEST} brackets in brackets", start)
        self._at += 1
        branches = self._branches(depth + 1)
        if self._at >= len(self._text):
            raise self._wrong("this bracket is not closed; as text it goes in quotes", start)
        self._at += 1
        if not branches:
            raise self._wrong("nothing is in these brackets", start, self._at - start)
        return Either(branches, negated)

    def _word(self, depth: int) -> str:
        word = self._peek(depth)
        if not word or self._text[self._at + len(word) : self._at + len(word) + 1] in ('"', "\\"):
            at = self._at + len(word)
            what = "a quote is not closed" if self._text[at] == '"' else "a backslash has nothing behind it"
            raise self._wrong(what, at)
        self._at += len(word)
        return word

    # -- one word

    def _term(self, word: str, at: int, negated: bool) -> Term:
        page = _PAGE.fullmatch(word.strip('"'))
        if page is not None:
            name = "id" if page[1] == "jobs" else "workflow"
            return Term(name, (Wanted(unquote(page[2])),), (), negated)
        named = _NAME.match(word)
        if named is None:
            self._check_bare(word, at)
            return Term("text", (Wanted(_plain(word)),), (), negated)
        name, path = named[1].lower(), tuple(named[2].split(".")[1:])
        if name not in NAMES:
            raise self._wrong(
                f"there is no {name!r}{did_you_mean(name, NAMES)}; there are {', '.join(NAMES)}. "
                f'Text with a colon goes in quotes: "{word}"', at, len(named[1]),
            )  # fmt: skip
        if path and name != "args":
            raise self._wrong(
                f"{named[0]!r}: only args has names behind a dot, as in args.user.id:7", at, len(named[0])
            )
        if name == "args" and not path:
            raise self._wrong("say which argument, as in args.user.id:7; a word alone looks in all of them", at, 4)
        behind = at + named.end()
        found = [
            self._value(name, behind + start, text, bare)
            for start, text, bare in _pieces(self._text[behind : self._at])
        ]
        if not found:
            raise self._wrong(f"{named[0]!r} has no value: {NAMES[name]}", at, len(word))
        if name in INSTANTS and len(found) > 1:
            raise self._wrong(f"{name} takes one time: {NAMES[name]}", at, len(word))
        return Term(name, tuple(found), path, negated)

    def _check_bare(self, word: str, at: int) -> None:
        """Refuse a word such as ``age>1h``: a name with a sign but without a colon is a mistake, not a text to search
        for.
        """
        found = _UNNAMED.match(word)
        name = found[1].lower() if found else ""
        if found is None or name not in NAMES or (name != "args" and "." in word[: found.start(2)]):
            return
        sign = "" if found[2] in ("=", "==", "!=") or name not in COMPARED else found[2]
        meant = f"{'-' if found[2] == '!=' else ''}{word[: found.start(2)]}:{sign}{found[3]}"
        raise self._wrong(f'did you mean {meant}? As text it goes in quotes: "{word}"', at + found.start(2))

    def _value(self, name: str, at: int, text: str, bare: bool) -> Wanted:
        compared = _COMPARED.fullmatch(text) if bare else None
        if compared is not None and name not in COMPARED:
            raise self._wrong(
                f"{name} has no order, so {compared[1]!r} means nothing; {', '.join(COMPARED)} can be compared. "
                "As text it goes in quotes", at, len(text),
            )  # fmt: skip
        if name in INSTANTS:
            return Wanted(str(self._instant(name, at, _unescaped(text))))
        if name in COUNTS or name in TIMES:
            return self._number(name, at, text, compared)
        if name == "args" and bare:
            span = _argument_span(text, compared)
            if span is not None:
                return Wanted(text, span=span)
            if compared is not None:
                raise self._wrong("nothing stands behind the sign", at, len(text))
        if name == "state":
            self._check_state(_unescaped(text), at)
            return Wanted(_unescaped(text))
        return Wanted(_unescaped(text), bare and ("*" in text or "?" in text) and "\\" not in text)

    def _check_state(self, text: str, at: int) -> None:
        known = [state.value for state in State]
        if text not in known:
            hint = did_you_mean(text, known)
            raise self._wrong(f"there is no state {text!r}{hint}; one of {', '.join(known)}", at, len(text))

    def _number(self, name: str, at: int, text: str, compared: re.Match[str] | None) -> Wanted:
        read = self._count if name in COUNTS else self._time
        if compared is not None:
            return Wanted(text, span=_above_or_below(compared[1], read(name, at, compared[2])))
        low, dots, high = text.partition("..")
        if dots:
            span = Span(read(name, at, low) if low else None, read(name, at, high) if high else None)
            if span == Span():
                raise self._wrong(f"{name}:.. has no bound: {NAMES[name]}", at, len(text))
            return Wanted(text, span=span)
        number = read(name, at, text)
        if name in TIMES:
            raise self._wrong(f"say more or less: {name}:>{text} or {name}:<{text}", at, len(text))
        return Wanted(text, span=Span(number, number))

    def _count(self, name: str, at: int, text: str) -> float:
        if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
            raise self._wrong(f"{name}:{text} is no whole number; {NAMES[name]}", at, len(text))
        return float(text)

    def _time(self, name: str, at: int, text: str) -> float:
        try:
            return float(to_ms(text, name))
        except ConfigError:
            raise self._wrong(f"{name}:{text} is no duration; {NAMES[name]}", at, len(text)) from None

    def _instant(self, name: str, at: int, text: str) -> int:
        if "*" in text or "?" in text:
            raise self._wrong(f"{name} takes one time: {NAMES[name]}", at, len(text))
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            try:
                return max(self._now - to_ms(text, name), 1)
            except ConfigError:
                raise self._wrong(f"{name}:{text} is no time; {NAMES[name]}", at, len(text)) from None
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        return max(round(aware.timestamp() * 1000), 1)


def _pieces(text: str) -> Iterator[tuple[int, str, bool]]:
    """The values between commas: where each begins, its text, and whether it stood without quotes."""
    for found in _PIECE.finditer(text):
        bare = found[2] is not None
        yield (found.start(), found[2] if bare else found[1], bare)


def _above_or_below(sign: str, bound: float | str) -> Span:
    if sign[0] == ">":
        return Span(low=bound, open_low=sign == ">")
    return Span(high=bound, open_high=sign == "<")


def _argument_span(text: str, compared: re.Match[str] | None) -> Span | None:
    """The range for an argument: numbers compare with numbers, texts (so dates in JSON) with texts."""
    if compared is not None:
        bound = _unescaped(compared[2].strip('"'))
        number = _as_number(bound)
        return _above_or_below(compared[1], bound if number is None else number) if bound else None
    low, dots, high = text.partition("..")
    least, most = _as_number(low), _as_number(high)
    return Span(least, most) if dots and least is not None and most is not None else None


def _as_number(text: str) -> float | None:
    try:
        return float(text) if re.fullmatch(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?", text, re.ASCII) else None
    except ValueError:
        return None


def _plain(word: str) -> str:
    """The text of a bare word, with or without quotes."""
    return "".join(
        _unescaped(part[1:-1] if part.startswith('"') else part)
        for part in re.findall(r'"(?:[^"\\]|\\.)*"|(?:\\.|[^"\\])+', word, re.DOTALL)
    )


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def quoted(text: str) -> str:
    """A value written so that it can follow a name in a filter."""
    if text and not re.search(r'[\s",\\*?()<>]|\.\.', text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
