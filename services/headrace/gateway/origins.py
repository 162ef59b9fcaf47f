"""Whether a browser asks on behalf of a page of this very host.

Rule: what a cookie opens is asked for by our own pages alone; pages of other places link here and no
more. Sources: the Fetch Metadata Request Headers of the W3C, which browsers send to trustworthy
origins, and `Origin` (RFC 6454), which all send with whatever changes something.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

_OTHER_PLACES = ("same-site", "cross-site")


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
