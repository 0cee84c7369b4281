"""Arguments and results as JSON, typed by annotation.

A payload is one JSON object of arguments by name, so that people can read and edit it, other services can write it and
upcasters can change it. What a caller encodes is decoded at once with the worker's own decoder: arguments that do not
fit fail at the call and not on the worker.
"""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from windlass.core import safe
from windlass.core.tagged_unions import readable
from windlass.core.untyped_values import PLAIN, changed_by_json, is_loose
from windlass.errors import ConfigError, PayloadError

MAX_DEPTH = 64
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class BadArguments(PayloadError, TypeError):
    """The arguments do not fit the task's signature."""


def _enc_hook(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"{type(value).__qualname__} has no JSON form")


def _dec_hook(kind: type, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"{kind!r} cannot be read from JSON")


_encoder = msgspec.json.Encoder(enc_hook=_enc_hook)
_sorted_encoder = msgspec.json.Encoder(enc_hook=_enc_hook, order="deterministic")
_any_decoder = msgspec.json.Decoder()
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def encode(value: Any, what: str, max_bytes: int, *, stable: bool = False) -> bytes:
    """JSON of a value, within the size and depth limits; ``stable`` gives equal values equal bytes."""
    try:
        data = (_sorted_encoder if stable else _encoder).encode(value)
        bad = safe.bad_number(value, _enc_hook) if b"null" in data else ""
    except Exception as error:  # a value's own code may raise anything when it is encoded
        bad = _what_is_bad(value, error)
        raise PayloadError(f"{what} cannot be carried as JSON: {bad}") from error
    if bad:
        raise PayloadError(f"{what} cannot be carried as JSON: {bad}; JSON has no such number")
    check_size(data, what, max_bytes)
    return data


