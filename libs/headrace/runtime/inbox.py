"""The doors through which requests reach a service, written once for all of them.

Rule: what cannot be understood is answered, counted, kept in the dead-letter stream, and never
enters the log. What is understood becomes a fact, and the answer is the decision made on it. Who
asked is what the bus has checked: the publisher in the subject, or who the gateway says; headers of
a publisher are data. Projects are served in turn, whatever door their requests come by.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from functools import partial
from typing import Any, Protocol

import msgspec

from headrace import telemetry
from headrace.access.allowed import Scope, Subject, allowed
from headrace.bus import subjects
from headrace.bus.handling import handle
from headrace.bus.interface import Bus, BusError, Handler, Message, Subscription
from headrace.documents.refusing import shown
from headrace.events import Fact, Refusal
from headrace.events.people import Grant
from headrace.runtime import together
from headrace.runtime.lanes import Lanes
from headrace.runtime.pending import PendingFacts, Reply, encode_fact
from headrace.runtime.pipelines.cloud_events import (
    JSON,
    SPEC_VERSION,
    TOO_LARGE,
    Envelope,
    cloud_event,
    read_envelope,
)
from headrace.runtime.posts import Posts
from headrace.runtime.service import Posting, Receive, Request, Runtime
from headrace.runtime.suggestions import Suggestions
from headrace.store.interface import EVENT_BYTES_MAX, NoRoom

NAME_RULE = "has 1 to 63 of a-z 0-9 and '-', not starting with '-'"
KEY_LENGTH_MAX = 200
SOURCE_LENGTH_MAX = 200
GATEWAY_SOURCE = "/gateway/"  # and who asks; a publisher's requests cannot come from there
GATEWAY = "gateway"  # the door at which what is said of who asks is believed
DEAD_BYTES_MAX = 16_384  # kept of a message that cannot be understood
ROOM_AFTER_S = 30  # before it is worth asking a full disk again
NOT_TAKEN = "the log's disk is full: nothing was taken; try again when there is room"
POST_ANSWER_S = 30.0  # how long a kept message waits for its decision before it comes again

_LOG = logging.getLogger("headrace.inbox")
POST_ANSWERED, POST_REFUSED = "job.post_answered.v1", "job.post_refused.v1"  # told of posts


class _Host(Runtime, Protocol):
    pending: PendingFacts
    counters: Counter[str]
    suggestions: Suggestions


class Inbox:
    """Receives a service's requests while it leads."""

    def __init__(
        self,
        host: _Host,
        requests: dict[str, Receive],
        posting: Posting | None = None,
    ) -> None:
        self._host = host
        self._requests = requests
        self._nouns = sorted({verb.partition(".")[0] for verb in requests})
        self._subscriptions: list[Subscription] = []
        self._unanswered: set[asyncio.Future[None]] = set()
        self._lanes = Lanes(host.pending.room)
        self._posting = posting
        self._posts = Posts(self._posted)

    async def open(self, bus: Bus) -> None:
        """Start receiving at every door."""
        self._lanes.open()
        if self._posting is not None:
            self._posts.open(bus)
            self.follow()
        for noun in self._nouns:
            for subject in (f"headrace.request.*.*.{noun}.*", f"headrace.{GATEWAY}.*.{noun}.*"):
                self._subscriptions.append(await bus.subscribe(subject, self._asked))

    def follow(self) -> None:
        """The state may be another one: other projects may have publishers."""
        if self._posting is not None:
            self._posts.follow(*self._posting(self._host.state))

    async def close(self) -> None:
        """Stop receiving; kept messages that are not answered come again to the next leader."""
        for answered in self._unanswered:
            if not answered.done():
                answered.set_exception(BusError("leadership ended"))
        await self._posts.close()
        for subscription in self._subscriptions:
            await subscription.stop()
        self._subscriptions.clear()
        await self._lanes.close()

    async def _asked(self, message: Message) -> None:
        if together.HEADER in message.headers and message.subject.split(".")[1] == GATEWAY:
            await self._asked_together(message)
            return

        async def reply(answer: dict[str, Any]) -> None:
            if message.reply:
                await self._host.bus.publish(message.reply, msgspec.json.encode(answer))

        await self._in_turn(message, reply)

    async def _asked_together(self, message: Message) -> None:
        """Several of the gateway's: what goes wrong with one concerns that one alone."""
        requests = list(together.requests_of(message))
        tell = partial(self._host.bus.publish, message.reply)
        answers = together.Answers(len(requests), tell)
        for index, each in enumerate(requests):
            await self._in_turn(each, answers.taking(index))

    async def _in_turn(
        self, message: Message, reply: Reply, receive: Handler | None = None
    ) -> None:
        """Receive it when it is its project's turn; a project with no room left is told so now."""
        project = message.subject.split(".")[2]
        refusal = self._lanes.refusal(project, len(message.data))
        if refusal is not None:
            self._host.counters["requests_refused_for_room"] += 1
            await reply(refusal_answer(refusal))
            return
        receive = receive or partial(self._receive, reply=reply)
        serve = partial(handle, receive, message, self._host.counters)
        self._lanes.add(project, serve, len(message.data))

    async def _posted(self, message: Message) -> None:
        """A kept message is done when it was answered: until then it comes again."""
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        known = self._host.position

        async def reply(answer: dict[str, Any]) -> None:
            if answer.get("again_after_s"):  # it was not judged: it stays where it is kept
                if not answered.done():
                    answered.set_exception(BusError(answer["message"]))
                return
            # refused at the door, or decided before it came again: no new event will say so
            if answer["position"] <= known:
                await self._tell_project(message, answer)
            if not answered.done():
                answered.set_result(None)

        async def receive(posted: Message) -> None:
            try:
                await self._receive(posted, reply)
            except Exception as error:  # it comes again at once, not when nobody answered
                if not answered.done():
                    answered.set_exception(error)

        self._unanswered.add(answered)
        try:
            await self._in_turn(message, reply, receive)
            async with asyncio.timeout(POST_ANSWER_S):
                await answered
        finally:
            self._unanswered.discard(answered)

    async def _receive(self, message: Message, reply: Reply) -> None:
        _, door, _, *_, noun, verb = message.subject.split(".")
        name = f"{noun}.{verb.replace('-', '_')}"
        envelope, unreadable = _envelope_of(message, door)
        with telemetry.span(f"receive {name}", envelope.traceparent, kind="consumer") as span:
            request = _request_of(message, envelope, name, span.traceparent)
            try:
                outcome = unreadable or await self._understood(request, envelope, door)
            except NoRoom as error:
                _LOG.error("a request is not taken reason=%s", error)
                await reply(no_room_answer())
                return
        if isinstance(outcome, Refusal):
            if not self._host.leading:
                return  # what it knows may be old: whoever asked asks the next leader
            self._host.counters["requests_refused_at_door"] += 1
            await self._keep_dead(message, outcome)
            host = self._host
            completed = host.suggestions.complete(outcome, host.state, request.project)
            await reply(refusal_answer(completed))
            return
        self._host.counters["requests"] += 1
        fact = encode_fact(
            outcome,
            actor=request.on_record,
            traceparent=request.traceparent,
            request_source=request.source,
            request_key=request.key,
            request_hash=_hash(request),
        )
        self._host.pending.add(fact, reply)
        self._host.wake()

    async def _understood(self, request: Request, envelope: Envelope, door: str) -> Fact | Refusal:
        if not subjects.is_token(request.project):
            return Refusal(field="project", value=request.project[:63], rule=NAME_RULE)
        if not 1 <= len(request.key) <= KEY_LENGTH_MAX or not request.key.isprintable():
            rule = f"an idempotency key has 1 to {KEY_LENGTH_MAX} printable characters"
            return Refusal(field=f"{envelope.prefix}id", rule=rule)
        refusal = None if door == GATEWAY else _envelope_refusal(request, envelope)
        if refusal is not None:
            return refusal
        if self._host.pending.full:
            return Refusal(field="request", rule="too many are waiting", instead="repeat it soon")
        receive = self._requests.get(request.verb)
        if receive is None:
            known = ", ".join(sorted(self._requests))
            return Refusal(field="request", value=request.verb, rule=f"known here: {known}")
        refusal = None if door == GATEWAY else _not_for_publishers(request)
        return refusal or await receive(request, self._host)

    async def _keep_dead(self, message: Message, refusal: Refusal) -> None:
        headers = {
            "Headrace-Reason": str(refusal).encode("ascii", "replace").decode()[:500],
            "Headrace-Subject": message.subject,
        }
        try:
            data = message.data[:DEAD_BYTES_MAX]
            subject = subjects.deadletter(message.subject.split(".")[2])
            await self._host.bus.store(subject, data, headers)
        except BusError as error:
            _LOG.warning("dead letter not kept error=%s", error)

    async def _tell_project(self, message: Message, answer: dict[str, Any]) -> None:
        project = message.subject.split(".")[2]
        if not subjects.is_token(project):
            return  # nobody can listen there
        envelope, _ = read_envelope(message)
        await tell_answer(
            self._host.bus,
            project,
            answer,
            at_us=self._host.now_us(),
            key=envelope.id[:KEY_LENGTH_MAX],
            source=envelope.source[:SOURCE_LENGTH_MAX],
        )


