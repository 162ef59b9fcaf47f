"""Files one after the other in one body: each with its name and its size before it.

Rule: the reader takes the body in whatever pieces it comes and keeps no file that does not match its
name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from headrace.bundles.manifest import BUNDLE_BYTES_MAX

HEAD = struct.Struct(">32sQ")


class BadFrame(ValueError):
    """The body is not what it should be; one line says why."""


def framed(digest: str, data: bytes) -> bytes:
    """One file as it travels."""
    return HEAD.pack(bytes.fromhex(digest), len(data)) + data


class Frames:
    """Gives every complete file to `take` (its name and content), which may raise."""

    def __init__(self, take: Callable[[str, bytes], None]) -> None:
        self._take = take
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        """The next piece of the body. Raises `BadFrame`, and what `take` does."""
        self._held += data
        at = 0
        while len(self._held) - at >= HEAD.size:
            digest, size = HEAD.unpack_from(self._held, at)
            if size > BUNDLE_BYTES_MAX:
                raise BadFrame(f"a file of {size} bytes; at most {BUNDLE_BYTES_MAX} travel")
            end = at + HEAD.size + size
            if len(self._held) < end:
                break
            self._take(digest.hex(), bytes(memoryview(self._held)[at + HEAD.size : end]))
            at = end
        del self._held[:at]

    def close(self) -> None:
        """The body has ended. Raises `BadFrame` in the middle of a file."""
        if self._held:
            raise BadFrame("the body ends in the middle of a file")
