"""The AsyncAPI 3.0 document: every channel of the bus, what travels on it, and who sends it.

Rule: generated from the Structs that are read and written, complete in itself but for the log's own
events, whose schemas are files beside it. One name everywhere: the tag `noun.verb.v1` is the message,
the schema's file, and the last three tokens of the subject. The verbs are those that the access table
lets publishers ask for.

`python -m headrace.runtime.pipelines.asyncapi proto-schemas` writes it, `--check` tells whether it is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import msgspec

from headrace.access.table import MAY
from headrace.documents.job_file import JobFile
from headrace.events import EVENTS, Event, Refusal, jobs, pauses, tag_of
from headrace.runtime.asking import JobEnding, JobNamed
from headrace.runtime.inbox import POST_ANSWERED, POST_REFUSED
from headrace.runtime.pipelines.cloud_events import JSON, SPEC_VERSION, STRUCTURED
from headrace.runtime.pipelines.outcomes_door import Next

FILE = "asyncapi.json"
PUBLISHER = "publisher"
_REF = "#/components/schemas/{name}"
_ANSWER, _OUTCOMES = "answer", "outcomes.next"

BODIES: dict[str, tuple[type[Event], type[msgspec.Struct], str]] = {
    "submit": (jobs.JobRequested, JobFile, "A job file."),
    "cancel": (jobs.JobCancelRequested, JobEnding, "End a job, or all of a sweep's or array's."),
    "pause": (pauses.JobPauseRequested, JobNamed, "Free a job's GPUs and keep it."),
    "resume": (pauses.JobResumeRequested, JobNamed, "Let a paused job go on."),
}
"""What records a request about jobs, what its body is, and what it is for."""

VERBS = tuple(
    f"{noun}.{verb}"
    for (noun, verb), roles in MAY.items()
    if noun == "job" and verb != "read" and PUBLISHER in roles
)
"""What a publisher may ask for."""


class Answer(msgspec.Struct, kw_only=True):
    """What the asker is told. A position of the log means that it stands there."""

    accepted: bool
    position: int
    job: str = ""
    warning: str = ""
    message: str = ""
    refusal: Refusal | None = None


class PostAnswer(Answer, kw_only=True):
    """What a project is told of a post of which no event of the log tells. `key` is the post's `ce-id`;
    without one it is about all that is posted.
    """

    type: str
    project: str
    name: str = ""
    key: str = ""
    reason: str = ""


def main(arguments: list[str]) -> int:
    """Write the document into the folder, or with `--check` return 1 if it is stale there."""
    check, places = "--check" in arguments, [a for a in arguments if a != "--check"]
    if len(places) != 1:
        print(
            "usage: python -m headrace.runtime.pipelines.asyncapi FOLDER [--check]", file=sys.stderr
        )
        return 2
    path = Path(places[0]) / FILE
    data = msgspec.json.format(msgspec.json.encode(document(listeners())), indent=2) + b"\n"
    if not check:
        path.write_bytes(data)
        return 0
    if path.exists() and path.read_bytes() == data:
        return 0
    print(f"{FILE} is stale: run make schemas")
    return 1


def listeners() -> dict[str, tuple[type[Event], ...]]:
    """What each registered service folds."""
    points = sorted(entry_points(group="headrace.deciders"), key=lambda point: point.name)
    return {point.name: point.load().listens_to for point in points}


def document(folded: Mapping[str, tuple[type[Event], ...]]) -> dict[str, Any]:
    """The whole document; `folded` are the events each service folds."""
    told = [event for event in EVENTS if event.public]
    structs = (JobFile, JobNamed, JobEnding, Answer, PostAnswer, Next, *told)
    _, schemas = msgspec.json.schema_components(structs, ref_template=_REF)
    messages: dict[str, Any] = {tag_of(event): _message(event) for event in EVENTS}
    messages |= {f"public.{tag_of(event)}": _public(event, schemas) for event in told}
    for kind in (POST_ANSWERED, POST_REFUSED):
        messages[kind] = _told(kind, "The answer to a post.", _ref("PostAnswer"))
    for verb in VERBS:
        messages |= _requests(verb)
    messages[_ANSWER] = {"name": _ANSWER, "contentType": JSON, "payload": _ref("Answer")}
    messages["receipt"] = {
        "name": "receipt",
        "summary": "The headers of a post, and no body.",
        "headers": _headers(REQUEST_HEADERS),
        "payload": {"type": "null"},
    }
    messages["outcomes.question"] = {
        "name": "outcomes.question",
        "contentType": JSON,
        "payload": _ref("Next"),
    }
    messages["outcomes.events"] = {
        "name": "outcomes.events",
        "contentType": JSON,
        "payload": _kept_events(told),
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Headrace",
            "version": version("headrace"),
            "description": "Events, requests and outcomes on the bus. `publisher.*` operations are "
            "what the holder of a publisher's credential may do, and all that it may.",
        },
        "defaultContentType": JSON,
        "servers": SERVERS,
        "channels": _channels(told),
        "operations": _operations(folded, told),
        "components": {
            "schemas": schemas,
            "messages": messages,
            "securitySchemes": {
                "credential": {
                    "type": "asymmetricEncryption",
                    "description": "A NATS user JWT, and the server's nonce signed with its NKey: the "
                    "file that `headrace publisher create` writes.",
                }
            },
        },
    }


SERVERS: dict[str, Any] = {
    "local": {
        "host": "127.0.0.1:7422",
        "protocol": "nats",
        "description": "The embedded bus of `headrace up`.",
        "security": [{"$ref": "#/components/securitySchemes/credential"}],
    },
    "fleet": {
        "host": "{host}:{port}",
        "protocol": "nats",
        "description": "Over TLS (`tls://`); `headrace status` and `/v1/status` say where it is.",
        "variables": {
            "host": {"description": "Where the gateway is reached."},
            "port": {"default": "7422"},
        },
        "security": [{"$ref": "#/components/securitySchemes/credential"}],
    },
}
REQUEST_HEADERS = {
    "ce-specversion": {"type": "string", "const": SPEC_VERSION},
    "ce-id": {
        "type": "string",
        "minLength": 1,
        "maxLength": 200,
        "description": "With the source, the idempotency key.",
    },
    "ce-source": {"type": "string", "minLength": 1, "maxLength": 200},
    "ce-type": {"type": "string", "description": "headrace.<noun>.<verb>.v1, as the subject."},
    "traceparent": {"type": "string", "description": "W3C trace context."},
}
OUTCOME_HEADERS = {
    "ce-specversion": {"type": "string", "const": SPEC_VERSION},
    "ce-id": {
        "type": "string",
        "description": "The position in the log; of posts, one of their own.",
    },
    "ce-source": {"type": "string", "const": "/headrace"},
    "ce-type": {"type": "string"},
    "ce-time": {"type": "string", "format": "date-time"},
    "ce-subject": {"type": "string", "description": "The job's id."},
    "ce-datacontenttype": {"type": "string", "const": JSON},
    "ce-sequence": {"type": "string", "description": "The position in the log, of equal length."},
    "ce-correlationid": {
        "type": "string",
        "description": "`ce-id` of the request that it answers.",
    },
    "ce-correlationsource": {"type": "string", "description": "Its `ce-source`."},
    "traceparent": {"type": "string", "description": "W3C trace context."},
}
ALWAYS = ("ce-specversion", "ce-id", "ce-source", "ce-type")
SUBMISSION = {
    "name": {"type": "string", "description": "The job's name, as its job file says it."},
    "key": {"type": "string", "description": "`ce-id` of the request that submitted it."},
    "reason": {"type": "string", "description": "Why, when something was refused or went wrong."},
}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": _REF.format(name=name)}


def _headers(properties: Mapping[str, Any], *more: str) -> dict[str, Any]:
    return {"type": "object", "required": [*ALWAYS, *more], "properties": dict(properties)}


def _channels(told: list[type[Event]]) -> dict[str, Any]:
    channels = {f"log.{tag_of(event)}": _log(event) for event in EVENTS}
    for tag in (*map(tag_of, told), POST_ANSWERED, POST_REFUSED):
        channels[f"event.{tag}"] = _outcome(tag)
    for verb in VERBS:
        channels |= {f"{door}.{verb}": _door(door, verb) for door in ("request", "post", "posted")}
    text = "Of durable publishers: the outcomes that were not acknowledged yet, and the next ones."
    address = "headrace.outcomes.{project}.{publisher}.next"
    channels[_OUTCOMES] = _channel(address, text, "outcomes.question", "outcomes.events")
    channels[_ANSWER] = {
        "address": None,
        "description": "The publisher's own inbox, `_INBOX_pub_<project>_<publisher>.…`.",
        "messages": _messages_of(_ANSWER, "outcomes.events"),
    }
    return channels


def _log(event: type[Event]) -> dict[str, Any]:
    return _channel(f"headrace.log.{tag_of(event)}", "For services only.", tag_of(event))


def _outcome(tag: str) -> dict[str, Any]:
    text = "A project's own events, public fields only."
    name = f"public.{tag}"
    if tag in (POST_ANSWERED, POST_REFUSED):
        text = "Of a post of which no new event tells; `ce-correlationid` is its key."
        name = tag
    return _channel(f"headrace.event.{{project}}.{tag}", text, name)


def _door(door: str, verb: str) -> dict[str, Any]:
    texts = {
        "request": "Answered at once with a position of the log; no reply: repeat with the same key.",
        "post": (
            "Not acknowledged. What is kept gets a receipt on `headrace.posted.…` and is answered by an "
            "event with the key. Without a receipt: send it again, with the same key."
        ),
        "posted": "The bus keeps the message with these headers; nothing is decided yet.",
    }
    subject = f"headrace.{door}.{{project}}.{{publisher}}.{verb.replace('_', '-')}"
    names = ("receipt",) if door == "posted" else (f"{verb}.v1", f"{verb}.v1.structured")
    return _channel(subject, texts[door], *names)


def _channel(address: str, description: str, *messages: str) -> dict[str, Any]:
    channel: dict[str, Any] = {"address": address, "description": description}
    if "{project}" in address:
        channel["parameters"] = {"project": {"description": "The project's id."}}
    if "{publisher}" in address:
        channel["parameters"]["publisher"] = {"description": "The name of who sends: no other may."}
    channel["messages"] = _messages_of(*messages)
    return channel


def _messages_of(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/messages/{name}"} for name in names}


def _message(event: type[Event]) -> dict[str, Any]:
    return {
        "name": tag_of(event),
        "summary": (event.__doc__ or "").strip().splitlines()[0],
        "payload": {"$ref": f"schemas/{tag_of(event)}.json"},
    }


def _public(event: type[Event], schemas: dict[str, Any]) -> dict[str, Any]:
    """What is told of an event, as a schema of its own; the event's whole schema is dropped."""
    name, fields = f"Public{event.__name__}", schemas.pop(event.__name__)["properties"]
    properties = {field: fields[field] for field in event.public}
    if "job" in properties:
        properties = {**SUBMISSION, **properties}
    properties |= {
        "type": {"type": "string", "const": tag_of(event)},
        "position": {"type": "integer", "description": "Where in the log it stands."},
    }
    schemas[name] = {
        "title": name,
        "type": "object",
        "required": sorted(properties),
        "properties": properties,
    }
    return _told(tag_of(event), (event.__doc__ or "").strip().splitlines()[0], _ref(name))


