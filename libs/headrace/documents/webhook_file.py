"""Documents of administrators: webhooks.

Rule: where a webhook points is checked here as far as its text tells; what a name resolves to is
checked whenever something is sent.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import msgspec

from headrace.documents.names import name_of
from headrace.documents.refusing import refuse
from headrace.documents.shape import Part, shaped
from headrace.events import EVENTS, tag_of
from headrace.events.webhooks import Webhook

WEBHOOK = "webhook"
URL_LENGTH_MAX = 2_000
TYPES_MAX = 32
TYPES_DEFAULT = ("job.finished", "job.refused")
PUBLIC = tuple(sorted(tag_of(event) for event in EVENTS if event.public))


class WebhookDocument(Part):
    """A webhook of a project. `events` are types of events or their beginnings; `private` allows an
    address that is not on the public internet.
    """

    type: str = ""
    name: str = ""
    project: str = ""
    url: str = ""
    events: list[str] = msgspec.field(default_factory=lambda: list(TYPES_DEFAULT))
    private: bool = False


class NamedWebhook(msgspec.Struct, frozen=True):
    """A webhook with its name and its project's."""

    project: str
    name: str
    webhook: Webhook


def webhook_of(document: object) -> NamedWebhook:
    """The webhook that a document describes. Raises `DocumentError`."""
    asked = shaped(document, WebhookDocument)
    return NamedWebhook(
        project=name_of("project", asked.project),
        name=name_of("name", asked.name),
        webhook=Webhook(
            url=_url(asked.url, is_private=asked.private),
            types=_types(asked.events),
            private=asked.private,
        ),
    )


def _url(text: str, *, is_private: bool) -> str:
    instead = "https://hooks.example.com/headrace"
    if len(text) > URL_LENGTH_MAX or not text.isascii() or not text.isprintable() or " " in text:
        refuse("url", f"has at most {URL_LENGTH_MAX} printable ASCII characters", instead=instead)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        refuse("url", "is no address", value=text, instead=instead)
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        refuse("url", "is no address of a web server", value=text or None, instead=instead)
    if parts.username is not None or parts.password is not None:
        refuse("url", "has a password in it; messages are signed instead", instead=instead)
    if not is_private and is_inside(parts.hostname):
        rule = "is not on the public internet"
        refuse("url", rule, value=parts.hostname, instead="private: true, if that is meant")
    return text


def is_inside(host: str) -> bool:
    """Whether the host is an address that is not on the public internet; a name is not known to be."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))
    return not address.is_global or address.is_multicast


def _types(names: list[str]) -> tuple[str, ...]:
    if not 0 < len(names) <= TYPES_MAX:
        refuse("events", f"has 1 to {TYPES_MAX} types of events")
    for i, name in enumerate(names):
        if not name or not any(tag.startswith(name) for tag in PUBLIC):
            instead = f"such as {', '.join(TYPES_DEFAULT)}"
            refuse(
                f"events[{i}]",
                "begins no event that a project is told",
                value=name,
                instead=instead,
            )
    return tuple(dict.fromkeys(names))
