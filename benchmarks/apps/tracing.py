"""Tracing for the benchmarks: real spans of the OpenTelemetry SDK, batched, sampled at one in ten, and thrown away."""

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from windlass import Windlass
from windlass.observe.tracing import trace

SAMPLE = 0.1


class _Nowhere(SpanExporter):
    """What a collector would cost is not measured."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def turn_on(app: Windlass) -> None:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
    trace(app, tracer_provider=provider, sample=SAMPLE)
