"""``job_events``: one job's events for the browsers of an application's own users, mounted in that application.

It shows a job only after the application has permitted it for this user.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.app import Windlass
from windlass.core.hints import did_you_mean
from windlass.core.ids import check_id
from windlass.errors import ConfigError
from windlass.web.door import Door
from windlass.web.jobfeed import Watch, job_stream, state_of
from windlass.web.per_loop import PerLoop
from windlass.web.streams import Gauge

SHOWN = ("progress", "logs", "result", "error")
"""What a user may be shown of a job besides its state."""

AuthorizeJob = Callable[[Request, str], bool | Awaitable[bool]]


def job_events(
    app: Windlass, authorize: AuthorizeJob, *, show: Sequence[str] = ("progress",), streams: bool = True
) -> Starlette:
    """An ASGI application with ``GET /{job_id}``, to be mounted in one's own: a browser follows one job with
    ``new EventSource("/progress/" + id)`` and resumes by itself.

    ``authorize(request, job_id)`` says whether this user may see this job, each time. ``show``: what they see besides
    its state, of progress, logs, result and error.
    """
    for what in show:
        if what not in SHOWN:
            raise ConfigError(f"job_events: show has {what!r}{did_you_mean(what, SHOWN)}; there are {', '.join(SHOWN)}")
    if not callable(authorize):
        raise ConfigError("job_events: give authorize(request, job_id), which says who may see which job")
    watches, gauge = PerLoop(lambda: Watch(app)), Gauge()

    async def follow(request: Request) -> Response:
        id = check_id(request.path_params["job_id"])
        verdict = authorize(request, id)
        if inspect.isawaitable(verdict):
            verdict = await verdict
        if verdict is not True:
            raise HTTPException(404, "there is no such job here")
        return job_stream(request, watches.here(), gauge, id, partial(state_of, show=show), "logs" in show, not streams)

    return Starlette(routes=[Route("/{job_id:path}", follow)], middleware=[Middleware(Door)])
