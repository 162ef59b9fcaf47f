"""What a project is told of an event: on the bus, and by webhooks.

Rule: only an event's public fields, and only to its own project. The position is the message's id.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from headrace.events import CATALOGUE, decode, decode_header, project_of
from headrace.runtime.inbox import GATEWAY_SOURCE
from headrace.store.interface import Stored


class Outcome(msgspec.Struct, frozen=True):
    """A message about an event: JSON, and headers of CloudEvents 1.0 in binary mode."""

    project: str
    type: str
    body: bytes
    headers: dict[str, str]


def outcome_of(event: Stored) -> Outcome | None:
    """What the event's project is told; None when it is nothing. Raises `ValueError` for an event
    that cannot be read, or that is recorded for another project than it is about.
    """
    type_ = CATALOGUE.get(event.type)
    if type_ is None or not type_.public or not event.project:
        return None
    decoded = decode(event.type, event.data)
    if project_of(decoded) != event.project:
        raise ValueError(f"recorded for project {event.project}, about {project_of(decoded)}")
    body = {name: getattr(decoded, name) for name in type_.public}
    body["type"], body["position"] = event.type, event.position
    header = decode_header(event.header)
    headers = {
        "ce-specversion": "1.0",
        "ce-id": str(event.position),
        "ce-source": "/headrace",
        "ce-type": f"headrace.{event.type}",
        "ce-time": datetime.fromtimestamp(event.recorded_at_us / 1e6, UTC).isoformat(),
        "ce-subject": header.correlation,
        "ce-sequence": f"{event.position:020d}",
    }
    if header.request_key:
        headers["ce-correlationid"] = header.request_key
        if not header.request_source.startswith(GATEWAY_SOURCE):  # that names a person
            headers["ce-correlationsource"] = header.request_source
    if header.traceparent:
        headers["traceparent"] = header.traceparent
    return Outcome(event.project, event.type, msgspec.json.encode(body), headers)
