"""Traces and logs: nothing is loaded, kept or sent unless an endpoint is set.

Rule: a trace goes on whether anybody records it or not. With `OTEL_EXPORTER_OTLP_ENDPOINT` unset no
OpenTelemetry library is imported, and every `traceparent` is handed on as it came.
"""

from headrace.telemetry.phases import Phase, record_phases
from headrace.telemetry.spans import Span, is_recording, record, span, start, stop
from headrace.telemetry.traceparent import Traceparent, child, continued, make, parse, use_random

__all__ = [
    "Phase",
    "Span",
    "Traceparent",
    "child",
    "continued",
    "is_recording",
    "make",
    "parse",
    "record",
    "record_phases",
    "span",
    "start",
    "stop",
    "use_random",
]
