"""Operations of the JSON API: one line in the table each. Here, and only here, a request becomes a call of the console
and its answer JSON.

The annotations of an operation's function say what it takes and answers; the API's description is made from them too.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.core.access import RIGHTS
from windlass.core.hints import did_you_mean
from windlass.errors import ConfigError, Forbidden
from windlass.web.csrf import read_body

Handler = Callable[..., Awaitable[Any]]
Method = Literal["GET", "POST", "DELETE"]

EVENTS, LINES = "text/event-stream", "application/x-ndjson"
_PLACE = re.compile(r"{(\w+)}")
LONGEST_PLACE = 512
"""Characters of a name or an id in a path."""


class Operation:
    """``handler(console, asked, **places)``: ``asked`` is a struct, of the query for GET and of the body otherwise; the
    other arguments are placeholders of the path. A handler that takes ``request`` answers a response of its own, of
    kind ``sends``: a stream of events with an ``each`` as their data.
    """

    def __init__(
        self, method: Method, path: str, handler: Handler, right: str = "read", *, status: int = 200, sends: str = "",
        each: Any = None,
    ) -> None:  # fmt: skip
        self.method, self.path, self.handler, self.right = method, path, handler, right
        self.status, self.sends, self._each = status, sends, each
        self._takes = inspect.signature(handler).parameters

    @cached_property
    def hints(self) -> dict[str, Any]:
        return typing.get_type_hints(self.handler, include_extras=True)

    @property
    def asked(self) -> Any:
        """The struct of the query or the body, None where there is none."""
        return self.hints.get("asked")

    @property
    def answers(self) -> Any:
        """The struct of the answer, or of each event in a stream; None where it is neither."""
        return self._each if self.sends else self.hints["return"]

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def places(self) -> list[str]:
        return _PLACE.findall(self.path)

    @property
    def says(self) -> str:
        return inspect.cleandoc(self.handler.__doc__ or "")

    def route(self) -> Route:
        # Names and ids may have slashes in them, which arrive decoded.
        path = _PLACE.sub(r"{\1:path}", self.path)
        return Route(f"/api{path}", self._answer, methods=[self.method], name=self.name)

    async def _answer(self, request: Request) -> Response:
        given: dict[str, Any] = {name: place_of(request, name) for name in self.places}
        if self.method == "GET":
            need(request, self.right)
        elif not request.state.access.may(self.right):
            await request.state.console.refuse(self.name, " ".join(given.values()), self.right)
        asked = await self._read(request)
        if self.asked is not None:
            given["asked"] = asked
        if "request" in self._takes:
            given["request"] = request
        answer = await self.handler(request.state.console, **given)
        if isinstance(answer, Response):
            return answer
        return Response(msgspec.json.encode(answer), self.status, media_type="application/json")

    async def _read(self, request: Request) -> Any:
        query = query_of(request)
        if self.method == "GET":
            return convert(query, self.asked, "the query", strict=False)
        refuse_unknown(query, (), "the query")
        body = await read_body(request)
        return convert(decode_body(body) if body else {}, self.asked, "the body", strict=True)


def need(request: Request, right: str) -> None:
    """Check the right for any queue. The console checks it again for the queue itself."""
    access = request.state.access
    if not access.may(right):
        raise Forbidden(f"{access.user or 'this user'} lacks the right {right!r}: {RIGHTS[right]}")


def place_of(request: Request, name: str) -> str:
    value = str(request.path_params[name])
    if not value or len(value) > LONGEST_PLACE or not value.isprintable():
        raise ConfigError(f"the {name} in the path is not usable: give 1 to {LONGEST_PLACE} printable characters")
    return value


def query_of(request: Request) -> dict[str, str]:
    """The query's parameters. A parameter that is given twice is refused: some programs would read the first, some the
    last.
    """
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in found:
            raise ConfigError(f"the query gives {name!r} twice")
        found[name] = value
    return found


def decode_body(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise ConfigError("the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the body is not JSON: {error}") from None


def convert(value: Any, kind: Any, what: str, *, strict: bool) -> Any:
    """The struct made of what came; an error names the nearest known name."""
    if not isinstance(value, dict):
        raise ConfigError(f"{what} must be a JSON object")
    refuse_unknown(value, kind.__struct_fields__ if kind is not None else (), what)
    if kind is None:
        return None
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{what} is nested too deeply") from None


def refuse_unknown(given: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in given:
        if name not in known:
            there = f"; there are {', '.join(known)}" if known else "; it takes none"
            raise ConfigError(f"{what} has an unknown name {name[:100]!r}{did_you_mean(name[:100], known)}{there}")
