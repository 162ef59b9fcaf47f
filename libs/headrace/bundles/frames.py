"""Files one after the other in one body: each with its name and its size before it.

Rule: the reader takes the body in whatever pieces it comes, holds no more of it than one head, and
hands every piece of a content on at once. What is kept of it, and where, is the sink's business.
"""

from __future__ import annotations

import struct
from typing import Protocol

from headrace.bundles.manifest import BUNDLE_BYTES_MAX, FILES_MAX

HEAD = struct.Struct(">32sQ")


class BadFrame(ValueError):
    """The body is not what it should be; one line says why."""


class Sink(Protocol):
    """Receives contents piece by piece; each method may raise, which ends the body."""

    def begin(self, digest: str, size: int) -> None:
        """A content of this name and of `size` bytes follows."""
        ...

    def add(self, piece: memoryview) -> None:
        """The next bytes of it. The view is valid during the call only."""
        ...

    def end(self) -> None:
        """It is complete."""
        ...


def framed(digest: str, data: bytes) -> bytes:
    """One file as it travels."""
    return HEAD.pack(bytes.fromhex(digest), len(data)) + data


class Frames:
    """Parses one body of at most `FILES_MAX` contents into `sink`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._head = bytearray()
        self._left = 0  # bytes of the content that is being read
        self.contents = 0  # that have begun

    def feed(self, data: bytes) -> None:
        """The next piece of the body. Raises `BadFrame`, and what the sink does."""
        rest = memoryview(data)
        while rest:
            if self._left:
                piece = rest[: self._left]
                self._sink.add(piece)
                self._left -= len(piece)
                rest = rest[len(piece) :]
                if not self._left:
                    self._sink.end()
                continue
            wanted = HEAD.size - len(self._head)
            self._head += rest[:wanted]
            rest = rest[wanted:]
            if len(self._head) == HEAD.size:
                self._begin()

    def _begin(self) -> None:
        digest, size = HEAD.unpack(self._head)
        self._head.clear()
        if size > BUNDLE_BYTES_MAX:
            raise BadFrame(f"a file of {size} bytes; at most {BUNDLE_BYTES_MAX} travel")
        self.contents += 1
        if self.contents > FILES_MAX:
            raise BadFrame(f"more than {FILES_MAX} files in one body")
        self._sink.begin(digest.hex(), size)
        self._left = size
        if not size:
            self._sink.end()

    def close(self) -> None:
        """The body has ended. Raises `BadFrame` in the middle of a file."""
        if self._head or self._left:
            raise BadFrame("the body ends in the middle of a file")
