"""The CloudEvents 1.0 envelope of a publisher's message, in binary or in structured mode.

Rule: both modes give the same request, so that a message repeated in the other mode is no other
request. What can be read of an envelope is kept even if the rest is refused: a refusal that names the
message's id can be found again by its sender.
Format: the CloudEvents NATS binding. A content type `application/cloudevents…` means structured mode,
anything else binary mode.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.bus.interface import Message
from headrace.documents.refusing import shown
from headrace.events import Refusal
from headrace.store.interface import EVENT_BYTES_MAX

SPEC_VERSION = "1.0"
STRUCTURED = "application/cloudevents+json"
JSON = "application/json"
ANY_STRUCTURED = "application/cloudevents"  # how the content types of all formats begin
TOO_LARGE = Refusal(
    field="message",
    rule=f"a request may have at most {EVENT_BYTES_MAX} bytes",
    instead="put large data into a volume or the job's workdir",
)
_TEXTS = (
    "id",
    "source",
    "type",
    "specversion",
    "datacontenttype",
    "traceparent",
    "subject",
    "time",
)


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes that Headrace reads, and the data. `prefix` is how the mode writes the names."""

    id: str = ""
    source: str = ""
    type: str = ""
    specversion: str = ""
    traceparent: str = ""
    data: bytes = b""
    prefix: str = "ce-"


def cloud_event(*, id: str, type: str, at_us: int, subject: str = "") -> dict[str, str]:  # noqa: A002
    """The headers, in binary mode, of an event that Headrace tells."""
    headers = {
        "ce-specversion": SPEC_VERSION,
        "ce-id": id,
        "ce-source": "/headrace",
        "ce-type": f"headrace.{type}",
        "ce-time": datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(),
    }
    return headers | ({"ce-subject": subject} if subject else {})


def read_envelope(message: Message) -> tuple[Envelope, Refusal | None]:
    """The envelope, as far as it can be read, and what keeps it from being one."""
    if len(message.data) > EVENT_BYTES_MAX:
        return _binary(message), TOO_LARGE
    kind = _content_type(message.headers)
    if not kind.startswith(ANY_STRUCTURED):
        return _binary(message), None
    if kind != STRUCTURED:
        rule = "is a format that is not read here"
        return _binary(message), Refusal(
            field="content-type", value=shown(kind), rule=rule, instead=STRUCTURED
        )
    return _structured(message.data)


def _content_type(headers: Mapping[str, str]) -> str:
    """In lower case, without parameters. NATS leaves the case of header names to their sender."""
    found = next((text for name, text in headers.items() if name.lower() == "content-type"), "")
    return found.partition(";")[0].strip().lower()


def _binary(message: Message) -> Envelope:
    get = message.headers.get
    return Envelope(
        id=get("ce-id", ""),
        source=get("ce-source", ""),
        type=get("ce-type", ""),
        specversion=get("ce-specversion", ""),
        traceparent=get("traceparent", ""),
        data=message.data,
    )


def _structured(text: bytes) -> tuple[Envelope, Refusal | None]:
    try:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        refusal = Refusal(
            field="message",
            rule=shown(error) or "cannot be read",
            instead="a CloudEvent as a JSON object: specversion, id, source, type and data",
        )
        return Envelope(prefix=""), refusal
    attributes: dict[str, str] = {}
    refusals: list[Refusal] = []
    for name in _TEXTS:
        try:
            value = msgspec.json.decode(fields.get(name, b"null"), type=str | None)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            refusals.append(_not_text(name, fields[name], error))
        else:
            attributes[name] = value or ""
    data = _data_of(fields, attributes)
    refusals += [found for found in (_time_refusal(attributes), data) if isinstance(found, Refusal)]
    envelope = Envelope(
        id=attributes.get("id", ""),
        source=attributes.get("source", ""),
        type=attributes.get("type", ""),
        specversion=attributes.get("specversion", ""),
        traceparent=attributes.get("traceparent", ""),
        data=b"" if isinstance(data, Refusal) else data,
        prefix="",
    )
    return envelope, refusals[0] if refusals else None


def _not_text(name: str, value: Any, error: Exception) -> Refusal:
    text = bytes(value).decode("utf-8", "replace")
    instead = f'"{text}"' if text.replace(".", "").isdigit() and len(text) < 20 else "a text"
    return Refusal(
        field=name, value=shown(text), rule=f"is no text: {shown(error)}", instead=instead
    )


def _time_refusal(attributes: Mapping[str, str]) -> Refusal | None:
    text = attributes.get("time", "")
    if text:
        try:
            msgspec.convert(text, datetime)
        except msgspec.ValidationError:
            rule, instead = "is no time", "such as 2026-11-21T04:00:00Z"
            return Refusal(field="time", value=shown(text), rule=rule, instead=instead)
    return None


def _data_of(fields: Mapping[str, msgspec.Raw], attributes: Mapping[str, str]) -> bytes | Refusal:
    kind = (attributes.get("datacontenttype") or JSON).partition(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        rule = "is a type of data that is not read here"
        return Refusal(field="datacontenttype", value=shown(kind), rule=rule, instead=JSON)
    if "data_base64" not in fields:
        return bytes(fields.get("data", b""))
    if "data" in fields:
        return Refusal(field="data_base64", rule="is not beside data", instead="one of both")
    try:
        text = msgspec.json.decode(fields["data_base64"], type=str)
        return base64.b64decode(text, validate=True)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, binascii.Error, ValueError):
        return Refusal(field="data_base64", rule="is no base64", instead="JSON under data")
