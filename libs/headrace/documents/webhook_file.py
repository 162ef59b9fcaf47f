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
_CARRYING = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96")))
_RESERVED = tuple(map(ipaddress.ip_network, ("64:ff9b:1::/48", "fec0::/10", "192.0.0.0/24")))
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
    if isinstance(address, ipaddress.IPv6Address):
        address = _carried(address)
    is_reserved = any(address in net for net in _RESERVED if net.version == address.version)
    return not address.is_global or address.is_multicast or is_reserved


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address to which a network may translate this one, else itself (RFC 6052, 3056)."""
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and any(address in net for net in _CARRYING):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address


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
