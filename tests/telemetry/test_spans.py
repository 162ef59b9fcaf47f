"""Spans: handed on when nobody listens, sent over OTLP when somebody does."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from headrace import telemetry
from headrace.telemetry.phases import phase_id

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class _Collector(http.server.BaseHTTPRequestHandler):
    bodies: list[bytes]

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector(monkeypatch):
    """An OTLP/HTTP endpoint that this process's telemetry sends to; its received bodies."""
    handler = type("Collector", (_Collector,), {"bodies": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    try:
        yield handler.bodies
    finally:
        telemetry.stop()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def start(monkeypatch):
    """Starts telemetry without touching this process's logging."""
    monkeypatch.setattr("headrace.telemetry.logs.configure", lambda _service: None)
    yield telemetry.start
    telemetry.stop()


def _spans(bodies: list[bytes]):
    requests = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    resources = [resource for request in requests for resource in request.resource_spans]
    return [span for r in resources for scope in r.scope_spans for span in scope.spans]


def test_without_an_endpoint_a_span_hands_its_parent_on() -> None:
    with telemetry.span("process job.submit", PARENT) as span:
        assert span.traceparent == PARENT


def test_without_an_endpoint_a_trace_begins_all_the_same() -> None:
    with telemetry.span("process job.submit") as span:
        assert telemetry.parse(span.traceparent) is not None


def test_without_an_endpoint_no_tracing_library_is_loaded() -> None:
    program = (
        "import sys\nfrom headrace import telemetry\ntelemetry.start('quota')\n"
        "with telemetry.span('x'): pass\n"
        "sys.exit('opentelemetry' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], env={}).returncode == 0


def test_spans_are_sent_under_their_parent(collector, start) -> None:
    start("admission")

    with telemetry.span("process job.submit", PARENT, kind="consumer") as span:
        handed_on = span.traceparent
    telemetry.stop()

    [sent] = _spans(collector)
    assert sent.name == "process job.submit"
    assert sent.parent_span_id.hex() == "00f067aa0ba902b7"
    assert f"00-{sent.trace_id.hex()}-{sent.span_id.hex()}-01" == handed_on


def test_a_span_that_fails_says_so_and_lets_the_error_through(collector, start) -> None:
    start("admission")

    with pytest.raises(ValueError, match="no"), telemetry.span("x", PARENT):
        raise ValueError("no")
    telemetry.stop()

    [sent] = _spans(collector)
    assert sent.status.message == "ValueError: no"


def test_phases_told_twice_are_the_same_spans(collector, start) -> None:
    start("metrics")
    phases = [telemetry.Phase("queued", 1_000, 2_000), telemetry.Phase("running", 2_000, 9_000)]

    telemetry.record_phases("train-7qk2", 1, PARENT, phases)
    telemetry.record_phases("train-7qk2", 1, PARENT, phases)
    telemetry.stop()

    sent = _spans(collector)
    assert [(s.name, s.start_time_unix_nano, s.end_time_unix_nano) for s in sent[:2]] == [
        ("queued", 1_000_000, 2_000_000),
        ("running", 2_000_000, 9_000_000),
    ]
    assert [s.span_id for s in sent[:2]] == [s.span_id for s in sent[2:]]
    assert sent[0].span_id.hex() == phase_id("train-7qk2", 1, "queued")


def test_an_endpoint_that_is_away_delays_nothing(monkeypatch, start) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    start("admission")

    for _ in range(5_000):
        with telemetry.span("x", PARENT) as span:
            assert span.traceparent != PARENT
