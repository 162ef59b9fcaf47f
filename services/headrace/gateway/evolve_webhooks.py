"""How the projection's webhooks follow the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.client.webhook_model import WebhookRow
from headrace.events import Entry, Event
from headrace.events.webhooks import (
    WebhookConfigured,
    WebhookDeleted,
    WebhookFailing,
    WebhookReached,
    WebhookStopped,
)
from headrace.gateway.projection import Projection


def configured(projection: Projection, entry: Entry, event: WebhookConfigured) -> None:
    """It is there, and tried again if it had stopped."""
    name = event.project, event.name
    row = projection.webhooks.get(name)
    if row is None:
        row = WebhookRow(project=event.project, name=event.name, reached=entry.position)
        projection.webhooks[name] = row
    row.url, row.events, row.state, row.why = event.webhook.url, list(event.webhook.types), "", ""


def deleted(projection: Projection, _entry: Entry, event: WebhookDeleted) -> None:
    """It is gone."""
    projection.webhooks.pop((event.project, event.name), None)


def told(
    projection: Projection, _entry: Entry, event: WebhookReached | WebhookFailing | WebhookStopped
) -> None:
    """How far it has come, or why no further."""
    row = projection.webhooks.get((event.project, event.name))
    if row is None:
        return
    if isinstance(event, WebhookReached):
        row.reached, row.state, row.why = event.reached, "", ""
    else:
        row.state = "stopped" if isinstance(event, WebhookStopped) else "failing"
        row.why = f"at position {event.at}: {event.reason}"


FOLDS: dict[type[Event], Callable[[Projection, Entry, Any], None]] = {
    WebhookConfigured: configured,
    WebhookDeleted: deleted,
    WebhookReached: told,
    WebhookFailing: told,
    WebhookStopped: told,
}
