"""Parsers for option values. Each is a click callback that checks the value, and says what is wrong with it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click
import msgspec

from windlass.core.duration import to_ms
from windlass.core.ids import check_name
from windlass.errors import ConfigError
from windlass.worker.queue_shares import parse_queues


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A duration, written as everywhere in Windlass; the command gets seconds."""
    if value is None:
        return None
    try:
        return to_ms(_number(value), "it") / 1000
    except ConfigError:
        text = f"{value!r} is no duration: write seconds, or a text such as 250ms, 30s, 10m or '1h 30m'"
        raise click.BadParameter(text, ctx, param) from None


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def instant(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """An ISO time with its zone."""
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        text = f"{value!r} is no ISO time: write one such as 2030-01-31T09:00+01:00 or 2030-01-31T08:00Z"
        raise click.BadParameter(text, ctx, param) from None
    if at.tzinfo is None:
        raise click.BadParameter(f"{value!r} names no zone: add Z for UTC or an offset such as +01:00", ctx, param)
    return at


def queues(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[str]:
    """Queue names with commas between them, in order of preference."""
    names = [name.strip() for part in value for name in part.split(",") if name.strip()]
    try:
        return list(dict.fromkeys(check_name("queue", name) for name in names))
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def weighted_queues(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[str]:
    """Queue names, each with its weight if it has one: ``critical*5,default``."""
    texts = [text.strip() for part in value for text in part.split(",") if text.strip()]
    try:
        parse_queues(texts)
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    return texts


def queue(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """One queue's name."""
    try:
        return check_name("queue", value)
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def scale(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Two counts, in either order."""
    if value is None:
        return None
    parts = [part.strip() for part in value.split(",")]
    if len(parts) != 2 or not all(part.isdecimal() for part in parts) or max(map(int, parts)) < 1:
        raise click.BadParameter(f"{value!r} is no range: write MIN,MAX, such as 1,4", ctx, param)
    low, high = sorted(map(int, parts))
    return max(low, 1), high


def address(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """A port of this machine, or a host and a port: ``9100``, ``0.0.0.0:9100``, ``[::]:9100``."""
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not port.isdecimal() or int(port) > 65535 or (colon and not bare) or (":" in bare and host == bare):
        text = f"{value!r} is no port: write one such as 9100, or with an address before it, 0.0.0.0:9100 or [::]:9100"
        raise click.BadParameter(text, ctx, param)
    return bare or "127.0.0.1", int(port)


def json_or_text(text: str) -> Any:
    """The word as a JSON value if it is one, else as text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def json_value(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """JSON, an object or an array."""
    if value is None:
        return None
    try:
        decoded = msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"{value!r} is no JSON: {error}", ctx, param) from None
    if not isinstance(decoded, dict | list):
        raise click.BadParameter(f"{value!r} is neither a JSON object nor an array", ctx, param)
    return decoded
