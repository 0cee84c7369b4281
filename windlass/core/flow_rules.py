"""From options to the terms of one call: options about arguments go in, values come out.

An option may be a value, names of arguments, or a function of them; a job carries only the resulting value. This module
parses such options, checks them against a task's signature and works them out. It knows no app and no store.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from windlass.core.codec import encode
from windlass.core.hints import did_you_mean
from windlass.core.limits import Rate
from windlass.core.option_parsers import plain_function
from windlass.core.terms import UNIQUE_MAX, Policy, Terms
from windlass.errors import ConfigError, PayloadError

GAP = 60_000
POLICIES = {"keep": Policy.KEEP, "replace": Policy.REPLACE, "debounce": Policy.DEBOUNCE, "throttle": Policy.KEEP}
_NO_CAP = 1 << 62
_PLAIN = Terms()


class FromArguments(msgspec.Struct, frozen=True):
    """A function of a call's arguments. It is given the arguments it names; ``**`` gives it all of them."""

    fn: Callable[..., object]
    names: tuple[str, ...] | None = None
    required: tuple[str, ...] = ()


KeyRule = str | tuple[str, ...] | FromArguments
UniqueRule = KeyRule | bool


class FlowRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the options of all layers together say about when a job may come in and start, before the arguments are
    known.
    """

    key: KeyRule = ""
    key_limit: int = 0
    key_rate: Rate | None = None
    ordered: bool = False
    seq: int = 0
    gap_timeout: int = GAP
    units: int | FromArguments = 1
    unique: UniqueRule = False
    unique_policy: str = "keep"
    unique_for: int = 0
    debounce_max: int = 0
    ageing: int = 0
    max_ready: int = 0
    when_full: str = "wait"
    breaker: str = ""
    batch: int = 0


FLOW_NAMES = frozenset(FlowRules.__struct_fields__)


def make_flow(merged: Mapping[str, Any]) -> FlowRules | None:
    """The flow part of a job's options; None where no option is about flow."""
    if FLOW_NAMES.isdisjoint(merged):
        return None
    return FlowRules(**{name: value for name, value in merged.items() if name in FLOW_NAMES})


class Asked(NamedTuple):
    """One call whose terms are wanted. ``bind`` gives its arguments by name, with defaults, or None where they are not
    known.
    """

    task: str
    payload: bytes
    bind: Callable[[], dict[str, Any]] | None = None


def make_terms(flow: FlowRules, asked: Asked) -> Terms | None:
    """The terms of one call; None for a call that needs none."""
    key = _key(flow, asked)
    unique = _unique(flow, asked)
    debounced = bool(unique) and flow.unique_policy == "debounce"
    rate = flow.key_rate if key and flow.key_rate is not None and flow.key_rate.every else None
    terms = Terms(
        key=key,
        ordered=flow.ordered,
        seq=flow.seq,
        gap=flow.gap_timeout if flow.seq else GAP,
        key_limit=flow.key_limit if key else 0,
        key_rate=rate,
        units=_units(flow, asked),
        breaker=flow.breaker,
        batch=flow.batch > 0,
        ageing=flow.ageing,
        unique=unique,
        policy=POLICIES[flow.unique_policy] if unique else Policy.KEEP,
        window=flow.unique_for if unique and not debounced else 0,
        most=flow.debounce_max if debounced else 0,
        max_ready=flow.max_ready,
        drop_oldest=flow.when_full == "drop_oldest",
    )
    return None if terms == _PLAIN else terms


def quiet_time(flow: FlowRules, terms: Terms | None) -> int:
    """The delay that debouncing alone gives a call."""
    return flow.unique_for if terms is not None and terms.unique and flow.unique_policy == "debounce" else 0


def _key(flow: FlowRules, asked: Asked) -> str:
    if not flow.key:
        for name in ("seq", "ordered"):
            if getattr(flow, name):
                raise ConfigError(f"task {asked.task}: {name}={getattr(flow, name)} needs a key= to say in which lane")
        return ""
    if isinstance(flow.key, str):
        return flow.key
    return fit(_made(flow.key, asked, "key"))


def _unique(flow: FlowRules, asked: Asked) -> str:
    rule = flow.unique
    if rule is False:
        return ""
    if flow.unique_policy in ("throttle", "debounce") and not flow.unique_for:
        raise ConfigError(f"task {asked.task}: unique_policy={flow.unique_policy!r} needs unique_for=")
    if rule is True:
        return unique_key(asked.task, _digest(asked))
    return unique_key(asked.task, rule if isinstance(rule, str) else _made(rule, asked, "unique"))


def _units(flow: FlowRules, asked: Asked) -> int:
    if isinstance(flow.units, int):
        return flow.units
    units = _call(flow.units, asked, "units")
    if not isinstance(units, int) or isinstance(units, bool) or not 1 <= units <= 1_000_000:
        raise PayloadError(f"task {asked.task}: units came to {units!r}; give a whole number from 1 to 1,000,000")
    return units


def unique_key(task: str, text: str) -> str:
    """A text as a unique key of one task. Tasks do not share unique keys."""
    return fit(f"{task}:{text}")


