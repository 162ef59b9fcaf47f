"""Which headers pass between a browser and a workspace, and how they change on the way.

Rule: what opens the gateway never reaches a workspace, and a workspace sets cookies and sends people
nowhere but below its own address. Hop-by-hop headers as in RFC 9110 §7.6.1.
"""

from __future__ import annotations

from collections.abc import Iterable

COOKIE = "headrace_workspace"

Headers = list[tuple[bytes, bytes]]

_HOPS = frozenset(
    (
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    )
)  # fmt: skip
_KEYS = frozenset((b"authorization", b"headrace-on-behalf-of"))
_SOCKET = b"sec-websocket-"


def cookie_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The cookie that opens a workspace; empty when there is none."""
    for crumb in _crumbs(headers):
        name, _, value = crumb.partition("=")
        if name == COOKIE:
            return value
    return ""


def to_workspace(headers: Iterable[tuple[bytes, bytes]], prefix: str, scheme: str) -> Headers:
    """A request's headers as the workspace gets them."""
    headers = list(headers)
    named = _named(headers)
    kept = [
        (name, value)
        for name, value in headers
        if name not in _HOPS | _KEYS | named
        and name != b"cookie"
        and not name.startswith((_SOCKET, b"x-forwarded-"))
    ]
    crumbs = [crumb for crumb in _crumbs(headers) if not crumb.startswith(f"{COOKIE}=")]
    if crumbs:
        kept.append((b"cookie", "; ".join(crumbs).encode("latin-1")))
    kept.append((b"x-forwarded-prefix", prefix.encode()))
    kept.append((b"x-forwarded-proto", scheme.encode()))
    return kept


def from_workspace(headers: Iterable[tuple[bytes, bytes]], prefix: str) -> Headers:
    """A response's headers as the browser gets them."""
    headers = [(name.lower(), value) for name, value in headers]
    named = _named(headers)
    kept = ((name, value) for name, value in headers if name not in _HOPS | named)
    changed = ((name, _changed(name, value, prefix)) for name, value in kept)
    return [(name, value) for name, value in changed if value is not None]


def _changed(name: bytes, value: bytes, prefix: str) -> bytes | None:
    """A header's value as the browser gets it; None: it does not."""
    if name == b"location" and value.startswith(b"/") and not value.startswith(b"//"):
        return prefix.encode() + value
    if name == b"set-cookie":
        return _below(value.decode("latin-1"), prefix).encode("latin-1") or None
    return value


def _below(cookie: str, prefix: str) -> str:
    """The cookie for this workspace's address alone; empty when it would be the gateway's own."""
    first, *attributes = (part.strip() for part in cookie.split(";"))
    if first.partition("=")[0].strip() == COOKIE:
        return ""
    kept = [part for part in attributes if not part.lower().startswith(("path", "domain"))]
    return "; ".join([first, *kept, f"Path={prefix}/"])


def _named(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """The headers that `Connection` names, which are for this hop too."""
    values = (value for name, value in headers if name == b"connection")
    return frozenset(part.strip().lower() for value in values for part in value.split(b","))


def _crumbs(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    values = (value.decode("latin-1") for name, value in headers if name == b"cookie")
    return [crumb.strip() for value in values for crumb in value.split(";") if crumb.strip()]