def _told(tag: str, summary: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": tag,
        "summary": summary,
        "contentType": JSON,
        "headers": _headers(
            OUTCOME_HEADERS | {"ce-type": {"type": "string", "const": f"headrace.{tag}"}},
            "ce-time",
            "ce-datacontenttype",
        ),
        "payload": payload,
    }


def _requests(verb: str) -> dict[str, Any]:
    """The request in both modes of CloudEvents."""
    fact, body, text = BODIES[verb.partition(".")[2]]
    kind = {"type": "string", "const": f"headrace.{verb}.v1"}
    summary = f"{text} Recorded as {tag_of(fact)}."
    attributes = {name.removeprefix("ce-"): schema for name, schema in REQUEST_HEADERS.items()}
    attributes |= {
        "type": kind,
        "datacontenttype": {"type": "string", "const": JSON},
        "time": {"type": "string", "format": "date-time"},
        "data": _ref(body.__name__),
    }
    return {
        f"{verb}.v1": {
            "name": f"headrace.{verb}.v1",
            "summary": summary,
            "contentType": JSON,
            "headers": _headers(REQUEST_HEADERS | {"ce-type": kind}),
            "payload": _ref(body.__name__),
        },
        f"{verb}.v1.structured": {
            "name": f"headrace.{verb}.v1",
            "summary": f"{summary} In structured mode.",
            "contentType": STRUCTURED,
            "headers": {
                "type": "object",
                "required": ["content-type"],
                "properties": {"content-type": {"type": "string", "const": STRUCTURED}},
            },
            "payload": {
                "type": "object",
                "required": ["specversion", "id", "source", "type", "data"],
                "properties": attributes,
            },
        },
    }


