"""The NATS library's client, hardened: strangers cannot deafen it, and nothing waits for later.

Rule: one bad message costs that message, one lost connection costs what was not sent on it, and a
client that cannot go on says that it is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import OutboundBufferLimitError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.protocol import parser
from nats.protocol.command import hpub_cmd

from headrace.bus.handling import end

UNSENT_BYTES_MAX = 8_388_608  # what may wait for the server to read on
ROOM_S = 2.0  # how long a publish waits for room before it is refused

# A subject may contain what the library takes for blanks (vertical tab, form feed). It would then
# read the rest of the subject as the subscription's number: the message would reach another handler,
# or the connection would end as if the server had broken the protocol. (The server writes two blanks
# where its own answers have no reply.)
parser.MSG_RE = re.compile(rb"\AMSG ([^ \t\r\n]+) (\d+) +(([^ \t\r\n]+) +)?(\d+)\r\n")
parser.HMSG_RE = re.compile(rb"\AHMSG ([^ \t\r\n]+) (\d+) +(([^ \t\r\n]+) +)?(\d+) (\d+)\r\n")


NAME = re.compile(r"[A-Za-z0-9-]+")  # of a header; what else it may have is the library's business
NAMES_MAX = 256  # remembered
_NAMES: set[str] = set()

NAME_BYTES = 16  # of randomness in an inbox's name: 22 characters, as many as the library counts on


class _RandomNames:
    """Stands in for the library's `NUID`: as long, and no name follows from another."""

    def next(self) -> bytearray:
        return bytearray(secrets.token_urlsafe(NAME_BYTES).encode())


class Undecodable(NatsError):
    """A message whose subject, reply or status cannot be read was dropped."""

    def __str__(self) -> str:
        return "a message that cannot be read was dropped"


class HardenedClient(Client):
    """`nats.aio.client.Client`, with what only its inside can mend."""

    def __init__(self) -> None:
        super().__init__()
        # The library draws a prefix once and counts on from it: one name tells the next ones.
        self._nuid = _RandomNames()  # type: ignore[assignment]
        # Called as a message is read: a queue and another task cost more than these do.
        self.at_once: set[Callable[[Msg], Awaitable[None]]] = {self._request_sub_callback}

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        if self._pending_data_size > UNSENT_BYTES_MAX:
            await self._make_room()
        await super().publish(subject, payload, reply, headers)

    async def _send_publish(
        self,
        subject: str,
        reply: str,
        payload: bytes,
        payload_size: int,
        headers: dict[str, str] | None,
    ) -> None:
        """The library looks at every character of every header, each time."""
        lines = _lines(headers) if headers else None
        if lines is None or not subject:
            await super()._send_publish(subject, reply, payload, payload_size, headers)
            return
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += payload_size
        await self._send_command(hpub_cmd(subject, reply, lines, payload))
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()

    async def _request_new_style(
        self,
        subject: str,
        payload: bytes,
        timeout: float = 1,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        """Each request has a random name of its own below the connection's: who was asked one thing
        cannot answer another. The library's own names can be counted on.
        """
        if not self._resp_sub_prefix:
            await self._init_request_sub()
        assert self._resp_sub_prefix is not None
        loop, name = asyncio.get_running_loop(), secrets.token_urlsafe(NAME_BYTES)
        answer: asyncio.Future[Msg] = loop.create_future()
        self._resp_map[name] = answer
        timer = loop.call_later(timeout, _expire, answer)
        try:
            reply = f"{self._resp_sub_prefix.decode()}{name}"
            await self.publish(subject, payload, reply=reply, headers=headers)
            return await answer
        finally:
            timer.cancel()
            del self._resp_map[name]

    async def _make_room(self) -> None:
        """Several publishes in a row go out in one write; a server that reads soon takes it."""
        flushing = self._flush_pending(force_flush=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(flushing, ROOM_S)
        if self._pending_data_size > UNSENT_BYTES_MAX:
            raise OutboundBufferLimitError

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        """Whatever is wrong with a message must not end the task that reads all of them."""
        subscription = self._subs.get(sid)
        try:
            if subscription is None or subscription._cb not in self.at_once:  # noqa: SLF001
                await super()._process_msg(sid, subject, reply, data, headers)
                return
            said = await self._process_headers(headers) if headers else None
            await subscription._cb(self._build_message(sid, subject, reply, data, said))  # noqa: SLF001
        except Exception:
            await self._error_cb(Undecodable())

    async def _attempt_reconnect(self) -> None:
        self._forget_unsent()
        try:
            await super()._attempt_reconnect()
        except Exception as error:  # the library would stay "reconnecting" for ever
            await self._error_cb(error)
            await self._close(Client.CLOSED)

    def _forget_unsent(self) -> None:
        """The library would send it on the next connection, and would wait without end for a dead
        one to take it. Subscriptions are told again anyway.
        """
        self._pending = []
        self._pending_data_size = 0
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()


class NatsSubscription:
    """A core subscription."""

    def __init__(self, client: HardenedClient, subscription: Subscription) -> None:
        self._client, self._subscription = client, subscription

    async def stop(self) -> None:
        handling = self._subscription._wait_for_msgs_task  # noqa: SLF001
        with contextlib.suppress(NatsError, OSError):
            await self._subscription.unsubscribe()
        if handling is not None:  # cancelled, but not yet ended
            await end(handling)
        self._client.at_once.discard(self._subscription._cb)  # noqa: SLF001


def _expire(answer: asyncio.Future[Msg]) -> None:
    if not answer.done():
        answer.set_exception(NatsTimeoutError())


def _lines(headers: dict[str, str]) -> bytes | None:
    """The headers as they are sent; None when the library must see to them."""
    text = "\r\n".join([f"{name}: {value.strip()}" for name, value in headers.items()])
    are_names = _NAMES.issuperset(headers) or all(map(_is_name, headers))
    if (
        not are_names
        or text.count("\r") != len(headers) - 1
        or text.count("\n") != len(headers) - 1
    ):
        return None
    return f"NATS/1.0\r\n{text}\r\n\r\n".encode()


def _is_name(name: str) -> bool:
    """Whether a header may be called so; most are called as others were."""
    is_one = bool(NAME.fullmatch(name))
    if is_one and len(_NAMES) < NAMES_MAX:
        _NAMES.add(name)
    return is_one
