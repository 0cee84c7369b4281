"""OpenTelemetry tracing: a span for each send, run and settle, and one trace from the caller to everything that
follows.

It needs only OpenTelemetry's API; the program decides where spans go. Tracing may cost a job nothing but time: what a
tracer raises is logged, and the job goes on. A trace that is not sampled must cost next to nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from time import time_ns
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from windlass.core.packages import pip_install

try:
    from opentelemetry.context import Context, attach, detach
    from opentelemetry.trace import (
        Link,
        Span,
        SpanContext,
        SpanKind,
        StatusCode,
        Tracer,
        TracerProvider,
        get_current_span,
        get_tracer,
        get_tracer_provider,
        set_span_in_context,
    )
except ModuleNotFoundError as error:
    raise ImportError(f"tracing needs more packages: {pip_install('telemetry')}") from error

from windlass import __version__
from windlass.app import Windlass
from windlass.calls.context import Current, taggers
from windlass.calls.middleware import Run, Submit
from windlass.calls.watch import Told
from windlass.core.draft import Draft
from windlass.core.hints import did_you_mean
from windlass.core.job import ErrorInfo, NewJob, read_meta
from windlass.core.lifecycle import Transition
from windlass.core.schedule import NAME_HEADER
from windlass.errors import ConfigError
from windlass.observe import spans
from windlass.observe.spans import PARENT, UNSAMPLED_ENDS
from windlass.store.answers import Accept, Answer

log = logging.getLogger("windlass.tracing")

FLUSH_MS = 5_000
SETTLES = 16
"""So many spans one exchange makes at most."""

TAKEN = frozenset({Accept.ACCEPTED, Accept.DUPLICATE, Accept.REPLACED})
FAULTS = frozenset({"failed", "retried", "lost"})
"""What becomes of a run that went wrong; all else is an outcome like any other."""

T = TypeVar("T")
_error_decoder = msgspec.json.Decoder(ErrorInfo)

Logs = Literal["all", "sampled"]
LOGS = ("all", "sampled")


def trace(
    app: Windlass, *, tracer_provider: TracerProvider | None = None, sample: float | None = None, linked: bool = False,
    logs: Logs = "all",
) -> None:  # fmt: skip
    """Trace an app's sends and runs: ``trace(app)`` beside its tasks, so that callers and workers both do.

    ``tracer_provider``: OpenTelemetry's global one unless given. ``sample``: the part of the traces begun here that is
    recorded; without it the provider decides, which costs more. A caller's decision is always kept. ``linked``: each
    run begins a trace of its own, linked to the one it was sent in. ``logs="sampled"``: of a job whose trace is not
    recorded, log lines below a warning are dropped.
    """
    check_sample(sample)
    if logs not in LOGS:
        raise ConfigError(f"logs is {logs!r}; give one of {', '.join(LOGS)}{did_you_mean(str(logs), LOGS)}")
    if any(isinstance(known, Tracing) for known in app.watchers):
        raise ConfigError(f"app {app.name} is traced already")
    tracing = Tracing(get_tracer("windlass", __version__, tracer_provider), sample, linked)
    app.around_enqueue(tracing.around_send)
    app.around_run(tracing.around_run)
    app.watchers.append(tracing)

    @app.on_stop
    async def flush(state: SimpleNamespace) -> None:
        """Send what the span processor still holds, before the worker is gone."""
        provider = tracer_provider or get_tracer_provider()
        if hasattr(provider, "force_flush"):
            await asyncio.to_thread(tracing.safely, lambda: provider.force_flush(FLUSH_MS), None)

    for tagger in (tag_record, keep_sampled) if logs == "sampled" else (tag_record,):
        if tagger not in taggers:
            taggers.append(tagger)


def check_sample(sample: object) -> None:
    good = isinstance(sample, (int, float)) and not isinstance(sample, bool) and 0 <= sample <= 1
    if sample is not None and not good:
        raise ConfigError(f"sample is {sample!r}; give a part between 0 and 1, such as 0.1 for one trace in ten")


class Came(NamedTuple):
    """What a job's headers carry: the context of a recorded trace, or that of one that is not recorded.

    Jobs sent in one call carry the same bytes and are mostly met in a row, so those are read once.
    """

    meta: bytes | None = None
    recorded: Context | None = None
    unsampled: Context | None = None


class Record:
    """The process span of a run, from its start until the store has answered about it."""

    __slots__ = ("context", "ended", "error", "events", "queue", "span")

    def __init__(self, span: Span, context: Context, queue: str) -> None:
        self.span, self.context, self.queue = span, set_span_in_context(span, context), queue
        self.ended = 0
        self.events: dict[str, None] = {}
        self.error: bytes | None = None

    def note(self, move: Transition | None) -> None:
        """Note what became of the job, or of one job of a batch."""
        event = move.event if move is not None else "lost"
        self.events[event] = None
        if move is not None and event in FAULTS:
            self.error = self.error or move.error

    def end(self) -> None:
        """End the span, even if the code still runs: the job is over, and a thread that was given up may never end."""
        span, at = self.span, self.ended or time_ns()
        outcome = next(iter(self.events), "lost") if len(self.events) < 2 else "mixed"
        span.set_attribute("windlass.outcome", outcome)
        if self.events.keys() & FAULTS:
            info = _error_decoder.decode(self.error) if self.error else ErrorInfo("lost", "the job was lost")
            said = {"exception.type": info.type, "exception.message": info.message}
            if info.traceback:
                said["exception.stacktrace"] = info.traceback
            span.set_attribute("error.type", info.type)
            if self.error:
                span.add_event("exception", said, at)
            span.set_status(StatusCode.ERROR, info.message)
        span.end(at)


class Tracing:
    """The middleware and the watcher of one app."""

    receiver = f"{__name__}:receive"

    def __init__(self, tracer: Tracer, sample: float | None, linked: bool) -> None:
        self._tracer, self._sample, self._linked = tracer, sample, linked
        self._open: dict[Current, Record] = {}
        self._members: dict[Current, Record] = {}  # by member of a batch, which has one span for all
        self._settling: dict[str, Record] = {}
        self._came = Came()

    def safely(self, call: Callable[[], T], otherwise: T) -> T:
        """Call a tracer and log what it raises: a faulty tracer must not harm the job."""
        try:
            return call()
        except Exception:
            log.exception("tracing failed; jobs go on without")
            return otherwise

    def _keeps(self, parent: SpanContext) -> bool:
        """Whether to begin a span. A called job follows its caller; a job that begins a trace is sampled at random."""
        return parent.trace_flags.sampled if parent.is_valid else self._begins()

    def _begins(self) -> bool:
        return self._sample is None or random.random() < self._sample

    # -- send

    async def around_send(self, drafts: list[Draft], call_next: Submit) -> list[Answer]:
        span = self.safely(lambda: self._begin_send(drafts), None) if drafts else None
        if span is None:
            return await call_next(drafts)
        try:
            answers = await call_next(drafts)
        except BaseException as error:
            kind, text = type(error).__qualname__, str(error)
            self.safely(lambda: end_send(span, kind, text), None)
            raise
        refused = next((answer for answer in answers if answer.status not in TAKEN), None)
        kind, text = (refused.status.value, refused.reason) if refused else ("", "")
        self.safely(lambda: end_send(span, kind, text), None)
        return answers

    def _begin_send(self, drafts: list[Draft]) -> Span | None:
        """The span of a call, if it gets one. Its jobs carry the trace in either case."""
        context: Context | None = None
        here = get_current_span()
        if len(drafts) == 1 and PARENT in drafts[0].headers:
            context = spans.extract(drafts[0].headers)  # the caller's own headers win
            here = get_current_span(context)
        if isinstance(here, spans.Unsampled):
            stamp(drafts, spans.inject(context))
            return None
        parent = here.get_span_context()
        if not self._keeps(parent):
            stamp(drafts, spans.inject(context if parent.is_valid else set_span_in_context(spans.Unsampled({}))))
            return None
        said = spans.of_send(drafts)
        span = self._tracer.start_span(spans.span_name(said), context, SpanKind.PRODUCER, said)
        stamp(drafts, spans.inject(set_span_in_context(span, context)))
        return span

    # -- the jobs of schedules

    def firing(self, job: NewJob) -> Told:
        """Begin a trace for a schedule's job. All workers try; the span of one that comes too late is never ended, so
        never seen.
        """
        span = self.safely(lambda: self._begin_fire(job), None)

        def tell(taken: bool) -> None:
            if span is not None and taken:
                self.safely(span.end, None)

        return tell

    def _begin_fire(self, job: NewJob) -> Span | None:
        meta = read_meta(job.meta)
        if PARENT in meta.headers:
            return None
        span, context = None, spans.unsampled_context({})
        if self._begins():
            said = spans.of_fire(job, meta.headers.get(NAME_HEADER, ""))
            span = self._tracer.start_span(spans.span_name(said), Context(), SpanKind.PRODUCER, said)
            context = set_span_in_context(span, Context())
        job.meta = msgspec.structs.replace(meta, headers={**meta.headers, **spans.inject(context)}).encode()
        return span

    # -- process

    def around_run(self, job: Current, call_next: Run) -> Awaitable[Any]:
        """Not a coroutine itself, so that a run of an unsampled trace has nothing more around it than without
        tracing.
        """
        try:
            came = self._came
            if job.claim.meta != came.meta:
                came = self._read(job)
            record: Record | None = None
            if came.recorded is None:
                attach(came.unsampled or Context())  # never detached, as the context belongs to this run
            else:
                record = self._begin_run(job, came.recorded)
        except Exception:
            log.exception("tracing failed; jobs go on without")
            record = None
        return call_next() if record is None else self._run(record, call_next)

    def _read(self, job: Current) -> Came:
        headers = job.headers
        parent = headers.get(PARENT)
        if not parent:
            # A batch has no headers, only its members do, and each member is sampled for itself.
            begins = job.members or self._begins()
            return Came(recorded=Context()) if begins else Came(unsampled=spans.unsampled_context(headers))
        if parent[-1:] in UNSAMPLED_ENDS:
            self._came = Came(job.claim.meta, unsampled=spans.unsampled_context(headers))
        else:
            self._came = Came(job.claim.meta, recorded=spans.extract(headers))
        return self._came

    def _begin_run(self, job: Current, context: Context) -> Record | None:
        """The span of a run. None if it gets none; the code below it is then told so."""
        links: list[Link] = []
        if job.members:
            links = spans.links_to(job.members)
            if not self._keeps_batch(links):
                attach(spans.unsampled_context({}))
                return None
        elif self._linked and job.headers.get(PARENT):
            links = spans.links_to([job])
            context = spans.without_span(context)
        said = spans.of_process(job)
        span = self._tracer.start_span(spans.span_name(said), context, SpanKind.CONSUMER, said, links or None)
        if not span.is_recording():
            attach(set_span_in_context(span, context))
            return None
        record = Record(span, context, job.queue)
        self._open[job] = record
        self._members.update(dict.fromkeys(job.members, record))
        return record

    def _keeps_batch(self, links: Sequence[Link]) -> bool:
        """Whether to record a batch: yes if a member's trace is recorded; if no member has a trace, at random."""
        return any(link.context.trace_flags.sampled for link in links) if links else self._begins()

    async def _run(self, record: Record, call_next: Run) -> Any:
        token = attach(record.context)
        try:
            return await call_next()
        finally:
            detach(token)
            record.ended = time_ns()

    def decided(self, job: Current, move: Transition | None) -> None:
        if self._members and (record := self._members.pop(job, None)) is not None:
            self._note(record, move)
        elif self._open and (record := self._open.pop(job, None)) is not None:
            for member in job.members:
                self._members.pop(member, None)
            if not job.members:
                self._note(record, move)
            self.safely(record.end, None)

    def _note(self, record: Record, move: Transition | None) -> None:
        record.note(move)
        if move is not None:
            self._settling[move.id] = record

    # -- settle

    def answered(self, moves: Sequence[Transition], refused: Collection[str], began: int) -> None:
        """For the time from sending an exchange to the store's answer, a span in each trace it settled jobs of.

        Under load those traces are many; then one span without a parent links to all their runs.
        """
        if not self._settling:
            return
        settled = [(move, record) for move in moves if (record := self._settling.pop(move.id, None)) is not None]
        traces: dict[int, list[tuple[Transition, Record]]] = {}
        for each in settled:
            traces.setdefault(each[1].span.get_span_context().trace_id, []).append(each)
        for theirs in traces.values() if len(traces) <= SETTLES else [settled]:
            self.safely(partial(self._settle, theirs, refused, began), None)

    def _settle(self, settled: list[tuple[Transition, Record]], refused: Collection[str], began: int) -> None:
        records = list(dict.fromkeys(record for _, record in settled))
        said = spans.of_settle(
            [move for move, _ in settled], spans.common(record.queue for record in records), refused
        )  # fmt: skip
        runs = [record.span.get_span_context() for record in records]
        is_one = all(run.trace_id == runs[0].trace_id for run in runs)
        links = [Link(run) for run in (runs[1:] if is_one else runs)]
        context = records[0].context if is_one else Context()
        span = self._tracer.start_span(spans.span_name(said), context, SpanKind.CLIENT, said, links or None, began)
        if "error.type" in said:
            span.set_status(StatusCode.ERROR, "a job had been given to another worker")
        span.end()

    # -- process children

    def carry(self) -> dict[str, str]:
        return self.safely(spans.inject, {})