def _what_is_bad(value: Any, error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        with contextlib.suppress(Exception):
            return safe.place_of_bad(value, _enc_hook)
    return safe.text(error, safe.MAX_REASON) or type(error).__name__


def check_size(data: bytes, what: str, max_bytes: int) -> None:
    if len(data) > max_bytes:
        raise PayloadError(
            f"{what}: {len(data):,} bytes; at most {max_bytes:,} are allowed. Keep large data elsewhere and pass "
            "a reference, or raise max_payload"
        )
    # Length and brackets bound the depth from above, so most payloads need no scan.
    if len(data) > MAX_DEPTH and data.count(b"[") + data.count(b"{") > MAX_DEPTH and depth(data) > MAX_DEPTH:
        raise PayloadError(f"{what} is nested deeper than {MAX_DEPTH} levels")


def depth(data: bytes) -> int:
    """How deep a JSON text nests, without parsing it (brackets inside strings do not count)."""
    level = deepest = 0
    in_string = escaped = False
    for byte in data:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in b"[{":
            level += 1
            deepest = max(deepest, level)
        elif byte in b"]}":
            level -= 1
    return deepest


def decode_any(data: bytes | None) -> Any:
    """Decode to plain JSON values, where the types are not known."""
    return None if data is None else _any_decoder.decode(data)


def decode_as(hint: Any, data: bytes, what: str) -> Any:
    """Decode JSON to the annotated type."""
    try:
        return msgspec.json.decode(data, type=readable(hint, _dec_hook), dec_hook=_dec_hook)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise PayloadError(f"{what} does not fit its annotation: {error}") from error


class Codec:
    """Encodes and decodes one task's arguments and result. Built once per task."""

    def __init__(self, fn: Callable[..., Any], name: str) -> None:
        self.name = name
        self.signature = inspect.signature(fn)
        written = typing.get_type_hints(fn, include_extras=True)
        hints = {key: readable(hint, _dec_hook) for key, hint in written.items()}
        parameters = self.signature.parameters.values()
        plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.positional = tuple(p.name for p in plain if p.kind in _POSITIONAL)
        self.keyword_only = tuple(p.name for p in plain if p.kind is p.KEYWORD_ONLY)
        self.names = self.positional + self.keyword_only
        self.required = frozenset(p.name for p in plain if p.default is p.empty)
        self.defaults = {p.name: p.default for p in plain if p.default is not p.empty}
        self.var_positional = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
        self.var_keyword = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")
        self.hints = {key: hints.get(key, Any) for key in (*self.names, self.var_positional, self.var_keyword) if key}
        self._check_types(hints)
        self._loose = frozenset(key for key, hint in self.hints.items() if is_loose(hint))
        self._loose_result = is_loose(hints.get("return", Any))
        self._what_arguments, self._what_result = f"task {name}: the arguments", f"the result of task {name}"
        self._fields = [self._field(p) for p in plain]
        self._arguments = self._decoder(self._fields)
        self._result = msgspec.json.Decoder(hints.get("return", Any), dec_hook=_dec_hook)

    def _decoder(self, fields: list[tuple[str, Any, Any]]) -> msgspec.json.Decoder[Any]:
        struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=not self.var_keyword)
        return msgspec.json.Decoder(struct, dec_hook=_dec_hook)

    @cached_property
    def _rest(self) -> msgspec.json.Decoder[Any]:
        """The struct of all arguments but the first, whose value is not known yet."""
        if not self.positional:
            return self._arguments
        return self._decoder([(self.positional[0], Any, None), *self._fields[1:]])

    def _field(self, parameter: inspect.Parameter) -> tuple[str, Any, Any]:
        kind = self.hints[parameter.name]
        if parameter.default is parameter.empty:
            return parameter.name, kind, msgspec.field()
        default = parameter.default
        return parameter.name, kind, msgspec.field(default_factory=lambda: default)

    def _check_types(self, hints: Mapping[str, Any]) -> None:
        for key in (*self.hints, "return"):
            unusable = unusable_type(hints.get(key, Any))
            if unusable:
                what = "its result" if key == "return" else f"parameter {key!r}"
                raise ConfigError(
                    f"task {self.name}: {what} has no JSON form ({unusable}). Use a dataclass, a "
                    "msgspec Struct, a pydantic model or a standard type"
                )

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any], max_bytes: int, *, stable: bool = False) -> bytes:
        """The payload of a call, checked by reading it back as the worker will."""
        return self._checked(self._bind(args, kwargs), self._arguments, max_bytes, stable)

    def encode_rest(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], max_bytes: int, *, stable: bool = False
    ) -> bytes:
        """The payload of a call whose first argument comes when it runs: the other arguments, checked as usual."""
        if not self.positional and not self.var_positional:
            raise BadArguments(f"task {self.name}{self.signature}: it has no first argument to take a value")
        fields = self._bind((None, *args), kwargs)
        if self.positional:
            del fields[self.positional[0]]
        else:
            del fields[f"*{self.var_positional}"][0]
        return self._checked(fields, self._rest, max_bytes, stable)

    def encode_each(self, calls: Iterable[list[Any]], max_bytes: int, *, stable: bool = False) -> bytes:
        """The payload of one job that makes many calls; ``calls`` are lists of positional arguments, each checked."""
        each = []
        for place, args in enumerate(calls):
            try:
                self.encode(tuple(args), {}, max_bytes)
            except BadArguments as error:
                raise BadArguments(f"item {place}: {error}") from error
            each.append(args)
        return encode({"each": each}, f"task {self.name}: the arguments", max_bytes, stable=stable)

    def _checked(
        self, fields: dict[str, Any], decoder: msgspec.json.Decoder[Any], max_bytes: int, stable: bool
    ) -> bytes:
        try:
            payload = encode(fields, self._what_arguments, max_bytes, stable=stable)
            back = self._decode(payload, decoder)
            if self._loose:
                self._check_loose(fields, *back)
        except BadArguments:
            raise
        except PayloadError as error:
            raise BadArguments(str(error)) from error
        return payload

    def _check_loose(self, fields: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse values without an annotation that JSON would change; ``args`` and ``kwargs`` are what was
        read back.
        """
        came = None
        for name, value in fields.items():
            if type(value) not in PLAIN:
                came = came or {**kwargs, **dict(zip(self.positional, args, strict=False))}
                known = name if name in self.names else self.var_keyword
                known, where = (self.var_positional, name[1:]) if name.startswith("*") else (known, name)
                if known in self._loose and (bad := changed_by_json(value, came.get(name), where)):
                    raise BadArguments(f"task {self.name}: {bad}; annotate the parameter, or convert it yourself")

    def encode_result(self, value: Any, max_bytes: int) -> bytes:
        """The result as JSON. Without an annotation, only a value that JSON reads back unchanged is taken."""
        what = self._what_result
        data = encode(value, what, max_bytes)
        if self._loose_result and type(value) not in PLAIN and (bad := changed_by_json(value, decode_any(data))):
            raise PayloadError(f"{what}: {bad}; annotate what the function returns, or convert it yourself")
        return data

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by name, in the order of the signature."""
        if self.var_positional or len(args) > len(self.positional):
            return self._bind_slowly(args, kwargs)
        fields = dict(zip(self.positional, args, strict=False))
        if kwargs:
            for name in self.names[len(args) :]:
                if name in kwargs:
                    fields[name] = kwargs[name]
            if len(fields) != len(args) + len(kwargs):  # one is unknown, or given twice
                return self._bind_slowly(args, kwargs)
        if len(fields) < len(self.names) and not self.required <= fields.keys():
            return self._bind_slowly(args, kwargs)
        return fields

    def _bind_slowly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise BadArguments(f"task {self.name}{self.signature}: {error}") from None
        fields = {name: value for name, value in bound.items() if name not in (self.var_positional, self.var_keyword)}
        if self.var_positional and bound.get(self.var_positional):
            fields[f"*{self.var_positional}"] = list(bound[self.var_positional])
        for key, value in bound.get(self.var_keyword, {}).items():
            fields[key] = value
        return fields

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any], fed: bool = False) -> dict[str, Any]:
        """A call's arguments by name, as given, with defaults; ``fed`` leaves out the first, which comes later."""
        fields = {**self.defaults, **self._bind((None, *args) if fed else args, kwargs)}
        if self.var_positional:
            rest = fields.pop(f"*{self.var_positional}", ())
            fields[self.var_positional] = tuple(rest[1:] if fed and not self.positional else rest)
        if fed and self.positional:
            del fields[self.positional[0]]
        return fields

    def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``(args, kwargs)`` to call the function with; BadArguments says what does not fit."""
        return self._decode(payload, self._arguments)

    def _decode(self, payload: bytes, decoder: msgspec.json.Decoder[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            if self.var_positional or self.var_keyword:
                return self._decode_variadic(payload, decoder)
            values = msgspec.structs.astuple(decoder.decode(payload))
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
            raise BadArguments(f"task {self.name}{self.signature}: the payload does not fit: {error}") from error
        if not self.keyword_only:
            return values, {}
        cut = len(self.positional)
        return values[:cut], dict(zip(self.keyword_only, values[cut:], strict=True))

    def _decode_variadic(
        self, payload: bytes, decoder: msgspec.json.Decoder[Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        raw = _fields_decoder.decode(payload)
        star = raw.pop(f"*{self.var_positional}", None)
        known = {key: value for key, value in raw.items() if key in self.names}
        values = msgspec.structs.astuple(decoder.decode(msgspec.json.encode(known)))
        extra = {key: self._read(value, self.var_keyword) for key, value in raw.items() if key not in self.names}
        if extra and not self.var_keyword:
            raise BadArguments(f"unexpected argument {next(iter(extra))!r}")
        cut = len(self.positional)
        rest = [self._read(msgspec.Raw(item), self.var_positional) for item in _items(star)] if star else []
        kwargs = dict(zip(self.keyword_only, values[cut:], strict=True))
        return (*values[:cut], *rest), {**kwargs, **extra}

    def _read(self, raw: msgspec.Raw, parameter: str) -> Any:
        return msgspec.json.decode(raw, type=self.hints.get(parameter, Any), dec_hook=_dec_hook)

    def decode_result(self, data: bytes | None) -> Any:
        """A result, read as the function's annotation says."""
        if data is None:
            return None
        try:
            return self._result.decode(data)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise PayloadError(f"task {self.name}: the stored result does not fit its annotation: {error}") from error

    def decode_results(self, data: bytes | None) -> Any:
        """A list of results, each read as the function's annotation says."""
        if data is None:
            return None
        return [self.decode_result(bytes(item)) for item in _items(msgspec.Raw(data))]


def _items(raw: msgspec.Raw) -> list[msgspec.Raw]:
    return msgspec.json.decode(raw, type=list[msgspec.Raw])


def unusable_type(kind: Any) -> str:
    """The name of a type inside an annotation that JSON cannot carry, or an empty string."""
    try:
        info = msgspec.inspect.type_info(kind)
    except (TypeError, NotImplementedError) as error:
        return str(error) or repr(kind)
    return _unusable(info, set())


def _unusable(info: Any, seen: set[int]) -> str:
    if id(info) in seen:
        return ""
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        return "" if hasattr(info.cls, "model_validate") else repr(info.cls.__qualname__)
    parts = [getattr(info, name, None) for name in ("item_type", "key_type", "value_type", "type")]
    parts += [*getattr(info, "types", ()), *getattr(info, "item_types", ())]
    parts += [field.type for field in getattr(info, "fields", ())]
    return next(
        (bad for part in parts if isinstance(part, msgspec.inspect.Type) and (bad := _unusable(part, seen))), ""
    )
