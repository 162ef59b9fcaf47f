"""Finished spans over OTLP/HTTP, with OpenTelemetry's own batching exporter.

Rule: imported only when an endpoint is set. The queue is bounded; under pressure spans are dropped,
never work delayed.
"""

from __future__ import annotations

import logging
import threading

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from headrace.telemetry.spans import Span
from headrace.telemetry.traceparent import parse

QUEUE_SPANS_MAX = 4_096  # more are dropped
BATCH_SPANS_MAX = 512
DELAY_MS = 1_000  # a span waits at most this long for company
SEND_MS_MAX = 2_000

_KINDS = {
    "internal": SpanKind.INTERNAL,
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
}


class OtlpExporter:
    """Sends spans to `OTEL_EXPORTER_OTLP_ENDPOINT`."""

    def __init__(self, service: str) -> None:
        names = {"service.name": f"headrace-{service}", "service.namespace": "headrace"}
        self._resource = Resource.create(names)
        self._sender = OTLPSpanExporter(timeout=SEND_MS_MAX / 1000)
        self._processor = BatchSpanProcessor(
            self._sender,
            max_queue_size=QUEUE_SPANS_MAX,
            schedule_delay_millis=DELAY_MS,
            max_export_batch_size=BATCH_SPANS_MAX,
            export_timeout_millis=SEND_MS_MAX,
        )
        logging.getLogger("opentelemetry").setLevel(logging.ERROR)

    def end(self, span: Span) -> None:
        """Queue a finished span."""
        context, parent = _context(span.traceparent), _context(span.parent)
        status = Status(StatusCode.ERROR, span.error) if span.error else Status()
        self._processor.on_end(
            ReadableSpan(
                name=span.name,
                context=context,
                parent=parent,
                resource=self._resource,
                attributes=dict(span.attributes),
                kind=_KINDS[span.kind],
                status=status,
                start_time=span.start_ns,
                end_time=span.end_ns,
            )
        )

    def stop(self) -> None:
        """Send what is queued, for at most `SEND_MS_MAX`: the library's own limits on flushing do
        not hold while it repeats an attempt.
        """
        flush = threading.Thread(target=self._processor.force_flush, daemon=True)
        flush.start()
        flush.join(SEND_MS_MAX / 1000)
        self._sender.shutdown()  # type: ignore[no-untyped-call]
        self._processor.shutdown()  # type: ignore[no-untyped-call]


def _context(traceparent: str) -> SpanContext | None:
    ids = parse(traceparent)
    if ids is None:
        return None
    flags = TraceFlags(int(ids.flags, 16))
    return SpanContext(int(ids.trace, 16), int(ids.span, 16), is_remote=True, trace_flags=flags)