def receive(headers: dict[str, str]) -> None:
    """In a process child: continue the trace of the child's job."""
    attach(spans.extract(headers))


def stamp(drafts: Sequence[Draft], headers: dict[str, str]) -> None:
    """Put the trace into the headers of jobs. A job that brought a trace of its own keeps it."""
    for draft in drafts:
        if not draft.headers:
            draft.headers = headers
        elif len(drafts) == 1 or PARENT not in draft.headers:
            draft.headers = {**draft.headers, **headers}


def end_send(span: Span, kind: str, text: str) -> None:
    if kind:
        span.set_attribute("error.type", kind)
        span.set_status(StatusCode.ERROR, text)
    span.end()


# -- logs


def tag_record(record: logging.LogRecord) -> bool:
    """Add the names of the current trace and span to a log record; empty outside of a trace."""
    context = get_current_span().get_span_context()
    record.trace_id = f"{context.trace_id:032x}" if context.is_valid else ""
    record.span_id = f"{context.span_id:016x}" if context.is_valid else ""
    return True


def keep_sampled(record: logging.LogRecord) -> bool:
    """Drop records below a warning that were written in a trace that is not recorded."""
    if record.levelno >= logging.WARNING:
        return True
    context = get_current_span().get_span_context()
    return context.trace_flags.sampled or not context.is_valid