def fit(text: str) -> str:
    """A key that every engine can keep: printable and short. Any other text becomes its digest."""
    if len(text) <= UNIQUE_MAX and text.isprintable():
        return text
    start = "".join(letter for letter in text[:100] if letter.isprintable())
    return f"{start}~{_hash(text.encode('utf-8', 'surrogatepass'))}"


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _digest(asked: Asked) -> str:
    """A digest of all arguments. An argument left to its default counts like the same value given."""
    if asked.bind is None:
        return _hash(asked.payload)
    try:
        return _hash(encode(asked.bind(), "the arguments", _NO_CAP, stable=True))
    except PayloadError as error:
        raise PayloadError(f"task {asked.task}: unique=True: {error}; name some: unique=[...]") from error


def _made(rule: tuple[str, ...] | FromArguments, asked: Asked, option: str) -> str:
    """The value of a key: the function's answer, or a text of the arguments named."""
    if isinstance(rule, FromArguments):
        return key_text(_call(rule, asked, option), f"task {asked.task}: {option} came to")
    arguments = _arguments(asked, option)
    texts = []
    for name in rule:
        if name not in arguments:
            raise ConfigError(f"task {asked.task}: {option} names {name!r}, which is no argument of this call"
                              f"{did_you_mean(name, arguments)}")  # fmt: skip
        value = arguments[name]
        if option == "unique" and not isinstance(value, _SIMPLE):
            texts.append(encode(value, f"task {asked.task}: argument {name!r}", _NO_CAP, stable=True).decode())
        else:
            texts.append(key_text(value, f"task {asked.task}: {option} is argument {name!r}, which is"))
    return texts[0] if len(texts) == 1 else msgspec.json.encode(texts).decode()


def _call(rule: FromArguments, asked: Asked, option: str) -> object:
    arguments = _arguments(asked, option)
    if rule.names is not None:
        arguments = {name: arguments[name] for name in rule.names if name in arguments}
    try:
        return rule.fn(**arguments)
    except Exception as error:
        raise PayloadError(
            f"task {asked.task}: the function for {option} raised {type(error).__name__}: {error}"
        ) from error


def _arguments(asked: Asked, option: str) -> dict[str, Any]:
    if asked.bind is None:
        raise ConfigError(
            f"task {asked.task}: {option} depends on the arguments of a call, which are not known here (the task is "
            f"called by name, or one job makes many calls); give this call a value: {option}=..."
        )
    return asked.bind()


_SIMPLE = (str, int, float, Decimal, UUID)


def key_text(value: object, what: str) -> str:
    """A text, number or UUID as the text of a key. Other kinds of values are errors."""
    if isinstance(value, str):
        text = str.__str__(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        text = int.__repr__(value)
    elif isinstance(value, (float, Decimal, UUID)):
        text = str(value)
    else:
        raise PayloadError(f"{what} {value!r}; give a text, a number or a UUID")
    if not text:
        raise PayloadError(f"{what} an empty text; give at least one character")
    return text


# -- parsers: from what a user wrote to a rule


def parse_key(value: object, what: str) -> KeyRule:
    """Read a ``key`` option. None means no key."""
    if value is None:
        return ""
    if callable(value):
        return parse_function(value, what)
    if isinstance(value, (list, tuple)):
        if not value or not all(isinstance(name, str) for name in value):
            raise ConfigError(f"{what} is {value!r}; a list must name arguments, at least one")
        return tuple(value)
    try:
        return fit(key_text(value, f"{what} is"))
    except PayloadError as error:
        raise ConfigError(f"{error}, the names of arguments, or a function of them") from None


def parse_unique(value: object, what: str) -> UniqueRule:
    """Read a ``unique`` option. True: all arguments make the key. None and False: the job is not unique."""
    if value is None or isinstance(value, bool):
        return bool(value)
    return parse_key(value, what)


def parse_units(value: object, what: str) -> int | FromArguments:
    if callable(value):
        return parse_function(value, what)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1_000_000:
        raise ConfigError(f"{what} is {value!r}; give a whole number from 1 to 1,000,000, or a function of arguments")
    return value


def parse_function(fn: Callable[..., object], what: str) -> FromArguments:
    plain_function(fn, what)
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (ValueError, TypeError):
        return FromArguments(fn)
    if any(parameter.kind is parameter.POSITIONAL_ONLY for parameter in parameters):
        raise ConfigError(f"{what} is {fn!r}, which cannot be called with arguments by name")
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    required = tuple(one.name for one in named if one.default is one.empty)
    greedy = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    return FromArguments(fn, None if greedy else tuple(one.name for one in named), required)


def check_rules(layer: Mapping[str, Any], signature: inspect.Signature, where: str) -> None:
    """Check that a task's rules name only arguments the task has."""
    parameters = signature.parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [parameter.name for parameter in parameters]
    for option in ("key", "unique", "units", "search"):
        for name in _named(layer.get(option)):
            if name not in known:
                raise ConfigError(f"{where}: {option} needs an argument {name!r}, and the task has none of that name"
                                  f"{did_you_mean(name, known)}")  # fmt: skip


def _named(rule: object) -> Iterable[str]:
    if isinstance(rule, FromArguments):
        return rule.required
    return rule if isinstance(rule, tuple) else ()
