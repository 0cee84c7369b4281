"""Spans as tests look at them: of this process from memory, of others from a file that each appends to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult


class Seen:
    """One finished span."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.name: str = fields["name"]
        self.trace: str = fields["trace"]
        self.id: str = fields["id"]
        self.parent: str = fields["parent"]
        self.kind: str = fields["kind"]
        self.status: str = fields["status"]
        self.said: dict[str, Any] = fields["said"]
        self.links: list[str] = fields["links"]
        self.events: list[str] = fields["events"]
        self.pid: int = fields["pid"]

    @property
    def what(self) -> str:
        return str(self.said.get("messaging.operation.type", ""))

    @property
    def outcome(self) -> str:
        return str(self.said.get("windlass.outcome", ""))

    def __repr__(self) -> str:
        return f"<{self.name} {self.said.get('windlass.task', '')} {self.id} in {self.trace[:6]} below {self.parent}>"


def fields_of(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context()
    assert context is not None
    return {
        "name": span.name, "trace": f"{context.trace_id:032x}", "id": f"{context.span_id:016x}",
        "parent": f"{span.parent.span_id:016x}" if span.parent else "", "kind": span.kind.name,
        "status": span.status.status_code.name, "said": dict(span.attributes or {}),
        "links": [f"{link.context.span_id:016x}" for link in span.links],
        "events": [event.name for event in span.events], "pid": os.getpid(),
    }  # fmt: skip


class Lines(SpanExporter):
    """One line per span; appends of one line are atomic."""

    def __init__(self, path: Path | str) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        text = "".join(json.dumps(fields_of(span)) + "\n" for span in spans)
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
        return SpanExportResult.SUCCESS


class Book:
    """All spans that were written to a file, by whatever process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(Lines(path)))
        self.tracer = self.provider.get_tracer("test")

    def all(self) -> list[Seen]:
        if not self.path.exists():
            return []
        whole, _, _ = self.path.read_text().rpartition("\n")  # behind that a line may be half written
        return [Seen(json.loads(line)) for line in whole.splitlines()]

    def find(self, what: str = "", **said: Any) -> list[Seen]:
        """Spans of one operation (or name) with these attributes; ``task`` is enough of its name."""
        task = said.pop("task", "")
        return [
            span for span in self.all()
            if what in ("", span.what, span.name)
            and str(span.said.get("windlass.task", "")).endswith(task)
            and all(span.said.get(f"windlass.{name}") == value for name, value in said.items())
        ]  # fmt: skip

    def one(self, what: str = "", **said: Any) -> Seen:
        (span,) = self.find(what, **said)
        return span

    def has(self, count: int, what: str = "", **said: Any) -> Callable[[], list[Seen]]:
        """To wait for: so many of them."""
        return lambda: found if len(found := self.find(what, **said)) >= count else []