def refusal_answer(refusal: Refusal, position: int = 0) -> dict[str, Any]:
    """What the asker of a refused request gets."""
    return {
        "accepted": False,
        "position": position,
        "refusal": msgspec.to_builtins(refusal),
        "message": str(refusal),
    }


def no_room_answer(line: str = NOT_TAKEN) -> dict[str, Any]:
    """What the asker gets while the log's disk is full."""
    return {"accepted": False, "position": 0, "message": line, "again_after_s": ROOM_AFTER_S}


async def tell_answer(
    bus: Bus, project: str, answer: dict[str, Any], *, at_us: int, key: str = "", source: str = ""
) -> None:
    """Tell a project the answer to what was posted, of which no event of the log tells: it was refused
    at the door, or decided before it came again. Without a `key` it is about all that is posted.
    """
    kind = POST_ANSWERED if answer["accepted"] else POST_REFUSED
    job = str(answer.get("job", ""))
    told = hashlib.sha256("\0".join((project, source, key, str(at_us))).encode()).hexdigest()[:32]
    headers = cloud_event(id=f"post-{told}", type=kind, at_us=at_us, subject=job)
    headers["ce-datacontenttype"] = JSON
    if key:
        headers["ce-correlationid"], headers["ce-correlationsource"] = key, source
    # an id is the name, a hyphen and a random part without one
    named = {"job": job, "name": job.rpartition("-")[0], "project": project, "key": key}
    body = {**named, "reason": str(answer.get("message", "")), **answer, "type": kind}
    await bus.publish(subjects.event(project, kind), msgspec.json.encode(body), headers)


