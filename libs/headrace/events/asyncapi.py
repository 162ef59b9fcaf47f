"""The AsyncAPI 3.0 document: every channel of the bus, what travels on it, and who sends it.

Rule: one name everywhere: the tag `noun.verb.v1` is the message, the schema's file, and the last
three tokens of the subject.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.events import EVENTS, Event, jobs, tag_of
from headrace.events.access import (
    ProjectEraseRequested,
    PublisherDeleteRequested,
    PublisherRequested,
    SecretSetRequested,
)
from headrace.events.nodes import NodeChangeRequested
from headrace.events.pools import PoolApplyRequested
from headrace.events.queues import QueueApplyRequested
from headrace.events.scheduling import SchedulingApplyRequested

REQUESTS: dict[str, tuple[type[Event], str]] = {
    "job.submit": (jobs.JobRequested, "A job file as JSON."),
    "job.cancel": (jobs.JobCancelRequested, '`{"job": id}`.'),
    "queue.apply": (QueueApplyRequested, "A department's or project's document as JSON."),
    "pool.apply": (PoolApplyRequested, "A pool's document as JSON."),
    "scheduling.apply": (SchedulingApplyRequested, "The document of how turns are taken, as JSON."),
    "node.change": (NodeChangeRequested, '`{"node": id, "change": "cordon|uncordon|fence"}`.'),
    "secret.set": (SecretSetRequested, '`{"name": …, "sealed": base64 of a sealed box}`.'),
    "publisher.create": (
        PublisherRequested,
        '`{"name": …, "public_key": an NKey, "at_s": …, "signature": of the key}`.',
    ),
    "publisher.delete": (PublisherDeleteRequested, '`{"name": …}`.'),
    "project.erase": (ProjectEraseRequested, "`{}`."),
}
"""What can be asked: the verb, the fact that records it, and the body."""

ENVELOPE = {
    "type": "object",
    "required": ["ce-id", "ce-type", "ce-source", "ce-specversion"],
    "properties": {
        "ce-id": {"type": "string", "description": "With the source, the idempotency key."},
        "ce-type": {"type": "string", "description": "headrace.<noun>.<verb>.v1, as the subject."},
        "ce-source": {"type": "string"},
        "ce-specversion": {"const": "1.0"},
        "traceparent": {"type": "string", "description": "W3C trace context."},
    },
}
ANSWER = {
    "type": "object",
    "required": ["accepted", "position"],
    "properties": {
        "accepted": {"type": "boolean"},
        "position": {"type": "integer", "description": "Where in the log the answer stands."},
        "job": {"type": "string"},
        "refusal": {"type": "object"},
        "message": {"type": "string"},
    },
}


def document(listeners: Mapping[str, tuple[type[Event], ...]]) -> dict[str, Any]:
    """The whole document; `listeners` are the events each service folds."""
    channels = {f"log.{tag_of(e)}": _log(e) for e in EVENTS}
    channels |= {f"event.{tag_of(e)}": _outcome(e) for e in EVENTS if e.public}
    for kind in ("job.post_answered.v1", "job.post_refused.v1"):
        channels[f"event.{kind}"] = _answer(kind)
    for verb in REQUESTS:
        channels |= {f"{door}.{verb}": _door(door, verb) for door in ("request", "post", "posted")}
    messages: dict[str, Any] = {tag_of(e): _message(e) for e in EVENTS}
    messages |= {f"public.{tag_of(e)}": _public(e) for e in EVENTS if e.public}
    messages |= {f"{verb}.v1": _request(verb) for verb in REQUESTS}
    messages["answer"] = {"payload": ANSWER}
    messages["receipt"] = {"headers": ENVELOPE, "summary": "The headers of a post, and no body."}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Headrace",
            "version": "1",
            "description": "Events, requests and outcomes on the bus.",
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": _operations(listeners),
        "components": {"messages": messages},
    }


def _log(event: type[Event]) -> dict[str, Any]:
    return _channel(f"headrace.log.{tag_of(event)}", tag_of(event), "For services only.")


def _outcome(event: type[Event]) -> dict[str, Any]:
    tag = tag_of(event)
    text = "A project's own events, public fields only."
    return _channel(f"headrace.event.{{project}}.{tag}", f"public.{tag}", text)


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
    return _channel(subject, "receipt" if door == "posted" else f"{verb}.v1", texts[door])


def _answer(kind: str) -> dict[str, Any]:
    text = "Of a post of which no new event tells; `ce-correlationid` is its key."
    if kind == "job.post_refused.v1":
        text += " Without one: posts have no room, said once a minute at most."
    return _channel(f"headrace.event.{{project}}.{kind}", "answer", text)


def _channel(address: str, message: str, description: str) -> dict[str, Any]:
    channel: dict[str, Any] = {"address": address, "description": description}
    if "{project}" in address:
        channel["parameters"] = {"project": {"description": "The project's id."}}
    if "{publisher}" in address:
        channel["parameters"]["publisher"] = {"description": "The name of who sends: no other may."}
    channel["messages"] = {message: {"$ref": f"#/components/messages/{message}"}}
    return channel


def _message(event: type[Event]) -> dict[str, Any]:
    return {
        "name": tag_of(event),
        "summary": (event.__doc__ or "").strip().splitlines()[0],
        "payload": {"$ref": f"schemas/{tag_of(event)}.json"},
    }


def _public(event: type[Event]) -> dict[str, Any]:
    fields = f"schemas/{tag_of(event)}.json#/$defs/{event.__name__}/properties"
    properties = {name: {"$ref": f"{fields}/{name}"} for name in event.public}
    return {"name": tag_of(event), "payload": {"type": "object", "properties": properties}}


def _request(verb: str) -> dict[str, Any]:
    fact, body = REQUESTS[verb]
    return {
        "name": f"headrace.{verb}.v1",
        "summary": f"{body} Recorded as {tag_of(fact)}.",
        "headers": ENVELOPE,
        "payload": {"type": "object"},
    }


def _operations(listeners: Mapping[str, tuple[type[Event], ...]]) -> dict[str, Any]:
    operations: dict[str, Any] = {}
    for name, folded in listeners.items():
        for event in EVENTS:
            if event.owner in {name, "*"}:
                operations[f"{name}.sends.{tag_of(event)}"] = _operation("send", event)
        for event in folded:
            operations[f"{name}.receives.{tag_of(event)}"] = _operation("receive", event)
    for verb, (fact, _) in REQUESTS.items():
        channel = {"$ref": f"#/channels/request.{verb}"}
        reply = {"messages": [{"$ref": "#/components/messages/answer"}]}
        operations[f"{fact.owner}.answers.{verb}"] = {
            "action": "receive",
            "channel": channel,
            "reply": reply,
        }
    return operations


def _operation(action: str, event: type[Event]) -> dict[str, Any]:
    return {"action": action, "channel": {"$ref": f"#/channels/log.{tag_of(event)}"}}
