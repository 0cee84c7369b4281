"""Errors as answers: JSON for the API, a page for pages. They say what was wrong with the request; never where the
store is, nor why something inside failed, which only the log says.
"""

from __future__ import annotations

import logging
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from windlass.errors import (
    Busy,
    ConfigError,
    EnqueueError,
    Forbidden,
    JobLost,
    NotFound,
    PayloadError,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    UnknownSchedule,
    WindlassError,
)
from windlass.web.credentials import Denied, Instead, TooMany
from windlass.web.site import is_data, render

log = logging.getLogger("windlass.web")

RETRY_AFTER = "2"
"""Seconds after which to ask again, while the store is away."""

_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (Forbidden, 403),
    (JobLost, 404),
    (NotFound, 404),
    (UnknownSchedule, 404),
    (ConfigError, 422),
    (PayloadError, 422),
    (msgspec.MsgspecError, 422),
    (EnqueueError, 409),
    (Busy, 409),
    (StoreUnavailable, 503),
    (StoreClosed, 503),
    (StoreError, 500),
    (WindlassError, 409),
)


class Problem(msgspec.Struct, frozen=True):
    """The API's answer to a request it does not fulfil."""

    status: int
    title: str
    detail: str = ""


async def answer_error(request: Request, error: Exception) -> Response:
    """The answer to a request that failed."""
    if isinstance(error, Instead):
        return error.response
    problem, headers = describe(error)
    if problem.status >= 500:
        log.warning("%s %s: %r", request.method, request.url.path, error, exc_info=problem.status == 500)
    if is_data(request):
        body = msgspec.json.encode(problem)
        return Response(body, problem.status, headers, media_type="application/problem+json")
    response = await error_page(request, problem) if hasattr(request.state, "access") else error_text(problem)
    response.status_code = problem.status
    response.headers.update(headers)
    return response


async def error_page(request: Request, problem: Problem) -> Response:
    try:
        return await render(request, "error.html", problem=problem)
    except Exception:
        log.exception("the page for an error cannot be made")
        return error_text(problem)


def error_text(problem: Problem) -> Response:
    """The plain text for a client that is refused: a page would tell more about the dashboard than it may know."""
    return PlainTextResponse(f"{problem.title}: {problem.detail}\n")


def describe(error: Exception) -> tuple[Problem, dict[str, str]]:
    """What to say about an error, and the headers that go with it."""
    headers: dict[str, str] = {}
    status, detail = 500, "something went wrong inside; the server's log says what"
    if isinstance(error, Denied):
        status, detail = (401 if error.challenge else 403), str(error)
        if error.challenge:
            headers["www-authenticate"] = error.challenge
    elif isinstance(error, TooMany):
        status, detail = 429, str(error)
        headers["retry-after"] = str(error.seconds)
    elif isinstance(error, HTTPException):
        status, detail = error.status_code, error.detail
        headers |= {name.lower(): value for name, value in (error.headers or {}).items()}
    else:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        if status == 503:
            detail = "the store cannot be reached now; this is tried again"
            headers["retry-after"] = RETRY_AFTER
        elif status != 500:
            detail = str(error)
    title = HTTPStatus(status).phrase
    return Problem(status, title, "" if detail == title else detail), headers


def is_gone(error: Exception) -> bool:
    """Whether the client has left, so that no answer can be sent."""
    return isinstance(error, ClientDisconnect)