def _kept_events(told: list[type[Event]]) -> dict[str, Any]:
    """CloudEvents in structured mode, each with what acknowledges it."""
    attributes = {name.removeprefix("ce-"): schema for name, schema in OUTCOME_HEADERS.items()}
    data = [_ref(f"Public{event.__name__}") for event in told]
    event = {
        "type": "object",
        "required": [name.removeprefix("ce-") for name in ALWAYS] + ["time", "data"],
        "properties": attributes | {"data": {"anyOf": [*data, _ref("PostAnswer")]}},
    }
    entry = {
        "type": "object",
        "required": ["ack", "event"],
        "properties": {"ack": {"type": "string"}, "event": event},
    }
    return {
        "type": "object",
        "required": ["events"],
        "properties": {"events": {"type": "array", "items": entry}},
    }


def _operations(
    folded: Mapping[str, tuple[type[Event], ...]], told: list[type[Event]]
) -> dict[str, Any]:
    operations: dict[str, Any] = {}
    for name, listened in folded.items():
        for event in EVENTS:
            if event.owner in {name, "*"}:
                tag = tag_of(event)
                operations[f"{name}.sends.{tag}"] = _operation("send", f"log.{tag}")
        for event in listened:
            tag = tag_of(event)
            operations[f"{name}.receives.{tag}"] = _operation("receive", f"log.{tag}")
    for tag in (*map(tag_of, told), POST_ANSWERED, POST_REFUSED):
        operations[f"publisher.hears.{tag}"] = _operation("send", f"event.{tag}")
    for verb in VERBS:
        operations[f"publisher.requests.{verb}"] = _answered(f"request.{verb}", _ANSWER)
        operations[f"publisher.posts.{verb}"] = _operation("receive", f"post.{verb}")
        operations[f"publisher.posted.{verb}"] = _operation("send", f"posted.{verb}")
    operations["publisher.fetches.outcomes"] = _answered(_OUTCOMES, "outcomes.events")
    operations["publisher.fetches.outcomes"]["messages"] = [
        {"$ref": f"#/channels/{_OUTCOMES}/messages/outcomes.question"}
    ]
    return operations


def _operation(action: str, channel: str) -> dict[str, Any]:
    return {"action": action, "channel": {"$ref": f"#/channels/{channel}"}}


def _answered(channel: str, answer: str) -> dict[str, Any]:
    return _operation("receive", channel) | {
        "reply": {
            "address": {"location": "$message.header#/reply"},
            "channel": {"$ref": f"#/channels/{_ANSWER}"},
            "messages": [{"$ref": f"#/channels/{_ANSWER}/messages/{answer}"}],
        }
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