def _envelope_of(message: Message, door: str) -> tuple[Envelope, Refusal | None]:
    """At the gateway's door headers are the gateway's own; elsewhere a publisher's, in two modes."""
    if door != GATEWAY:
        return read_envelope(message)
    get = message.headers.get
    envelope = Envelope(id=get("ce-id", ""), traceparent=get("traceparent", ""), data=message.data)
    return envelope, TOO_LARGE if len(message.data) > EVENT_BYTES_MAX else None


def _request_of(message: Message, envelope: Envelope, verb: str, traceparent: str) -> Request:
    """The request, with who asked by its subject; at the gateway's door, by its headers."""
    headers = message.headers
    _, door, project, publisher, *_ = message.subject.split(".")
    request = Request(
        verb=verb,
        project=project,
        key=envelope.id,
        body=envelope.data,
        actor=f"publisher:{project}/{publisher}",
        source=envelope.source,
        traceparent=traceparent,
    )
    if door != GATEWAY:
        return request
    request = msgspec.structs.replace(
        request,
        actor=headers.get("Headrace-Actor", "")[:KEY_LENGTH_MAX],
        via=headers.get("Headrace-Via", "")[:KEY_LENGTH_MAX],
    )
    return msgspec.structs.replace(request, source=f"{GATEWAY_SOURCE}{request.on_record}")


def _envelope_refusal(request: Request, envelope: Envelope) -> Refusal | None:
    """What is wrong with what a publisher says of its request."""
    publisher, prefix = request.actor.rpartition("/")[2], envelope.prefix
    if not subjects.is_token(publisher):
        return Refusal(field="publisher", value=publisher[:63], rule=NAME_RULE)
    source, kind = request.source, envelope.type
    if envelope.specversion != SPEC_VERSION:
        rule = "is not the version of CloudEvents that is spoken here"
        return Refusal(
            field=f"{prefix}specversion",
            value=shown(envelope.specversion),
            rule=rule,
            instead=SPEC_VERSION,
        )
    if not 1 <= len(source) <= SOURCE_LENGTH_MAX or not source.isprintable():
        rule = f"a source has 1 to {SOURCE_LENGTH_MAX} printable characters"
        return Refusal(field=f"{prefix}source", rule=rule, instead=f"/{publisher}")
    if source.startswith(GATEWAY_SOURCE):
        rule = "is the source of requests over HTTP"
        return Refusal(
            field=f"{prefix}source", value=shown(source), rule=rule, instead=f"/{publisher}"
        )
    if kind != f"headrace.{request.verb}.v1":
        rule = f"is not what the subject says ({request.verb[:SOURCE_LENGTH_MAX]})"
        instead = f"headrace.{request.verb[:SOURCE_LENGTH_MAX]}.v1"
        return Refusal(field=f"{prefix}type", value=shown(kind), rule=rule, instead=instead)
    return None


def _not_for_publishers(request: Request) -> Refusal | None:
    """Whoever comes by the bus is a publisher of the project that the subject names: the bus has let
    nobody else send there. The gateway has judged its requests itself.
    """
    noun, _, verb = request.verb.partition(".")
    publisher = Subject(
        name=request.actor, grants=(Grant(role="publisher", scope=request.project),)
    )
    judged = allowed(publisher, verb, noun, Scope((request.project,)))
    return judged if isinstance(judged, Refusal) else None


def _hash(request: Request) -> bytes:
    """Over the verb and the body with its keys sorted, so that key order and spacing do not make
    another request. A body that is no JSON, for a receiver that does not read it, stands as it is.
    """
    try:
        body = msgspec.json.encode(msgspec.json.decode(request.body or b"{}"), order="sorted")
    except (msgspec.DecodeError, RecursionError):
        body = request.body
    return hashlib.sha256(request.verb.encode() + b"\0" + body).digest()
