"""Whether a browser asks on behalf of a page of this very host, and what it may do with our answers.

Rule: what a cookie opens is asked for by our own pages alone; pages of other places link here and no
more. What users wrote is never a page, whatever it looks like. Sources: the Fetch Metadata Request Headers of the W3C, which browsers send to trustworthy
origins, and `Origin` (RFC 6454), which all send with whatever changes something.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from litestar.types import ASGIApp, Receive, Scope, Send

_OTHER_PLACES = ("same-site", "cross-site")
_HARMLESS = [  # neither guessed to be a page, nor one that does anything, nor read by other places
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


def is_of_own_pages(header: Callable[[str], str], method: str) -> bool:
    """Whether no page of another place asks, or one that only links here. `header` gives a header's
    value, "" without; `method` is empty for a WebSocket. Programs say nothing.
    """
    origin = header("origin")
    if origin and urlsplit(origin).netloc != header("host"):
        return False
    if header("sec-fetch-site") not in _OTHER_PLACES:
        return True
    goes_to = (header("sec-fetch-mode"), header("sec-fetch-dest"))
    return method in ("GET", "HEAD") and goes_to == ("navigate", "document")


def harmless(app: ASGIApp) -> ASGIApp:
    """The same application, whose answers do nothing in a browser but be looked at."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HARMLESS]
            await send(message)

        await app(scope, receive, told)

    return answer
