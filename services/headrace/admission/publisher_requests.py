"""What is asked about publishers: a place on the bus, a later end of its login, its end.

Rule: a key is registered, and its login renewed, by whoever proves to hold it.
"""

from __future__ import annotations

from headrace.admission.bodies import PublisherNamed
from headrace.admission.possession import possession_refusal
from headrace.client.model import publisher_text
from headrace.events import Fact, Refusal
from headrace.events.access import PublisherDeleteRequested, PublisherRequested
from headrace.runtime.asking import Named, decoded, receives
from headrace.runtime.service import Receive, Request, Runtime


async def _create_publisher(request: Request, runtime: Runtime) -> Fact | Refusal:
    """`publisher.create`."""
    return _publisher(request, runtime, renews=False)


async def _renew_publisher(request: Request, runtime: Runtime) -> Fact | Refusal:
    """`publisher.renew`: the key alone says who asks."""
    return _publisher(request, runtime, renews=True)


def _publisher(request: Request, runtime: Runtime, *, renews: bool) -> Fact | Refusal:
    asked = decoded(request.body, PublisherNamed)
    if isinstance(asked, Refusal):
        return asked
    refusal = possession_refusal(
        asked.public_key,
        publisher_text(request.project, asked.name, asked.at_s),
        asked.signature,
        at_s=asked.at_s,
        now_us=runtime.now_us(),
    )
    return refusal or PublisherRequested(
        project=request.project,
        name=asked.name,
        public_key=asked.public_key,
        user=request.actor,
        renews=renews,
        durable=asked.durable and not renews,
    )


@receives(Named)
def _delete_publisher(asked: Named, request: Request) -> Fact | Refusal:
    return PublisherDeleteRequested(project=request.project, name=asked.name, user=request.actor)


PUBLISHER_RECEIVERS: dict[str, Receive] = {
    "publisher.create": _create_publisher,
    "publisher.renew": _renew_publisher,
    "publisher.delete": _delete_publisher,
}
