"""The names and attributes of spans, by OpenTelemetry's conventions for messaging, and how a trace travels in a job's
headers.

Values in, values out: it begins no spans and keeps none.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence

from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from windlass.calls.context import Current
from windlass.core.draft import Draft
from windlass.core.job import NewJob
from windlass.core.lifecycle import Transition

Attributes = dict[str, str | int]

PARENT, STATE, BAGGAGE = "traceparent", "tracestate", "baggage"
UNSAMPLED_ENDS = frozenset("02468ace")
"""A ``traceparent`` that ends so names a trace that is not recorded: its flags are hexadecimal, the last bit counts."""

# The key of the span in a context. It has no public name, and the public way to set it copies the context twice.
(_SPAN,) = set_span_in_context(INVALID_SPAN, Context())
_trace, _baggage = TraceContextTextMapPropagator(), W3CBaggagePropagator()


# -- headers


def inject(context: Context | None = None) -> dict[str, str]:
    """A context, by default the current one, as headers."""
    headers: dict[str, str] = {}
    span = get_current_span(context)
    if isinstance(span, Unsampled):
        headers.update(span.headers)
    else:
        _trace.inject(headers, context)
    _baggage.inject(headers, context)
    return headers


def extract(headers: Mapping[str, str]) -> Context:
    """The context that headers carry. Nothing of the current one is used: a worker's own trace is not the job's."""
    return _baggage.extract(headers, _trace.extract(headers, Context()))


class Unsampled(NonRecordingSpan):
    """Marks a context whose trace is not recorded: no spans begin below it, and its trace id travels on.

    Its headers are read only when they are asked for, which most jobs never do.
    """

    __slots__ = ("_known", "_read")

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._read: Mapping[str, str] = headers
        self._known: SpanContext | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers of its trace; a job that came without any gets a trace id here."""
        if PARENT not in self._read:
            self._read = {PARENT: f"00-{random.getrandbits(128) or 1:032x}-{random.getrandbits(64) or 1:016x}-00"}
        return {name: self._read[name] for name in (PARENT, STATE) if name in self._read}

    def get_span_context(self) -> SpanContext:
        if self._known is None:
            self._known = get_current_span(_trace.extract(self.headers, Context())).get_span_context()
        return self._known

    def __repr__(self) -> str:
        return f"Unsampled({self.headers[PARENT]})"


def unsampled_context(headers: Mapping[str, str]) -> Context:
    """The context in which a job of an unsampled trace runs."""
    if BAGGAGE in headers:
        return set_span_in_context(Unsampled(headers), _baggage.extract(headers, Context()))
    return Context({_SPAN: Unsampled(headers)})


def without_span(context: Context) -> Context:
    """The baggage of a context, without its trace."""
    nothing = SpanContext(0, 0, is_remote=False, trace_flags=TraceFlags(0))
    return set_span_in_context(NonRecordingSpan(nothing), context)


def links_to(jobs: Iterable[Current]) -> list[Link]:
    """Links from these jobs to the spans that sent them, where those are known."""
    found = [(job.id, get_current_span(extract(job.headers)).get_span_context()) for job in jobs]
    return [Link(context, {"messaging.message.id": id}) for id, context in found if context.is_valid]


# -- attributes


def operation(kind: str, queue: str) -> Attributes:
    said: Attributes = {
        "messaging.system": "windlass",
        "messaging.operation.name": kind,
        "messaging.operation.type": kind,
    }
    if queue:
        said["messaging.destination.name"] = queue
    return said


def span_name(said: Attributes) -> str:
    """The name of a span: ``send emails``; without the queue if there are several."""
    return f"{said['messaging.operation.name']} {said.get('messaging.destination.name', '')}".rstrip()


def of_send(drafts: Sequence[Draft]) -> Attributes:
    """The attributes of one call, or those that many calls have in common."""
    first = drafts[0]
    said = operation("send", common(draft.resolved.queue for draft in drafts))
    if task := common(draft.task for draft in drafts):
        said["windlass.task"] = task
    if len(drafts) > 1:
        said["messaging.batch.message_count"] = len(drafts)
    else:
        said["messaging.message.id"] = first.id
        said["messaging.message.conversation_id"] = first.correlation_id or first.id
    return said


def of_settle(moves: Sequence[Transition], queue: str, refused: Collection[str]) -> Attributes:
    said = operation("settle", queue)
    said["windlass.outcome"] = common(move.event for move in moves) or "mixed"
    if len(moves) > 1:
        said["messaging.batch.message_count"] = len(moves)
    else:
        said["messaging.message.id"] = moves[0].id
    if any(move.id in refused for move in moves):
        said["error.type"] = "refused"
    return said


def common(values: Iterable[str]) -> str:
    """The value, if all are equal; else nothing."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""


def of_fire(job: NewJob, schedule: str) -> Attributes:
    said = operation("send", job.queue)
    said |= {"messaging.message.id": job.id, "windlass.task": job.task, "windlass.schedule": schedule}
    return said


def of_process(job: Current) -> Attributes:
    claim, members = job.claim, job.members
    said = operation("process", claim.queue)
    said["windlass.task"] = claim.task
    if members:
        said["messaging.batch.message_count"] = len(members)
        return said
    said["messaging.message.id"] = claim.id
    said["messaging.message.conversation_id"] = job.correlation_id
    said["windlass.attempt"] = job.attempt
    if claim.claimed_at:
        said["windlass.waited_ms"] = max(0, claim.claimed_at - max(claim.enqueued_at, claim.due_at))
    if claim.graph:
        said["windlass.workflow"] = claim.graph
    return said
