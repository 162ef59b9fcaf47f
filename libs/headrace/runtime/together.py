"""Requests of one moment, which travel in one message, and their answers in one other.

Rule: each is received and answered as if it had come alone. Who is not answered soon after the others
is not answered here: whoever asked repeats that one under its key.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import msgspec

from headrace.bus.interface import BusError, Message
from headrace.runtime.pending import Reply

HEADER = "Headrace-Together"  # of a message that carries requests: how many
REQUESTS_MAX = 64  # in one message
BODIES_BYTES_MAX = (
    262_144  # of all of them, unless one alone has more: a quarter of what a bus takes
)
LATE_S = 0.05  # after the first answer


class Request(msgspec.Struct, frozen=True, array_like=True):
    """One of them, as a message of its own would have it."""

    headers: dict[str, str]
    body: bytes


_ENCODE = msgspec.msgpack.Encoder().encode
_REQUESTS = msgspec.msgpack.Decoder(list[Request])
_ANSWERS = msgspec.msgpack.Decoder(list[bytes])


def message_of(requests: Sequence[Request]) -> tuple[bytes, dict[str, str]]:
    """What carries them, and its headers."""
    return _ENCODE(requests), {HEADER: str(len(requests))}


def requests_of(message: Message) -> Iterator[Message]:
    """Each of them as a message of its own. Raises `msgspec.MsgspecError`."""
    for request in _REQUESTS.decode(message.data):
        yield Message(subject=message.subject, data=request.body, headers=request.headers)


def answers_of(data: bytes) -> list[bytes]:
    """The answers, in the order of the requests; empty for one that is not answered.

    Raises `msgspec.MsgspecError`.
    """
    return _ANSWERS.decode(data)


class Answers:
    """The answers to so many requests, until they are sent: once, as a message."""

    def __init__(self, count: int, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._given = [b""] * count
        self._left = count
        self._late: asyncio.Task[None] | None = None
        self._is_sent = False

    def taking(self, index: int) -> Reply:
        """What takes the answer to this one."""

        async def take(answer: dict[str, Any]) -> None:
            self._given[index] = msgspec.json.encode(answer)
            self._left -= 1
            if not self._left:
                await self._tell()
            elif self._late is None:
                self._late = asyncio.create_task(self._tell_late())

        return take

    async def _tell_late(self) -> None:
        await asyncio.sleep(LATE_S)
        self._late = None
        with contextlib.suppress(BusError):  # they are asked again
            await self._tell()

    async def _tell(self) -> None:
        if self._is_sent:
            return
        self._is_sent = True
        if self._late is not None:
            self._late.cancel()
        await self._send(_ENCODE(self._given))
