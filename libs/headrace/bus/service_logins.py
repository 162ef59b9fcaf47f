"""What each service may say and hear on the bus, and nothing else.

Rule: a service publishes the events it owns, hears the log, and takes requests about the nouns whose
facts it records; what more one of them does stands in `MORE`. Answers come to an inbox of its own.
"""

from __future__ import annotations

from headrace.bus import subjects
from headrace.bus.credentials import Permissions
from headrace.events import EVENTS, Event, tag_of

GATEWAY = "gateway"

_TAKES_REQUESTS = Permissions(
    publish=(
        "headrace.deadletter.>",
        "headrace.event.*.job.post_answered.v1",  # of what was posted
        "headrace.event.*.job.post_refused.v1",
    ),
    subscribe=(),
)
MORE = {
    "admission": Permissions(  # works through what publishers posted, project by project
        publish=(
            subjects.POSTING,
            subjects.DURABLE,
            "$JS.API.CONSUMER.*.*.inbox",
            "$JS.API.CONSUMER.*.*.inbox.>",
            "$JS.API.CONSUMER.*.*.*.inbox",
            "$JS.ACK.*.inbox.>",
        ),
        subscribe=(),
    ),
    "placement": Permissions(
        publish=("headrace.agent.*.down.>",),
        subscribe=(*map(subjects.agents_up, subjects.SAID_TO_PLACEMENT), subjects.WHY),
    ),
    "metrics": Permissions(  # its process also keeps the streams
        publish=(
            "headrace.relay.log.>",
            "headrace.event.>",
            "$JS.API.STREAM.>",
            "$JS.API.CONSUMER.NAMES.EVENTS",  # and asks consumers in durable publishers' names
            "$JS.API.CONSUMER.CREATE.EVENTS.>",
            "$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.*",
            "$JS.API.CONSUMER.DELETE.EVENTS.*",
            "$JS.API.CONSUMER.MSG.NEXT.EVENTS.*",
            "$JS.ACK.EVENTS.>",
        ),
        subscribe=(
            "headrace.agent.*.up.signal",
            subjects.PROGRESS,
            subjects.USES,
            subjects.POSTING,
            subjects.DURABLE,
            subjects.OUTCOMES_NEXT,
        ),
    ),
    GATEWAY: Permissions(
        publish=(
            subjects.GATEWAY_ALL,
            subjects.WHY,
            subjects.USES,
            "headrace.agent.*.down.logs",
            "headrace.agent.*.down.session",
            "headrace.agent.*.down.session.*",
        ),
        subscribe=(
            "headrace.agent.*.up.session.*",
            subjects.FILES_ASKED,
            subjects.PROGRESS,
            subjects.PRESENCE,
        ),
    ),
}


def service_permissions(service: str) -> Permissions:
    """Of one service; it may answer whoever asks it."""
    owned = [event for event in EVENTS if event.owner == service]
    publish = [subjects.PRESENCE, *(f"headrace.log.{noun}.>" for noun in _nouns(owned))]
    subscribe = [subjects.LOG, f"{subjects.service_inbox(service)}.>"]
    if owned:
        publish += ["headrace.log.service.>", *_TAKES_REQUESTS.publish]
    for noun in _nouns([event for event in owned if event.kind == "fact"]):
        subscribe += [f"headrace.request.*.*.{noun}.*", f"headrace.gateway.*.{noun}.*"]
    more = MORE.get(service, Permissions(publish=(), subscribe=()))
    return Permissions(
        publish=(*publish, *more.publish), subscribe=(*subscribe, *more.subscribe), answers=True
    )


def _nouns(events: list[type[Event]]) -> list[str]:
    return sorted({tag_of(event).partition(".")[0] for event in events})
