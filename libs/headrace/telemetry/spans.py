"""Spans: how long something took, as part of a trace.

Rule: with no endpoint set, a span costs two attribute writes and hands its parent's traceparent on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Protocol, Self

from headrace.telemetry import logs, traceparent

Kind = Literal["internal", "server", "client", "producer", "consumer"]
Attributes = Mapping[str, str | int | bool]

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Exporter(Protocol):
    """Whoever takes finished spans."""

    def end(self, span: Span) -> None:
        """Take the span; must not block, and may drop it."""
        ...

    def stop(self) -> None:
        """Send what is waiting, within a few seconds."""
        ...


_exporter: Exporter | None = None


def start(service: str) -> None:
    """Set up this process's log lines, and spans when an endpoint is set. `service` names both."""
    global _exporter  # noqa: PLW0603
    logs.configure(service)
    if os.environ.get(ENDPOINT) and _exporter is None:
        from headrace.telemetry.otlp import OtlpExporter

        _exporter = OtlpExporter(service)


def stop() -> None:
    """Send what is waiting and record nothing from now on."""
    global _exporter
    exporter, _exporter = _exporter, None
    if exporter is not None:
        exporter.stop()


def is_recording() -> bool:
    """Whether anybody takes spans."""
    return _exporter is not None


class Span:
    """One span, as a context manager. `traceparent` is what to hand on to whatever it causes."""

    __slots__ = (
        "attributes",
        "end_ns",
        "error",
        "kind",
        "name",
        "parent",
        "start_ns",
        "traceparent",
    )

    def __init__(self, name: str, parent: str, kind: Kind, attributes: Attributes) -> None:
        self.name, self.parent, self.kind, self.attributes = name, parent, kind, attributes
        self.start_ns = self.end_ns = 0
        self.error = ""
        self.traceparent = parent

    def __enter__(self) -> Self:
        if _exporter is not None:
            self.traceparent = traceparent.child(self.parent)
            self.start_ns = time.time_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if _exporter is not None and self.start_ns:
            self.end_ns = time.time_ns()
            if kind is not None:
                self.error = f"{kind.__name__}: {error}"
            _exporter.end(self)


def span(
    name: str, parent: str = "", *, kind: Kind = "internal", attributes: Attributes | None = None
) -> Span:
    """A span under the traceparent `parent`, or the first of a new trace:
    `with span("process job.submit", header, kind="consumer") as s: … s.traceparent …`.
    """
    return Span(name, traceparent.continued(parent), kind, attributes or {})


def record(
    name: str, parent: str, *, span_id: str, start_us: int, end_us: int, attributes: Attributes
) -> None:
    """A span that is already over, under a known id (16 hex): recording it again repeats it.

    Nothing is recorded under a `parent` that is not a traceparent.
    """
    if _exporter is None or traceparent.parse(parent) is None:
        return
    finished = Span(name, parent, "internal", attributes)
    finished.traceparent = traceparent.child(parent, span_id)
    finished.start_ns, finished.end_ns = start_us * 1000, max(start_us, end_us) * 1000
    _exporter.end(finished)
