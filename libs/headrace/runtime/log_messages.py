"""Committed events as they travel to the other services: MessagePack of a list of `Stored`.

Rule: the bytes of header and data travel as the log has them, so that a reader can check the chain.
A message has events of one type, which follow each other in the log: as many as were appended so, and
as fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from headrace.store.interface import Stored

RUN_BYTES_MAX = 524_288  # of headers and data, unless one event has more: half of what a bus takes

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Stored])


def runs(events: Sequence[Stored]) -> Iterator[Sequence[Stored]]:
    """The events, in order, as those of each message."""
    begin, size = 0, 0
    for index, event in enumerate(events):
        event_size = len(event.header) + len(event.data)
        is_other = event.type != events[begin].type or size + event_size > RUN_BYTES_MAX
        if is_other and index > begin:
            yield events[begin:index]
            begin, size = index, 0
        size += event_size
    if events:
        yield events[begin:]


def encode(*events: Stored) -> bytes:
    """The message for these events."""
    return _ENCODER.encode(events)


def decode(data: bytes) -> list[Stored]:
    """The events in a message. Raises `msgspec.ValidationError` or `msgspec.DecodeError`."""
    return _DECODER.decode(data)
