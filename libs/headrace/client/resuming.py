"""Streams that go on over broken connections.

Rule: one that was never open is not tried again. A break that the next try mends is no news; one
that it does not is told once, and once more when the connection is back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from headrace.client.connection import RETRY_S
from headrace.client.errors import Unreachable

BREAKS_MAX = 100  # of one stream, one after the other with nothing received in between
BREAKS_TOLD = 2  # that are so many one after the other

# Called with what is wrong while a stream is tried again, and with None once it goes on.
OnBreak = Callable[[Unreachable | None], None] | None


def resumed(
    lines: Callable[[], Iterator[bytes]], on_break: OnBreak, end: bytes = b""
) -> Iterator[bytes]:
    """The lines of a stream that is opened again whenever it breaks, if it was ever open; up to the
    line `end`. Raises `ClientError`: `Unreachable` after `BREAKS_MAX` breaks.
    """
    breaks, heard = 0, False
    while True:
        try:
            for line in lines():
                if breaks >= BREAKS_TOLD and on_break is not None:
                    on_break(None)
                breaks, heard = 0, True
                if line == end:
                    return
                yield line
        except Unreachable as error:
            breaks += 1
            if breaks > BREAKS_MAX or not heard:
                raise
            if breaks == BREAKS_TOLD and on_break is not None:
                on_break(error)
        time.sleep(RETRY_S)
