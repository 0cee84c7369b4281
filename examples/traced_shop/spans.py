"""Where spans go: a SQLite file that the server and the worker both write, and the page reads. No collector needed.

With a collector, this file is two lines (``pip install opentelemetry-exporter-otlp-proto-http``):

    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

PATH = os.environ.get("SHOP_SPANS", "traced_shop.spans.db")
DELAY_MS = 200
"""A page that is looked at a moment later should have everything. Real programs leave the five seconds as they are."""


@dataclass(frozen=True)
class Bar:
    """A span as the page draws it. Times are nanoseconds since 1970."""

    id: str
    parent: str
    name: str
    service: str
    begin: int
    end: int
    error: str
    attributes: dict[str, object]


def set_up(service: str) -> None:
    """Record this process's spans as those of ``service``."""
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(FileExporter(), schedule_delay_millis=DELAY_MS))
    trace.set_tracer_provider(provider)


class FileExporter(SpanExporter):
    """Appends spans to the file."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with connect() as file:
            file.executemany("INSERT OR REPLACE INTO spans VALUES (?, ?, ?)", [row_of(span) for span in spans])
        file.close()
        return SpanExportResult.SUCCESS


def row_of(span: ReadableSpan) -> tuple[str, str, str]:
    context, begin = span.get_span_context(), span.start_time or 0
    if context is None:
        raise ValueError(f"{span.name} has no context")
    body = {
        "parent": f"{span.parent.span_id:016x}" if span.parent else "", "name": span.name,
        "service": str(span.resource.attributes.get("service.name", "")), "begin": begin, "end": span.end_time or begin,
        "error": "" if span.status.is_ok else span.status.description or "error",
        "attributes": dict(span.attributes or {}),
    }  # fmt: skip
    return f"{context.trace_id:032x}", f"{context.span_id:016x}", json.dumps(body)


def connect() -> sqlite3.Connection:
    file = sqlite3.connect(PATH, timeout=10)
    file.execute("CREATE TABLE IF NOT EXISTS spans (trace TEXT, id TEXT, body TEXT, PRIMARY KEY (trace, id))")
    return file


def read(trace_id: str) -> list[Bar]:
    """The spans of a trace, by when they began."""
    file = connect()
    rows = file.execute("SELECT id, body FROM spans WHERE trace = ?", [trace_id]).fetchall()
    file.close()
    return sorted((Bar(id=id, **json.loads(body)) for id, body in rows), key=lambda bar: bar.begin)
