"""Which headers pass between a browser and a workspace, and how they change on the way.

Rule: what opens the gateway never reaches a workspace, and what a workspace says concerns its own
host alone. Hop-by-hop headers as in RFC 9110 §7.6.1.
"""

from __future__ import annotations

from collections.abc import Iterable

COOKIE = "headrace_workspace"
SECURE_COOKIE = f"__Host-{COOKIE}"  # no other host can set one, RFC 6265bis §4.1.3.2

Headers = list[tuple[bytes, bytes]]

_HOPS = frozenset(
    (
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    )
)  # fmt: skip
_KEYS = frozenset((b"authorization", b"headrace-on-behalf-of"))
_OTHERS = frozenset((b"alt-svc", b"clear-site-data"))  # concern hosts beside the workspace's own
_SOCKET = b"sec-websocket-"
_APART: Headers = [  # neither framed, nor embedded, nor held by its window, by pages of other hosts
    (b"content-security-policy", b"frame-ancestors 'self'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin-allow-popups"),
    (b"origin-agent-cluster", b"?1"),
]


def cookies_of(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    """The cookies that could open a workspace: others than ours may have the name."""
    pairs = (crumb.partition("=") for crumb in _crumbs(headers))
    return [value for name, _, value in pairs if _is_ours(name)]


def to_workspace(headers: Iterable[tuple[bytes, bytes]], scheme: str) -> Headers:
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
    crumbs = [crumb for crumb in _crumbs(headers) if not _is_ours(crumb.partition("=")[0])]
    if crumbs:
        kept.append((b"cookie", "; ".join(crumbs).encode("latin-1")))
    kept.append((b"x-forwarded-proto", scheme.encode()))
    return kept


def from_workspace(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """A response's headers as the browser gets them. Several policies all hold, CSP3 §7.2; of the
    others the workspace may say its own.
    """
    headers = [(name.lower(), value) for name, value in headers]
    left_out = _HOPS | _OTHERS | _named(headers)
    kept = ((name, value) for name, value in headers if name not in left_out)
    changed = ((name, _changed(name, value)) for name, value in kept)
    passed = [(name, value) for name, value in changed if value]
    said = {name for name, _ in passed} - {b"content-security-policy"}
    return passed + [(name, value) for name, value in _APART if name not in said]


def _changed(name: bytes, value: bytes) -> bytes:
    """A header's value as the browser gets it. Empty: it does not."""
    return _own(value.decode("latin-1")).encode("latin-1") if name == b"set-cookie" else value


def _own(cookie: str) -> str:
    """The cookie for this workspace's host alone; empty when it would be the gateway's own."""
    first, *attributes = (part.strip() for part in cookie.split(";"))
    if _is_ours(first.partition("=")[0].strip()):
        return ""
    return "; ".join(
        [first, *(part for part in attributes if not part.lower().startswith("domain"))]
    )


def _is_ours(name: str) -> bool:
    return name in (COOKIE, SECURE_COOKIE)


def _named(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """The headers that `Connection` names, which are for this hop too."""
    values = (value for name, value in headers if name == b"connection")
    return frozenset(part.strip().lower() for value in values for part in value.split(b","))


def _crumbs(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    values = (value.decode("latin-1") for name, value in headers if name == b"cookie")
    return [crumb.strip() for value in values for crumb in value.split(";") if crumb.strip()]
