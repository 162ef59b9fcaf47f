"""One small JSON document from a server outside.

Rule: over TLS unless it is on this machine; bounded in time and size; no redirects.
"""

from __future__ import annotations

import http.client
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import msgspec

FETCH_S_MAX = 5.0
FETCH_BYTES_MAX = 1_048_576
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class FetchError(Exception):
    """It could not be had, and why."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def fetch_json(url: str, form: bytes | None = None) -> dict[str, Any]:
    """The JSON object at `url`, or what is answered to a `form` that is sent there. Blocks.

    Raises `FetchError`.
    """
    check_url(url)
    try:
        with _OPENER.open(urllib.request.Request(url, form), timeout=FETCH_S_MAX) as answer:  # noqa: S310
            data = answer.read(FETCH_BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(f"{url}: {error}") from error
    if len(data) > FETCH_BYTES_MAX:
        raise FetchError(f"{url} answers with more than {FETCH_BYTES_MAX} bytes")
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FetchError(f"{url} does not answer with JSON: {error}") from error
    if not isinstance(found, dict):
        raise FetchError(f"{url} does not answer with a JSON object")
    return found


def check_url(url: str) -> None:
    """Raise `FetchError` for an address that must not be asked."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise FetchError(f"{url[:200]!r} is no address") from error
    if parts.scheme != "https" and not (parts.scheme == "http" and host in LOOPBACK):
        raise FetchError(f"{url[:200]!r} must begin with https://")
