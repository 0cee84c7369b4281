"""One job's events as server-sent events: its state and progress, its log lines, its end.

All streams of a process share one look at the store per second, however many there are. While nothing happens in the
store, that look is one small read.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from windlass.app import Windlass
from windlass.console import job_rows
from windlass.console.show import MOST_TEXT, decoded, safe
from windlass.core.access import EVERYTHING, Access
from windlass.core.job import Job, LogLine, State
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH
from windlass.web.poll import Poll
from windlass.web.streams import BEAT, EventStream, Gauge, Source, message, retry

EVERY_SECONDS = 1.0
OVER = "over"
"""The id of the last event of a stream. A browser that comes back with it is told to stay away (204)."""


class JobState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a job. ``progress`` in percent; ``result`` and ``error`` at its end, where they may be shown."""

    id: str
    state: str
    run: int = 1
    attempts: int = 0
    progress: float | None = None
    message: str = ""
    data: Any = None
    result: Any = None
    error: str = ""

    def redacted(self, access: Access) -> JobState:
        return msgspec.structs.replace(self, data=access.clean(self.data))

    def bare(self) -> JobState:
        """The state for a reader without the right to see values."""
        return msgspec.structs.replace(self, message="", data=None)


class Watch:
    """The jobs that streams of this event loop follow, read together."""

    def __init__(self, app: Windlass, every: float = EVERY_SECONDS) -> None:
        self._app = app
        self._wanted: Counter[str] = Counter()
        self._jobs: dict[str, Job | None] = {}
        self._lines: dict[tuple[str, int], list[LogLine]] = {}
        self._newest = -1
        self.poll = Poll(self._look, every)

    @contextlib.contextmanager
    def on(self, id: str) -> Iterator[None]:
        self._wanted[id] += 1
        try:
            with self.poll.joined():
                yield
        finally:
            self._wanted[id] -= 1
            if not self._wanted[id]:
                del self._wanted[id]
                self._jobs.pop(id, None)
                self._lines = {key: lines for key, lines in self._lines.items() if key[0] != id}

    async def job(self, id: str) -> Job | None:
        """The job as it was at the last look."""
        if id not in self._jobs:
            client = await self._app.client()
            (self._jobs[id],) = await client.store.get([id])
        return self._jobs[id]

    async def lines(self, id: str, after: int) -> list[LogLine]:
        """The log lines behind a number. Readers at the same number share the read until the next look."""
        known = self._lines
        if (id, after) not in known:
            client = await self._app.client()
            known[id, after] = await client.store.lines(id, after)
        return known[id, after]

    async def _look(self) -> bool:
        client = await self._app.client()
        entries = await client.store.events(-1)
        before, self._newest = self._newest, entries[-1].seq if entries else 0
        if self._newest == before:
            return False
        ids = list(self._wanted)
        for start in range(0, len(ids), MAX_BATCH):
            part = ids[start : start + MAX_BATCH]
            self._jobs.update(zip(part, await client.store.get(part), strict=True))
            self._lines = {}  # a new dict: lines that are being read now may be older than these records
        return True


Show = Callable[[Job], JobState | None]
"""What a reader sees of a job; None where they may not see it (any more)."""


async def job_messages(watch: Watch, id: str, show: Show, logs: bool, last: str, once: bool) -> Source:
    """``state`` whenever it differs from what the reader saw last, ``log`` for lines, and ``end`` at the end."""
    place = FeedPosition.read(last)
    yield retry(EVERY_SECONDS)
    with watch.on(id):
        while True:
            seen = watch.poll.turns
            try:
                job = await watch.job(id)
                lines = await watch.lines(id, place.line) if logs and job is not None else []
            except StoreError:
                full = False  # the store is away: the poll goes on trying, and reports its return
            else:
                full = len(lines) == MAX_BATCH
                for part in news(id, job, lines, show, place):
                    yield part
            if once or place.over:
                return
            if not full and not await watch.poll.turn(seen):
                yield BEAT


class FeedPosition:
    """How far a reader has read: the run, the last log line, and the state it saw. It travels as the event's id."""

    def __init__(self, run: int = 0, line: int = -1, look: str = "") -> None:
        self.run, self.line, self.look = run, line, look
        self.over = False

    @classmethod
    def read(cls, last: str) -> FeedPosition:
        """Read the position from an event id; an id that is not ours starts from the beginning."""
        run, _, rest = last.partition(".")
        line, _, look = rest.partition(".")
        if len(last) > 100 or not run.isdecimal() or not (line == "-1" or line.isdecimal()):
            return cls()
        return cls(int(run), int(line), look)

    def __str__(self) -> str:
        return f"{self.run}.{self.line}.{self.look}"


def news(id: str, job: Job | None, lines: Sequence[LogLine], show: Show, place: FeedPosition) -> Iterator[bytes]:
    state = show(job) if job is not None else None
    if job is None or state is None:
        place.over = True
        yield message("gone", OVER, {"id": id})
        return
    place.run = job.run
    for line in lines:
        place.line = line.n
        yield message("log", str(place), msgspec.structs.replace(line, text=told(line.text)))
    look = hashlib.sha256(msgspec.json.encode(state)).hexdigest()[:12]
    if look != place.look:
        place.look = look
        yield message("state", str(place), state)
    if job.state.terminal and len(lines) < MAX_BATCH:
        place.over = True
        yield message("end", OVER, {"id": id, "state": job.state})


def job_stream(
    request: Request, watch: Watch, gauge: Gauge, id: str, show: Show, logs: bool, once: bool
) -> Response:  # fmt: skip
    last = request.headers.get("last-event-id", "")
    if last == OVER:
        return Response(status_code=204)
    return EventStream(job_messages(watch, id, show, logs, last, once), gauge)


def state_of(job: Job, show: Sequence[str]) -> JobState:
    """The state of a job. What cannot be read is left out, so that it does not end the stream."""
    progress = job_rows.progress_of(job) if "progress" in show else None
    error = job_rows.error_of(job) if job.state is State.FAILED and "error" in show else None
    ended = job.state is State.SUCCEEDED and "result" in show
    return JobState(
        id=job.id, state=job.state, run=job.run, attempts=job.attempt,
        progress=progress.percent if progress else None, message=told(progress.message) if progress else "",
        data=progress.data or None if progress else None, result=decoded(EVERYTHING, job.result) if ended else None,
        error=told(f"{error.type}: {error.message}") if error else "",
    )  # fmt: skip


def told(text: str) -> str:
    """A text of users made safe for every encoder, and cut to fit an event."""
    return safe(text[:MOST_TEXT])
