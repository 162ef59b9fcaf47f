"""A committed event as it travels to the other services: MessagePack of `Stored`.

Rule: the bytes of header and data travel as the log has them, so that a reader can check the chain.
"""

from __future__ import annotations

import msgspec

from headrace.store.interface import Stored

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Stored)


def encode(event: Stored) -> bytes:
    """The message for an event."""
    return _ENCODER.encode(event)


def decode(data: bytes) -> Stored:
    """The event in a message. Raises `msgspec.ValidationError` or `msgspec.DecodeError`."""
    return _DECODER.decode(data)
