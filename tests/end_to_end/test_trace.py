"""One job is one trace, from whoever asked for it to the worker."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from headrace.client.client import Client

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
CANARY = "canary-that-no-span-shows"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"


class Collector:
    """What an OpenTelemetry collector receives over HTTP: `(service, span)` pairs."""

    def __init__(self):
        collector = self
        self.spans = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def take(self, request):
        for resource in request.resource_spans:
            names = {a.key: a.value.string_value for a in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [(names["service.name"], span) for span in scope.spans]

    def of(self, trace):
        return [(name, span) for name, span in self.spans if span.trace_id.hex() == trace]

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.stop()


def test_one_job_is_one_trace_from_its_sender_to_its_worker(new_platform, collector, tmp_path):
    platform = new_platform(
        "--nodes", "1", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_BSP_SCHEDULE_DELAY="500"
    )
    platform.wait_ready()
    platform.headrace("secret", "set", "WORD", stdin=CANARY)
    command = ["sh", "-c", 'test "$WORD" && echo it is $TRACEPARENT']
    file = tmp_path / "traced.json"
    file.write_text(json.dumps({"name": "traced", "command": command, "secrets": ["WORD"]}))
    platform.env["TRACEPARENT"] = TRACEPARENT  # as in a program that is traced itself
    job = platform.headrace("submit", str(file)).stdout.split()[0]
    del platform.env["TRACEPARENT"]
    client = Client(platform.url, platform.token)
    platform.ended(job)
    assert client.job(job).trace == TRACE
    written = "".join(piece.text for piece in client.logs(job))
    client.close()
    assert written.startswith(f"it is 00-{TRACE}-")

    wanted = {
        ("headrace-gateway", "ask job.submit"),
        ("headrace-admission", "receive job.submit"),
        ("headrace-admission", "decide job.admitted.v1"),
        ("headrace-quota", "decide job.eligible.v1"),
        ("headrace-placement", "decide gang.placed.v1"),
        ("headrace-placement", "decide job.finished.v1"),
        ("headrace-node_agent/n1", "run rank 0"),
    }
    platform.wait(lambda: wanted <= {(name, span.name) for name, span in collector.of(TRACE)})
    platform.wait(lambda: not parents_missing(collector), "no span hangs in the air")
    spans = [span for _, span in collector.of(TRACE)]
    assert len({span.span_id for span in spans}) == len(spans)
    platform.down()
    assert not [span.name for _, span in collector.spans if CANARY.encode() in bytes_of(span)]
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)


def parents_missing(collector):
    """The parents that nobody has told of: a span is told of when it has ended, after its children."""
    spans = [span for _, span in collector.of(TRACE)]
    known = {span.span_id.hex() for span in spans} | {SPAN}
    return {span.parent_span_id.hex() for span in spans} - known


def bytes_of(span):
    return span.SerializeToString()
