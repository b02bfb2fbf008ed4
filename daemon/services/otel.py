"""The OpenTelemetry SDK as the sender of spans: the only place that imports it (extra `otel`)."""

from collections.abc import Sequence
from datetime import datetime

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from daemon.services.spans import WorkSpan, make_id

TRACE_BYTES, SPAN_BYTES = 16, 8


class NamedIds(IdGenerator):
    """The ids that the next span is to have."""

    trace, span = 1, 1

    def generate_trace_id(self) -> int:
        """Of the whole piece of work."""
        return self.trace

    def generate_span_id(self) -> int:
        """Of one span."""
        return self.span


class OtelSender:
    """Spans wait in memory, at most some thousands, until a thread of the SDK has sent them."""

    def __init__(
        self, endpoint: str, headers: dict[str, str], version: str, timeout_s: float
    ) -> None:
        self.ids = NamedIds()
        about = {"service.name": "aidaemon", "service.version": version}
        self.provider = TracerProvider(resource=Resource(about), id_generator=self.ids)
        exporter = OTLPSpanExporter(endpoint=endpoint, headers=headers, timeout=timeout_s)
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer = self.provider.get_tracer("aidaemon", version)

    def send(self, spans: Sequence[WorkSpan], top: str) -> None:
        """Those of one turn, in the trace of the turn at its top."""
        self.ids.trace = trace = make_id(top, TRACE_BYTES)
        for span in spans:
            context = None
            if span.parent:
                flags = TraceFlags(TraceFlags.SAMPLED)
                above = SpanContext(trace, make_id(span.parent, SPAN_BYTES), False, flags)
                context = set_span_in_context(NonRecordingSpan(above))
            self.ids.span = make_id(span.key, SPAN_BYTES)
            made = self.tracer.start_span(
                span.name,
                context,
                SpanKind.CLIENT if span.is_call else SpanKind.INTERNAL,
                dict(span.attributes),
                start_time=_to_ns(span.began),
            )
            if span.error:
                made.set_attribute("error.type", span.error)
                made.set_status(Status(StatusCode.ERROR))
            made.end(_to_ns(span.ended))

    def close(self) -> None:
        """Send what waits still."""
        self.provider.shutdown()


def _to_ns(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
